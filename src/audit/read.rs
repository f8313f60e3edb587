//! Reads the logs of all servers of one state directory: the latest lines, and those of one run.
//!
//! A log may be damaged or forged: lines are bounded, and what does not parse is a fault to report, never a
//! reason to stop reading the others.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use super::{
    event::Line,
    log::{MAX_LINE_BYTES, logs_in},
    verify::Fault,
};
use crate::types::RunId;

/// Why the logs could not be read.
#[derive(Debug, thiserror::Error)]
#[error("read the audit log {path}")]
pub struct ReadError {
    /// The log or the directory.
    pub path: PathBuf,
    /// What the operating system says.
    pub source: io::Error,
}

/// The logs in one directory.
#[derive(Clone, Debug)]
pub struct Logs {
    pub(super) dir: PathBuf,
}

impl Logs {
    /// Those in `dir`; where there is no such directory, there are none.
    #[must_use]
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The last `most` events of all servers, in the order of time.
    pub fn tail(&self, most: usize) -> Result<Vec<Line>, ReadError> {
        self.collect(most, |_| true)
    }

    /// The events of one run, in the order of time.
    pub fn of_run(&self, run: &RunId) -> Result<Vec<Line>, ReadError> {
        self.collect(usize::MAX, |line| line.event.run_id.as_ref() == Some(run))
    }

    fn collect(&self, most: usize, wanted: impl Fn(&Line) -> bool) -> Result<Vec<Line>, ReadError> {
        let mut found = Vec::new();
        for path in self.paths()? {
            for_each_line(&path, |line| {
                if let Ok(line) = line.and_then(parse)
                    && wanted(&line)
                {
                    found.push(line);
                    // Now and then, so that memory is bounded by what is asked for and not by the logs.
                    if found.len() / 2 > most.max(1024) {
                        keep_last(&mut found, most);
                    }
                }
                true
            })?;
        }
        keep_last(&mut found, most);
        Ok(found)
    }

    /// Those there are, in the order of their names.
    pub(super) fn paths(&self) -> Result<Vec<PathBuf>, ReadError> {
        match logs_in(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            paths => paths.map_err(|source| ReadError {
                path: self.dir.clone(),
                source,
            }),
        }
    }
}

fn keep_last(lines: &mut Vec<Line>, most: usize) {
    // Stable: lines of one log stay in their order also within a millisecond.
    lines.sort_by_key(|line| line.time);
    lines.drain(..lines.len().saturating_sub(most));
}

pub(super) fn parse(line: &[u8]) -> Result<Line, Fault> {
    serde_json::from_slice(line).map_err(|_| Fault::Malformed)
}

/// Passes on each line without its line feed, until `each` returns false.
pub(super) fn for_each_line(
    path: &Path,
    mut each: impl FnMut(Result<&[u8], Fault>) -> bool,
) -> Result<(), ReadError> {
    let failed = |source| ReadError {
        path: path.to_owned(),
        source,
    };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = MAX_LINE_BYTES as u64;
        let n = file
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        let goes_on = match line.strip_suffix(b"\n") {
            Some(line) => each(Ok(line)),
            None if n == 0 => return Ok(()),
            None if n == MAX_LINE_BYTES => each(Err(Fault::TooLong)),
            None => each(Err(Fault::Unfinished)),
        };
        if !goes_on {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        audit::{Action, Decision, Event, Log},
        types::{Caller, InstanceId},
    };

    fn append(log: &Log, action: Action, run: Option<&RunId>) {
        let event = Event::new(action, Caller::Local, Decision::within_settings());
        log.append(Event {
            run_id: run.cloned(),
            ..event
        })
        .unwrap();
    }

    #[test]
    fn the_logs_of_all_servers_are_read_in_the_order_of_time() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path().join("audit"));
        assert_eq!(logs.tail(5).unwrap(), []);
        let open = || Log::open(&dir.path().join("audit"), &InstanceId::random()).unwrap();
        let (one, two, run) = (open(), open(), RunId::random());
        for log in [&one, &two, &one] {
            append(log, Action::Start, None);
            append(log, Action::RunCode, Some(&run));
        }
        let all = logs.tail(100).unwrap();
        assert_eq!(all.len(), 6);
        assert!(all.is_sorted_by_key(|line| line.time));
        assert_eq!(logs.tail(2).unwrap(), all[4..]);
        assert_eq!(logs.of_run(&run).unwrap().len(), 3);
        assert_eq!(logs.of_run(&RunId::random()).unwrap(), []);
    }

    #[test]
    fn a_damaged_log_does_not_hide_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), &InstanceId::random()).unwrap();
        append(&log, Action::Start, None);
        fs::write(dir.path().join("0-damaged.jsonl"), b"\xff\xfe\n{\n").unwrap();
        fs::write(dir.path().join("unrelated.txt"), "x").unwrap();
        let logs = Logs::open(dir.path());
        assert_eq!(logs.tail(10).unwrap().len(), 1);
        let reports = logs.verify().unwrap();
        assert_eq!(reports.len(), 2);
        assert_eq!(reports[0].fault, Some(Fault::Malformed));
    }
}
