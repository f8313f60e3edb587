//! Where a log ends, as another one saw it.
//!
//! The lines of one log vouch for each other, but nothing in it vouches for its end, nor for its being there. So each
//! server writes down, as it starts, how the logs beside its own end by then. It reads only their ends, and takes no line
//! for whole that is not.

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    event::{Line, MAX_LISTED},
    log::MAX_LINE_BYTES,
};
use crate::types::{Sha256, read_at_most};

/// The end of the name of every log.
pub(super) const EXTENSION: &str = "jsonl";
/// What is read of a log's end at first; nearly every line is shorter.
const FIRST_LOOK_BYTES: u64 = 8 * 1024;

/// How far a log had come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// The log's name, without the extension.
    pub log: String,
    /// How many lines it had.
    pub lines: u64,
    /// The digest of the last of them, without its line feed.
    pub sha256: Sha256,
}

impl LogHead {
    /// The end of the log at `path`; `None` where it has no whole line, or one that is no event.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let bytes = file.seek(SeekFrom::End(0))?;
        // Of a log that is being written the last line may be there in part.
        let most = 2 * MAX_LINE_BYTES as u64;
        let mut look = FIRST_LOOK_BYTES;
        loop {
            let from = bytes.saturating_sub(look);
            file.seek(SeekFrom::Start(from))?;
            let end = read_at_most(&file, bytes - from)?;
            if let Some(line) = last_line(&end, from == 0) {
                let parsed = serde_json::from_slice::<Line>(line).ok();
                return Ok(parsed.map(|parsed| Self {
                    log: name(path),
                    lines: parsed.seq + 1,
                    sha256: Sha256::of(line),
                }));
            }
            if from == 0 || look >= most {
                return Ok(None);
            }
            look *= 2;
        }
    }
}

/// The name of a log, as it stands in a [`LogHead`].
pub(super) fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The last whole line of what ends a file, or is all of it.
fn last_line(end: &[u8], all: bool) -> Option<&[u8]> {
    let line_feed = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte == b'\n');
    let last = line_feed(end)?;
    match line_feed(&end[..last]) {
        Some(before) => Some(&end[before + 1..last]),
        None => all.then_some(&end[..last]),
    }
}

/// The ends of these logs, the newest first, and how many were left out: more than a line lists, or none that could be
/// read.
pub(super) fn heads(mut logs: Vec<PathBuf>) -> (Vec<LogHead>, u64) {
    logs.sort();
    let count = logs.len();
    let newest = logs.into_iter().rev().take(MAX_LISTED);
    let heads: Vec<_> = newest
        .filter_map(|path| LogHead::of(&path).ok().flatten())
        .collect();
    let omitted = (count - heads.len()) as u64;
    (heads, omitted)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        audit::{Action, Decision, Event, Log, Logs},
        types::{Caller, InstanceId},
    };

    fn append(log: &Log, error: usize) {
        let event = Event::new(Action::Start, Caller::Local, Decision::within_settings());
        let error = Some("x".repeat(error));
        log.append(Event { error, ..event }).unwrap();
    }

    /// A log with lines of these lengths, and its path.
    fn log(dir: &Path, lines: &[usize]) -> PathBuf {
        let instance = InstanceId::random();
        let log = Log::open(dir, &instance).unwrap();
        for &length in lines {
            append(&log, length);
        }
        let mut all = fs::read_dir(dir).unwrap().map(|item| item.unwrap().path());
        all.find(|path| name(path).ends_with(instance.as_str()))
            .unwrap()
    }

    #[test]
    fn a_head_is_that_of_the_last_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(LogHead::of(&log(dir.path(), &[])).unwrap(), None);
        for lines in [&[3][..], &[3, 900, 5], &[1; 40]] {
            let path = log(dir.path(), lines);
            let text = fs::read_to_string(&path).unwrap();
            let want = LogHead {
                log: name(&path),
                lines: lines.len() as u64,
                sha256: Sha256::of(text.lines().last().unwrap().as_bytes()),
            };
            assert_eq!(LogHead::of(&path).unwrap(), Some(want.clone()));
            // What is being written does not count.
            for broken in ["{\"time\":", &"y".repeat(100_000)] {
                fs::write(&path, text.clone() + broken).unwrap();
                assert_eq!(LogHead::of(&path).unwrap(), Some(want.clone()));
            }
        }
    }

    #[test]
    fn what_is_no_log_has_no_head() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        for text in ["", "\n", "\n\n", "{}\n", "no log"] {
            fs::write(&path, text).unwrap();
            assert_eq!(LogHead::of(&path).unwrap(), None, "{text:?}");
        }
        fs::write(&path, "x".repeat(4 * MAX_LINE_BYTES)).unwrap();
        assert_eq!(LogHead::of(&path).unwrap(), None);
        fs::create_dir(dir.path().join("folder.jsonl")).unwrap();
        let all = vec![
            path,
            dir.path().join("folder.jsonl"),
            dir.path().join("none"),
        ];
        assert_eq!(heads(all), (Vec::new(), 3));
    }

    #[test]
    fn the_newest_are_listed_and_the_rest_counted() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..MAX_LISTED + 3 {
            let path = log(dir.path(), &[1]);
            let to = dir.path().join(format!("{number:03}.jsonl"));
            fs::rename(path, to).unwrap();
        }
        let begun = Log::open(dir.path(), &InstanceId::random()).unwrap();
        let (heads, omitted) = begun.beside();
        let first: Vec<_> = heads[..3].iter().map(|head| head.log.as_str()).collect();
        assert_eq!(first, ["066", "065", "064"]);
        assert_eq!((heads.len(), omitted), (MAX_LISTED, 3));
        assert_eq!(
            Logs::open(dir.path()).verify().unwrap().len(),
            MAX_LISTED + 4
        );
    }
}
