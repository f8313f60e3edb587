//! Writes one server's log: `<started-at>-<instance>.jsonl`, for this user alone, appended to and never changed.
//!
//! Each line is one write, and carries the digest of the line before, so that a line that is changed, removed
//! or put in later shows. Lines cut off the end show once another log has begun, which says how this one ended
//! ([`Log::beside`]). A line is in the kernel's hands when [`Log::append`] returns: it survives the server's death, not a
//! loss of power.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hmac::{Hmac, KeyInit as _, Mac as _};

use super::{
    event::{Event, Line, SealedVar},
    head::{EXTENSION, LogHead, heads},
};
use crate::types::{InstanceId, Sha256, clock};

/// The longest line, in bytes with its line feed. The bounds of [`Event`] keep every line below it.
pub const MAX_LINE_BYTES: usize = 512 * 1024;
/// Bytes of the key for values of variables: a block of the digest.
const KEY_BYTES: usize = 64;

/// Why something could not be recorded. Whatever it was, it must not count as done.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The log could not be made.
    #[error("make the audit log {path}")]
    Open {
        /// Its path.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The line could not be written whole.
    #[error("write to the audit log")]
    Write(#[source] io::Error),
    /// Part of a line could not be taken back earlier, so nothing can follow it.
    #[error("the audit log is broken since an earlier write failed: restart the server")]
    Broken,
    /// The line is longer than a reader takes.
    #[error("the line for the audit log has {0} bytes, more than a reader takes")]
    TooLong(usize),
}

/// The log of one server.
#[derive(Debug)]
pub struct Log {
    instance: InstanceId,
    /// Random, for this log alone, and never written: without it nobody can try out values.
    key: [u8; KEY_BYTES],
    /// How the logs beside it ended when it began, and how many are not listed.
    beside: (Vec<LogHead>, u64),
    end: Mutex<End>,
}

/// Where the log ends.
#[derive(Debug)]
struct End {
    file: File,
    bytes: u64,
    seq: u64,
    prev: Sha256,
    broken: bool,
}

impl Log {
    /// Begins the log of `instance` in `dir`, which is made where there is none.
    pub fn open(dir: &Path, instance: &InstanceId) -> Result<Self, AuditError> {
        let started = clock::wall_clock().strftime("%Y%m%dT%H%M%S%.3fZ");
        let path = dir.join(format!("{started}-{instance}.{EXTENSION}"));
        let failed = |source| AuditError::Open {
            path: path.clone(),
            source,
        };
        let (file, key) = Self::create(dir, &path).map_err(failed)?;
        let mut others = logs_in(dir).map_err(failed)?;
        others.retain(|other| *other != path);
        Ok(Self {
            beside: heads(others),
            ..Self::new(file, key, instance)
        })
    }

    /// A log that goes on in an open file, for tests of what happens when it can no longer be written.
    #[doc(hidden)]
    pub fn on(file: File, instance: &InstanceId) -> io::Result<Self> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self::new(file, key, instance))
    }

    fn new(file: File, key: [u8; KEY_BYTES], instance: &InstanceId) -> Self {
        let end = End {
            file,
            bytes: 0,
            seq: 0,
            prev: Sha256::ZERO,
            broken: false,
        };
        Self {
            instance: instance.clone(),
            key,
            beside: (Vec::new(), 0),
            end: Mutex::new(end),
        }
    }

    fn create(dir: &Path, path: &Path) -> io::Result<(File, [u8; KEY_BYTES])> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let (mut dirs, mut options) = (fs::DirBuilder::new(), fs::OpenOptions::new());
        dirs.recursive(true);
        options.append(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
            dirs.mode(0o700);
            options.mode(0o600);
        }
        dirs.create(dir)?;
        Ok((options.open(path)?, key))
    }

    /// How the other logs of the directory ended when this one began, the one first that was written to last, and how many
    /// are not listed. For the first line.
    #[must_use]
    pub fn beside(&self) -> (Vec<LogHead>, u64) {
        self.beside.clone()
    }

    /// Records one event. Blocks for one write.
    pub fn append(&self, mut event: Event) -> Result<(), AuditError> {
        event.bound();
        // Taken in the lock, so that times do not run backwards in one log. A panic in it leaves `End` as it was.
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if end.broken {
            return Err(AuditError::Broken);
        }
        let line = Line {
            time: clock::wall_clock(),
            seq: end.seq,
            instance: self.instance.clone(),
            event,
            prev: end.prev,
        };
        let mut text = serde_json::to_vec(&line).map_err(|e| AuditError::Write(e.into()))?;
        let digest = Sha256::of(&text);
        text.push(b'\n');
        if text.len() > MAX_LINE_BYTES {
            return Err(AuditError::TooLong(text.len()));
        }
        end.write(&text).map_err(AuditError::Write)?;
        end.seq += 1;
        end.prev = digest;
        Ok(())
    }

    /// A variable as it may stand in the log: its name, and HMAC-SHA256 of `name NUL value` under this log's key.
    #[must_use]
    pub fn seal(&self, name: &str, value: &str) -> SealedVar {
        let mut mac = Hmac::<sha2::Sha256>::new(&self.key.into());
        for part in [name.as_bytes(), b"\0", value.as_bytes()] {
            mac.update(part);
        }
        let hmac_sha256 = Sha256::from_bytes(mac.finalize().into_bytes().into());
        SealedVar {
            name: name.to_owned(),
            hmac_sha256,
        }
    }
}

