//! What is known of one kept file.

use std::{cmp::Reverse, fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::types::{ArtifactId, Caller, FileId, RunId, Sha256};

/// What a kept file is, which also decides by which kind of id it can be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A whole raw output stream, had by its [`ArtifactId`].
    Output {
        /// The run that wrote it.
        run: RunId,
    },
    /// A file from a workspace, had by its [`ArtifactId`].
    Artifact {
        /// The run that left it; none where it was fetched from a session between runs.
        run: Option<RunId>,
    },
    /// A file that a caller gave for later runs, had by its [`FileId`].
    Upload,
    /// The code, arguments or output kept for the audit log; no caller can have it, see
    /// [`super::Store::records_of`].
    Record {
        /// The run that it belongs to.
        run: RunId,
    },
}

/// A file about to be kept. Its size, digest, media type and times are found out on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// Whose it is.
    pub caller: Caller,
    /// What it is.
    pub kind: Kind,
    /// Its path with visible escapes, or its name, such as `stdout`. Shown, and never opened.
    pub name: String,
}

/// One kept file. Entries never change; they end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub(super) id: ArtifactId,
    /// Whose it is.
    pub caller: Caller,
    /// What it is.
    #[serde(flatten)]
    pub kind: Kind,
    /// Its path with visible escapes, or its name.
    pub name: String,
    /// The media type, from its content first and its name second.
    pub media_type: String,
    /// Its size.
    pub bytes: u64,
    /// The digest of its content.
    pub sha256: Sha256,
    /// When it was kept.
    pub created: Timestamp,
    /// When it ends at the latest; it ends sooner where the store is full.
    pub expires: Timestamp,
}

impl Entry {
    /// The id by which its caller has it, for an output or an artifact.
    #[must_use]
    pub fn artifact_id(&self) -> Option<&ArtifactId> {
        match self.kind {
            Kind::Output { .. } | Kind::Artifact { .. } => Some(&self.id),
            Kind::Upload | Kind::Record { .. } => None,
        }
    }

    /// The id by which its caller has it, for an upload.
    #[must_use]
    pub fn file_id(&self) -> Option<FileId> {
        match self.kind {
            Kind::Upload => FileId::parse(self.id.as_str()).ok(),
            Kind::Output { .. } | Kind::Artifact { .. } | Kind::Record { .. } => None,
        }
    }

    /// The name of its file in `entries`. Each kind has its own form, so that an id of one kind never finds
    /// a file of another.
    pub(super) fn file_name(&self) -> String {
        match &self.kind {
            Kind::Output { .. } | Kind::Artifact { .. } => artifact_file_name(&self.id),
            Kind::Upload => format!("upload-{}.json", self.id),
            Kind::Record { run } => format!("{}{}.json", record_prefix(run), self.id),
        }
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    /// Newest first; two of the same millisecond in the order of their ids.
    pub(super) fn order(&self) -> (Reverse<Timestamp>, &ArtifactId) {
        (Reverse(self.created), &self.id)
    }
}

pub(super) fn artifact_file_name(id: &ArtifactId) -> String {
    format!("{id}.json")
}

pub(super) fn upload_file_name(id: &FileId) -> String {
    format!("upload-{id}.json")
}

pub(super) fn record_prefix(run: &RunId) -> String {
    format!("record-{run}-")
}

/// Some entries in their fixed order, newest first, and where the next ones begin.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entries of this page.
    pub entries: Vec<Entry>,
    /// What to pass for the next page; `None` on the last one.
    pub next: Option<Cursor>,
}

/// A place in the list of entries, which stays right while entries come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(super) created: Timestamp,
    pub(super) id: ArtifactId,
}

/// Text that is no cursor of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor that an earlier page gave")]
pub struct CursorError;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created.as_millisecond(), self.id)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (created, id) = text.rsplit_once('-').ok_or(CursorError)?;
        let created = created.parse().map_err(|_| CursorError)?;
        Ok(Self {
            created: Timestamp::from_millisecond(created).map_err(|_| CursorError)?,
            id: ArtifactId::parse(id).map_err(|_| CursorError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_nothing_else_parses() {
        let cursor = Cursor {
            created: Timestamp::from_millisecond(1_700_000_000_123).unwrap(),
            id: ArtifactId::random(),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in [
            "",
            "-",
            "1-2",
            "99999999999999999999-00000000000000000000000000000000",
        ] {
            assert_eq!(bad.parse::<Cursor>(), Err(CursorError), "{bad}");
        }
    }
}
