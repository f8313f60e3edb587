//! Reads the logs of all servers of one state directory: the latest lines, those of one run, and whether each
//! chain holds.
//!
//! A log may be damaged or forged: lines are bounded, and what does not parse is a fault to report, never a
//! reason to stop reading the others.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use super::{event::Line, log::MAX_LINE_BYTES};
use crate::types::{RunId, Sha256};

/// Why the logs could not be read.
#[derive(Debug, thiserror::Error)]
#[error("read the audit log {path}")]
pub struct ReadError {
    /// The log or the directory.
    pub path: PathBuf,
    /// What the operating system says.
    pub source: io::Error,
}

/// What is wrong with a line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no event.
    #[error("is not an event")]
    Malformed,
    /// Longer than any that is written.
    #[error("is longer than any that belljar writes")]
    TooLong,
    /// The file ends in the middle of it: the server was killed while it wrote, or is writing now.
    #[error("ends in the middle")]
    Unfinished,
    /// Its number does not follow the one before.
    #[error("does not follow the one before: lines were removed, added or moved")]
    Sequence,
    /// It does not carry the digest of the line before.
    #[error("does not carry the digest of the one before: one of the two was changed")]
    Chain,
    /// It is of another server than the file's name says.
    #[error("belongs to another server's log")]
    Instance,
}

/// What a log is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// The log.
    pub path: PathBuf,
    /// Good lines before the fault, or all.
    pub lines: u64,
    /// What is wrong with the line after these.
    pub fault: Option<Fault>,
}

impl LogReport {
    /// Whether the chain holds as far as there is one. The beginning of a last line is no tampering: a server that is
    /// killed while it writes leaves it, and nothing that it was to record was done.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self.fault, None | Some(Fault::Unfinished))
    }
}

/// The logs in one directory.
#[derive(Clone, Debug)]
pub struct Logs {
    dir: PathBuf,
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

    /// Checks the chain of each log, oldest log first.
    pub fn verify(&self) -> Result<Vec<LogReport>, ReadError> {
        self.paths()?.into_iter().map(verify).collect()
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

    fn paths(&self) -> Result<Vec<PathBuf>, ReadError> {
        let failed = |source| ReadError {
            path: self.dir.clone(),
            source,
        };
        let items = match fs::read_dir(&self.dir) {
            Ok(items) => items,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut paths = Vec::new();
        for item in items {
            let path = item.map_err(failed)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

fn keep_last(lines: &mut Vec<Line>, most: usize) {
    // Stable: lines of one log stay in their order also within a millisecond.
    lines.sort_by_key(|line| line.time);
    lines.drain(..lines.len().saturating_sub(most));
}

fn parse(line: &[u8]) -> Result<Line, Fault> {
    serde_json::from_slice(line).map_err(|_| Fault::Malformed)
}

/// Passes on each line without its line feed, until `each` returns false.
fn for_each_line(
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

fn verify(path: PathBuf) -> Result<LogReport, ReadError> {
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let (mut lines, mut prev, mut fault) = (0, Sha256::ZERO, None);
    for_each_line(&path, |line| {
        let checked = line.and_then(|raw| {
            let line = parse(raw)?;
            if !name.ends_with(line.instance.as_str()) {
                Err(Fault::Instance)
            } else if line.seq != lines {
                Err(Fault::Sequence)
            } else if line.prev != prev {
                Err(Fault::Chain)
            } else {
                Ok(Sha256::of(raw))
            }
        });
        match checked {
            Ok(digest) => {
                prev = digest;
                lines += 1;
            }
            Err(why) => fault = Some(why),
        }
        fault.is_none()
    })?;
    Ok(LogReport { path, lines, fault })
}

#[cfg(test)]
mod tests {
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

    /// A log of five lines, then changed.
    fn fault_after(change: impl FnOnce(&mut Vec<String>)) -> (u64, Option<Fault>) {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), &InstanceId::random()).unwrap();
        for _ in 0..5 {
            append(&log, Action::RunCode, Some(&RunId::random()));
        }
        let logs = Logs::open(dir.path());
        let path = logs.paths().unwrap().remove(0);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
        change(&mut lines);
        fs::write(&path, lines.concat()).unwrap();
        let report = logs.verify().unwrap().remove(0);
        (report.lines, report.fault)
    }

    #[test]
    fn every_change_shows() {
        assert_eq!(fault_after(|_| ()), (5, None));
        assert_eq!(
            fault_after(|l| drop(l.remove(2))),
            (2, Some(Fault::Sequence))
        );
        assert_eq!(fault_after(|l| l.swap(1, 2)), (1, Some(Fault::Sequence)));
        assert_eq!(
            fault_after(|l| l[1] = l[1].replace("allow", "deny")),
            (2, Some(Fault::Chain))
        );
        assert_eq!(
            fault_after(|l| l[1] = l[1].replace("allow", "perhaps")),
            (1, Some(Fault::Malformed))
        );
        let change = |l: &mut Vec<String>| l[1] = l[1].replace("run_code", "list_files");
        assert_eq!(fault_after(change), (2, Some(Fault::Chain)));
        let other = InstanceId::random();
        let forge = move |l: &mut Vec<String>| {
            let mut line: Line = serde_json::from_str(&l[4]).unwrap();
            line.instance = other;
            l[4] = serde_json::to_string(&line).unwrap() + "\n";
        };
        assert_eq!(fault_after(forge), (4, Some(Fault::Instance)));
        assert_eq!(
            fault_after(|l| l[4].truncate(20)),
            (4, Some(Fault::Unfinished))
        );
        assert_eq!(
            fault_after(|l| l[3] = "{}\n".to_owned()),
            (3, Some(Fault::Malformed))
        );
        let long = |l: &mut Vec<String>| l[3] = "x".repeat(MAX_LINE_BYTES * 2);
        assert_eq!(fault_after(long), (3, Some(Fault::TooLong)));
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