/// The logs in a directory. What is no ordinary file is none: opening it may wait for ever, or lead elsewhere.
pub(super) fn logs_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for item in fs::read_dir(dir)? {
        let item = item?;
        let path = item.path();
        let named = path.extension().is_some_and(|end| end == EXTENSION);
        if named && item.file_type()?.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

impl End {
    /// One write, whole or taken back.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let written = loop {
            match self.file.write(text) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let error = match written {
            Ok(n) if n == text.len() => {
                self.bytes += n as u64;
                return Ok(());
            }
            // As it is when the disk fills up in the middle of a line.
            Ok(_) => io::Error::from(io::ErrorKind::WriteZero),
            Err(error) => error,
        };
        self.broken = self.file.set_len(self.bytes).is_err();
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::{Action, Decision, FileRecord, Logs},
        types::Caller,
    };

    fn event() -> Event {
        Event::new(Action::RunCode, Caller::Local, Decision::within_settings())
    }

    fn log() -> (tempfile::TempDir, Log) {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(&dir.path().join("audit"), &InstanceId::random()).unwrap();
        (dir, log)
    }

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        fs::read_dir(dir.path().join("audit"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    }

    #[test]
    fn each_event_is_one_line_chained_to_the_one_before() {
        let (dir, log) = log();
        for _ in 0..3 {
            log.append(event()).unwrap();
        }
        let text = fs::read_to_string(path(&dir)).unwrap();
        let mut prev = Sha256::ZERO;
        for (seq, line) in text.lines().enumerate() {
            let parsed: Line = serde_json::from_str(line).unwrap();
            assert_eq!(
                (parsed.seq, parsed.prev, &parsed.instance),
                (seq as u64, prev, &log.instance)
            );
            prev = Sha256::of(line.as_bytes());
        }
        assert_eq!(text.lines().count(), 3);
        let name = path(&dir)
            .file_name()
            .unwrap()
            .to_owned()
            .into_string()
            .unwrap();
        let (started, rest) = name.split_once('-').unwrap();
        assert_eq!(rest, format!("{}.jsonl", log.instance));
        assert_eq!(started.len(), "20260102T030405.678Z".len(), "{started}");
    }

    #[test]
    fn a_line_stays_bounded_and_counts_what_it_leaves_out() {
        let (dir, log) = log();
        let hostile = "\u{1}\\\"".repeat(10_000);
        let file = FileRecord {
            path: hostile.clone(),
            sha256: Some(Sha256::ZERO),
            bytes: u64::MAX,
        };
        log.append(Event {
            decision: Decision::Deny {
                reason: hostile.clone(),
            },
            language: Some(hostile.clone()),
            network: Some(hostile.clone()),
            image_id: Some(hostile.clone()),
            runtime: Some(hostile.clone()),
            error: Some(hostile.clone()),
            env: vec![log.seal(&hostile, "x"); 1000],
            inputs: vec![file.clone(); 1000],
            artifacts: vec![file; 1000],
            packages: vec![hostile.clone(); 1000],
            beside: vec![
                LogHead {
                    log: hostile.clone(),
                    lines: u64::MAX,
                    time: clock::wall_clock(),
                    sha256: Sha256::ZERO,
                };
                1000
            ],
            ..event()
        })
        .unwrap();
        let text = fs::read(path(&dir)).unwrap();
        assert!(text.len() <= MAX_LINE_BYTES, "{}", text.len());
        let line: Line = serde_json::from_slice(&text).unwrap();
        let Event {
            inputs,
            inputs_omitted,
            artifacts_omitted,
            env_omitted,
            ..
        } = line.event;
        assert_eq!(
            (inputs.len(), inputs_omitted, artifacts_omitted, env_omitted),
            (64, 936, 936, 936)
        );
        assert!(inputs[0].path.ends_with('…'));
    }

    #[test]
    fn a_write_that_fails_is_an_error_and_nothing_can_follow_half_a_line() {
        let (dir, log) = log();
        log.append(event()).unwrap();
        // Opened for reading: neither writing nor taking back works.
        log.end.lock().unwrap().file = File::open(path(&dir)).unwrap();
        assert!(matches!(log.append(event()), Err(AuditError::Write(_))));
        assert!(matches!(log.append(event()), Err(AuditError::Broken)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_fails_the_action() {
        let (_dir, log) = log();
        log.end.lock().unwrap().file = File::options().write(true).open("/dev/full").unwrap();
        assert!(matches!(log.append(event()), Err(AuditError::Write(_))));
    }

    #[test]
    fn values_of_variables_are_sealed_with_a_key_of_this_log_alone() {
        let (_dir, log) = log();
        let (_other_dir, other) = self::log();
        let sealed = log.seal("TOKEN", "secret");
        assert_eq!(sealed, log.seal("TOKEN", "secret"));
        assert_ne!(sealed.hmac_sha256, log.seal("TOKEN", "other").hmac_sha256);
        assert_ne!(sealed.hmac_sha256, log.seal("OTHER", "secret").hmac_sha256);
        assert_ne!(sealed, other.seal("TOKEN", "secret"));
    }

    #[test]
    fn threads_write_whole_lines_in_one_chain() {
        let (dir, log) = log();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| log.append(event()).unwrap()));
            }
        });
        let reports = Logs::open(dir.path().join("audit")).verify().unwrap();
        assert_eq!((reports[0].lines, &reports[0].fault), (200, &None));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_log() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, _log) = log();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path(&dir)), 0o600);
        assert_eq!(mode(&dir.path().join("audit")), 0o700);
    }
}
