//! What the broker gives back: facts, not yet worded. Whatever came from inside keeps a type that says so.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Stages, install::Installed};
use crate::{
    egress,
    output::{self, CapturedStream, SHOWN_BYTES, Shown},
    types::{ArtifactId, FileId, Limits, RunId, SandboxId, Sha256, Status, WorkspacePath},
};

/// A run that took place, however it ended.
#[derive(Debug)]
pub struct RunReport {
    /// Its id in the audit log.
    pub run_id: RunId,
    /// How it ended.
    pub status: Status,
    /// The exit code, where it exited by itself.
    pub exit_code: Option<i32>,
    /// The signal's number, where one ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: StreamReport,
    /// Standard error.
    pub stderr: StreamReport,
    /// Wall time of the program, measured outside.
    pub duration: Duration,
    /// Processor time: the guest's claim.
    pub cpu: Duration,
    /// Peak resident memory of one process: the guest's claim.
    pub peak_memory_bytes: Option<u64>,
    /// New and changed files.
    pub artifacts: Vec<RunArtifact>,
    /// Files left out.
    pub artifacts_omitted: u64,
    /// What it ran in.
    pub sandbox: SandboxReport,
    /// The language's name.
    pub language: String,
    /// The limits it ran under.
    pub limits: Limits,
    /// What it reached, and what it was denied.
    pub egress: egress::Report,
    /// What became of the packages that were asked for; none where none were. Where they could not be put in, status,
    /// output and duration are the installer's.
    pub packages: Option<InstallReport>,
    /// Where the time went.
    pub stages: Stages,
}

/// What became of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstallReport {
    /// Whether all of them are there. Otherwise the program was not started.
    pub complete: bool,
    /// How long it took.
    pub duration: Duration,
}

impl InstallReport {
    pub(super) fn of(installed: &Installed) -> Self {
        Self {
            complete: installed.is_complete(),
            duration: installed.duration(),
        }
    }
}

/// What came of the wish for a session.
#[derive(Debug)]
pub enum Opening {
    /// It is open.
    Opened(Opened),
    /// Its packages could not be put in, and it is gone.
    NotInstalled(NotInstalled),
}

/// An installation that failed, with what the installer said.
#[derive(Debug)]
pub struct NotInstalled {
    /// How it ended.
    pub status: Status,
    /// The exit code, where it exited by itself.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration: Duration,
    /// Standard output.
    pub stdout: Shown,
    /// Standard error.
    pub stderr: Shown,
    /// What it reached, what it was denied and what failed.
    pub egress: egress::Report,
}

impl NotInstalled {
    pub(super) fn of(installed: &Installed) -> Self {
        let outcome = installed.outcome();
        let captured = &installed.account.captured;
        let shown = |stream: &CapturedStream| output::show(&stream.window, SHOWN_BYTES);
        Self {
            status: outcome.status,
            exit_code: outcome.exit_code,
            duration: installed.duration(),
            stdout: shown(&captured.stdout),
            stderr: shown(&captured.stderr),
            egress: installed.egress.clone(),
        }
    }
}

/// One output stream.
#[derive(Debug)]
pub struct StreamReport {
    /// What is shown of it.
    pub shown: Shown,
    /// The whole raw stream, wherever it is not shown as it was.
    pub artifact_id: Option<ArtifactId>,
}

/// A file that a run left.
#[derive(Debug)]
pub struct RunArtifact {
    /// Its id, once a copy is kept.
    pub artifact_id: Option<ArtifactId>,
    /// Where it lay.
    pub path: WorkspacePath,
    /// Its size.
    pub bytes: u64,
    /// Its media type.
    pub media_type: String,
    /// SHA-256 of the copy.
    pub sha256: Option<Sha256>,
    /// The content, where it is a picture within bounds.
    pub picture: Option<Vec<u8>>,
}

/// What a run ran in.
#[derive(Debug)]
pub struct SandboxReport {
    /// The runtime's name.
    pub runtime: String,
    /// The image's reference.
    pub image: String,
    /// The egress profile, or none.
    pub network: String,
    /// The session, if any.
    pub session: Option<SandboxId>,
    /// Whether nothing had run in it before.
    pub fresh: bool,
}

/// A file that was kept or written.
#[derive(Debug)]
pub struct Uploaded {
    /// Its id; none where it went into a session.
    pub file_id: Option<FileId>,
    /// Its path.
    pub path: WorkspacePath,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content.
    pub sha256: String,
    /// The session it was written into.
    pub session: Option<SandboxId>,
    /// When it will be gone, RFC 3339.
    pub expires_at: String,
}

/// A session that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Its id.
    pub session: SandboxId,
    /// When its lease is over, RFC 3339.
    pub expires_at: String,
    /// Seconds without use after which it ends.
    pub idle_seconds: u64,
    /// What its image runs.
    pub languages: Vec<String>,
    /// The image's reference.
    pub image: String,
    /// The runtime's name.
    pub runtime: String,
    /// The egress profile, or none.
    pub network: String,
}

/// An artifact as it is kept.
#[derive(Debug)]
pub struct Fetched {
    /// Its id.
    pub artifact_id: ArtifactId,
    /// Its path, with visible escapes.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its media type.
    pub media_type: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// The content, where it is a picture within bounds.
    pub picture: Option<Vec<u8>>,
}

/// Some bytes of an artifact.
#[derive(Debug)]
pub struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

impl Piece {
    /// `bytes` that begin at `offset` of the whole.
    #[must_use]
    pub fn new(offset: u64, bytes: Vec<u8>) -> Self {
        Self { offset, bytes }
    }

    /// Where it begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it reads as text: UTF-8 but for a character torn at its end, and without NUL.
    #[must_use]
    pub fn is_text(&self) -> bool {
        !self.bytes.contains(&0)
            && match std::str::from_utf8(&self.bytes) {
                Ok(_) => true,
                Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
            }
    }

    /// The bytes without a character torn at the end, unless nothing else would be left.
    #[must_use]
    pub fn on_characters(&self) -> &[u8] {
        match std::str::from_utf8(&self.bytes) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                &self.bytes[..error.valid_up_to()]
            }
            _ => &self.bytes,
        }
    }
}

/// What a session holds.
#[derive(Debug)]
pub struct FileList {
    /// The session.
    pub session: SandboxId,
    /// Its entries, sorted by path.
    pub entries: Vec<FileEntry>,
    /// Entries left out.
    pub omitted: u64,
}

/// One entry of a list.
#[derive(Debug)]
pub struct FileEntry {
    /// Its path.
    pub path: WorkspacePath,
    /// What it is.
    pub kind: FileKind,
    /// Its size.
    pub bytes: u64,
    /// When it was modified, RFC 3339: the guest's claim.
    pub modified: String,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which is never followed.
    Link,
    /// A pipe, socket or device.
    Other,
}

impl FileKind {
    /// Its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_character_is_left_to_the_next_piece() {
        let piece = Piece::new(0, "aé".as_bytes()[..2].to_vec());
        assert!(piece.is_text());
        assert_eq!(piece.on_characters(), b"a");
        let piece = Piece::new(0, vec![b'a', 0xff]);
        assert!(!piece.is_text());
        assert_eq!(piece.on_characters(), &[b'a', 0xff]);
        let torn_only = Piece::new(0, vec![0xc3]);
        assert!(!torn_only.is_text());
        assert_eq!(
            torn_only.on_characters(),
            &[0xc3],
            "some progress is always made"
        );
    }
}
