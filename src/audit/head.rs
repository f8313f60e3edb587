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

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    event::{Line, MAX_LISTED, with_milliseconds},
    log::MAX_LINE_BYTES,
};
use crate::types::{InstanceId, Sha256, read_at_most};

/// The end of the name of every log.
pub(super) const EXTENSION: &str = "jsonl";
/// What is read of a log's end at first; nearly every line is shorter.
const FIRST_LOOK_BYTES: u64 = 8 * 1024;

/// Logs whose end is looked at to find those to list. Stops a folder full of what is no log from holding the start up.
const MAX_LOOKS: usize = 4 * MAX_LISTED;

/// How far a log had come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// The log's name, without the extension.
    pub log: String,
    /// How many lines it had.
    pub lines: u64,
    /// When the last of them was written: RFC 3339, UTC, milliseconds.
    #[serde(serialize_with = "with_milliseconds")]
    pub time: Timestamp,
    /// The digest of that line, without its line feed.
    pub sha256: Sha256,
}

impl LogHead {
    /// The end of the log at `path`; `None` where it has no whole line, or one that is no event of its own.
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
                return Ok(Self::at(path, line));
            }
            if from == 0 || look >= most {
                return Ok(None);
            }
            look *= 2;
        }
    }

    fn at(path: &Path, line: &[u8]) -> Option<Self> {
        if line.len() >= MAX_LINE_BYTES {
            return None;
        }
        let log = name(path);
        let parsed: Line = serde_json::from_slice(line).ok()?;
        (instance_of(&log)? == parsed.instance).then_some(Self {
            log,
            lines: parsed.seq.checked_add(1)?,
            time: parsed.time,
            sha256: Sha256::of(line),
        })
    }
}

/// The name of a log, as it stands in a [`LogHead`].
pub(super) fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The server whose log has this name. The time in the name is nobody's proof.
pub(super) fn instance_of(name: &str) -> Option<InstanceId> {
    let (_started, instance) = name.split_once('-')?;
    InstanceId::parse(instance).ok()
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

/// The ends of these logs, the one first that was written to last, and how many were left out: more than a line lists, or
/// none that has an end.
pub(super) fn heads(logs: Vec<PathBuf>) -> (Vec<LogHead>, u64) {
    let count = logs.len();
    let mut written: Vec<_> = logs
        .into_iter()
        .filter_map(|path| {
            let about = path.metadata().ok().filter(|about| about.len() > 0)?;
            Some((about.modified().ok()?, path))
        })
        .collect();
    written.sort();
    let looks = written.into_iter().rev().take(MAX_LOOKS);
    let heads: Vec<_> = looks
        .filter_map(|(_, path)| LogHead::of(&path).ok().flatten())
        .take(MAX_LISTED)
        .collect();
    let omitted = (count - heads.len()) as u64;
    (heads, omitted)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        audit::{Action, Decision, Event, Log},
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
            let last: Line = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            let want = LogHead {
                log: name(&path),
                lines: lines.len() as u64,
                time: last.time,
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
        let path = log(dir.path(), &[1]);
        let line = fs::read_to_string(&path).unwrap();
        let other = format!("{:?}", InstanceId::random().as_str());
        let own = format!("{:?}", instance_of(&name(&path)).unwrap().as_str());
        for text in [
            "",
            "\n",
            "\n\n",
            "{}\n",
            "no log",
            &line.replace("\"seq\":0", "\"seq\":18446744073709551615"),
            &line.replace(&own, &other),
            &line.replace(
                "\"error\":\"x",
                &format!("\"error\":\"{}", "x".repeat(MAX_LINE_BYTES)),
            ),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(LogHead::of(&path).unwrap(), None, "{text:.200}");
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
    fn those_are_listed_that_were_written_to_last_and_the_rest_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let epoch = std::time::SystemTime::UNIX_EPOCH;
        let mut paths: Vec<_> = (0..MAX_LISTED + 3).map(|_| log(dir.path(), &[1])).collect();
        paths.sort();
        // Begun first, and written to last.
        paths.rotate_left(1);
        for (seconds, path) in (0..).zip(&paths) {
            let file = File::options().write(true).open(path).unwrap();
            let time = epoch + std::time::Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
        }
        // What has no end takes nobody's place, however new it is.
        for _ in 0..MAX_LISTED {
            log(dir.path(), &[]);
        }
        let begun = Log::open(dir.path(), &InstanceId::random()).unwrap();
        let (heads, omitted) = begun.beside();
        let listed: Vec<_> = heads.iter().map(|head| head.log.clone()).collect();
        let want: Vec<_> = paths[3..].iter().rev().map(|path| name(path)).collect();
        assert_eq!((listed, omitted), (want, 3 + MAX_LISTED as u64));
    }
}
