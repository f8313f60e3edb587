//! Whether the logs of one state directory are as they were written: each chain, and each end as far as others found it.
//!
//! Everything in a log may be forged, what it says of others too: nothing of it is opened, and what is told is bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{
    event::MAX_LISTED,
    head::{self, EXTENSION},
    read::{Logs, ReadError, for_each_line, parse},
};
use crate::types::{InstanceId, Sha256};

/// The longest name of a log that is told of.
const MAX_NAME_BYTES: usize = 128;
/// Logs that are told to be missing; more say nothing new. Stops forged lines from filling a terminal.
const MAX_MISSING: usize = 64;

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
    /// It is not the line that a log which began later found there.
    #[error("is not the one that a later log found there: the log was written anew")]
    Rewritten,
    /// There is none, and a log which began later found one.
    #[error(
        "is missing, and a later log found it: the end was cut off, or lost with the machine's power"
    )]
    Cut,
    /// There is no such log, and one that began later found it, while there are some that ended before it did.
    #[error(
        "is missing with the whole log, which a later log found, while logs that ended earlier are there"
    )]
    Removed,
    /// There is no such log, nor any that ended earlier: as when old logs are thrown away.
    #[error("is missing with the whole log, and with all that ended earlier")]
    ThrownAway,
    /// The log cannot be read.
    #[error("cannot be read")]
    Unreadable,
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
    /// killed while it writes leaves it, and nothing that it was to record was done. Nor is it when the oldest logs are
    /// gone: they stay until somebody throws them away.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.fault {
            None | Some(Fault::Unfinished | Fault::ThrownAway) => true,
            Some(
                Fault::Malformed
                | Fault::TooLong
                | Fault::Sequence
                | Fault::Chain
                | Fault::Instance
                | Fault::Rewritten
                | Fault::Cut
                | Fault::Removed
                | Fault::Unreadable,
            ) => false,
        }
    }
}

impl Logs {
    /// Checks the chain of each log, and that it ends no earlier than others say, oldest log first; then tells of logs that
    /// others found and that are gone. Of those that are gone with all that ended earlier only the latest is told.
    pub fn verify(&self) -> Result<Vec<LogReport>, ReadError> {
        let paths = self.paths()?;
        let mut found = Found::new();
        for path in &paths {
            note_beside(path, &mut found);
        }
        let mut reports = Vec::with_capacity(paths.len());
        let mut first_end: Option<Timestamp> = None;
        for path in paths {
            let instance = head::instance_of(&head::name(&path));
            let others = instance.and_then(|instance| found.remove(&instance));
            let (report, end) = verify(path, &others.unwrap_or_default());
            reports.push(report);
            first_end = [first_end, end].into_iter().flatten().min();
        }
        // A server may have started since.
        for path in self.paths()? {
            if let Some(instance) = head::instance_of(&head::name(&path)) {
                found.remove(&instance);
            }
        }
        reports.extend(self.missing(found, first_end));
        Ok(reports)
    }

    /// What is to be told of logs that are gone; the first of those that are there ended at `first_end`.
    fn missing(&self, found: Found, first_end: Option<Timestamp>) -> Vec<LogReport> {
        let mut gone: Vec<_> = found.into_values().collect();
        gone.sort_by_key(|log| log.end);
        let thrown_away = gone
            .iter()
            .take_while(|log| first_end.is_none_or(|first| log.end <= Some(first)))
            .count();
        let removed = gone.split_off(thrown_away);
        let report = |log: Witnessed, fault| LogReport {
            path: self.dir.join(format!("{}.{EXTENSION}", log.name)),
            lines: log.ends.keys().next_back().map_or(0, |lines| lines - 1),
            fault: Some(fault),
        };
        let thrown_away = gone.pop().map(|log| report(log, Fault::ThrownAway));
        let removed = removed.into_iter().take(MAX_MISSING);
        let removed = removed.map(|log| report(log, Fault::Removed));
        thrown_away.into_iter().chain(removed).collect()
    }
}

/// What logs found of others, by the others' servers.
type Found = BTreeMap<InstanceId, Witnessed>;

/// What others found of a log.
#[derive(Default)]
struct Witnessed {
    /// One that it had. The time in it is nobody's proof.
    name: String,
    /// When the last line that was found was written.
    end: Option<Timestamp>,
    /// After so many lines, a last one of this digest. Several where somebody forged one.
    ends: BTreeMap<u64, BTreeSet<Sha256>>,
}

/// Adds what the first line of a log says of others. What is no first line says nothing, nor does what cannot be read.
fn note_beside(path: &Path, found: &mut Found) {
    let read = for_each_line(path, |line| {
        if let Ok(line) = line.and_then(parse)
            && line.seq == 0
        {
            for head in line.event.beside.into_iter().take(MAX_LISTED) {
                // A name that no log has, or one without a line, was never found.
                let Some(instance) = head::instance_of(&head.log) else {
                    continue;
                };
                if head.lines == 0 || head.log.len() > MAX_NAME_BYTES {
                    continue;
                }
                let of = found.entry(instance).or_default();
                of.name = head.log;
                of.end = of.end.max(Some(head.time));
                of.ends.entry(head.lines).or_default().insert(head.sha256);
            }
        }
        false
    });
    // It is told where the log itself is looked at.
    drop(read);
}

/// What a log is worth, and when its last good line was written.
fn verify(path: PathBuf, others: &Witnessed) -> (LogReport, Option<Timestamp>) {
    let name = head::name(&path);
    let (mut lines, mut prev, mut fault, mut end) = (0, Sha256::ZERO, None, None);
    let read = for_each_line(&path, |line| {
        let checked = line.and_then(|raw| {
            let line = parse(raw)?;
            if !name.ends_with(line.instance.as_str()) {
                Err(Fault::Instance)
            } else if line.seq != lines {
                Err(Fault::Sequence)
            } else if line.prev != prev {
                Err(Fault::Chain)
            } else {
                let digest = Sha256::of(raw);
                let seen = others.ends.get(&(lines + 1)).into_iter().flatten();
                if seen.into_iter().any(|seen| *seen != digest) {
                    return Err(Fault::Rewritten);
                }
                Ok((digest, line.time))
            }
        });
        match checked {
            Ok((digest, time)) => {
                prev = digest;
                end = Some(time);
                lines += 1;
            }
            Err(why) => fault = Some(why),
        }
        fault.is_none()
    });
    let last = others.ends.keys().next_back();
    if read.is_err() {
        fault = Some(Fault::Unreadable);
    } else if last.is_some_and(|&seen| seen > lines)
        && matches!(fault, None | Some(Fault::Unfinished))
    {
        fault = Some(Fault::Cut);
    }
    (LogReport { path, lines, fault }, end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        audit::{Action, Decision, Event, Line, Log, MAX_LINE_BYTES},
        types::{Caller, InstanceId, RunId},
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

    /// Servers that begin one after the other, each with a few lines, and their logs in that order.
    fn servers(dir: &Path, count: usize) -> Vec<PathBuf> {
        for _ in 0..count {
            let log = Log::open(dir, &InstanceId::random()).unwrap();
            let (beside, beside_omitted) = log.beside();
            let event = Event::new(Action::Start, Caller::Local, Decision::within_settings());
            log.append(Event {
                beside,
                beside_omitted,
                ..event
            })
            .unwrap();
            for _ in 0..3 {
                append(&log, Action::RunCode, None);
            }
            // Names tell milliseconds.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Logs::open(dir).paths().unwrap()
    }

    /// What is wrong with each log of four after a change to them.
    fn faults_after(change: impl FnOnce(&[PathBuf])) -> Vec<(u64, Option<Fault>)> {
        let dir = tempfile::tempdir().unwrap();
        let paths = servers(dir.path(), 4);
        change(&paths);
        faults(dir.path())
    }

    fn faults(dir: &Path) -> Vec<(u64, Option<Fault>)> {
        let reports = Logs::open(dir).verify().unwrap();
        reports
            .iter()
            .map(|report| (report.lines, report.fault))
            .collect()
    }

    fn cut(path: &Path, lines: usize) {
        let text = fs::read_to_string(path).unwrap();
        let kept: String = text.split_inclusive('\n').take(lines).collect();
        fs::write(path, kept).unwrap();
    }

    #[test]
    fn an_end_that_was_cut_off_shows_once_another_log_has_begun() {
        let whole = (4, None);
        assert_eq!(faults_after(|_| ()), [whole; 4]);
        for lines in [0, 1, 3] {
            let cut = (lines as u64, Some(Fault::Cut));
            let faults = faults_after(|paths| self::cut(&paths[1], lines));
            assert_eq!(faults, [whole, cut, whole, whole]);
        }
        // In the middle of a line, as a kill leaves it, though others found all of it.
        let faults = faults_after(|paths| {
            let text = fs::read(&paths[1]).unwrap();
            fs::write(&paths[1], &text[..text.len() - 10]).unwrap();
        });
        assert_eq!(faults[1], (3, Some(Fault::Cut)));
        // Nothing has begun after the last one.
        let faults = faults_after(|paths| cut(&paths[3], 3));
        assert_eq!(faults[3], (3, None));
    }

    /// A chain that holds, of other lines.
    fn write_anew(path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        let mut prev = Sha256::ZERO;
        let mut forged = String::new();
        for line in text.lines() {
            let mut line: Line = serde_json::from_str(line).unwrap();
            line.event.error = Some("nothing of it".to_owned());
            line.prev = prev;
            let line = serde_json::to_string(&line).unwrap();
            prev = Sha256::of(line.as_bytes());
            forged += &(line + "\n");
        }
        fs::write(path, forged).unwrap();
    }

    #[test]
    fn a_log_that_was_written_anew_shows() {
        let dir = tempfile::tempdir().unwrap();
        let paths = servers(dir.path(), 4);
        write_anew(&paths[0]);
        assert_eq!(faults(dir.path())[0], (3, Some(Fault::Rewritten)));
        // Also once others have found what was written anew.
        servers(dir.path(), 2);
        assert_eq!(faults(dir.path())[0], (3, Some(Fault::Rewritten)));
    }

    #[test]
    fn a_log_that_was_removed_shows_unless_all_that_ended_earlier_are_gone_too() {
        let whole = (4, None);
        let removed = |fault| (3, Some(fault));
        let faults = faults_after(|paths| fs::remove_file(&paths[1]).unwrap());
        assert_eq!(faults, [whole, whole, whole, removed(Fault::Removed)]);
        // Under whatever name the one is that ended earlier.
        let faults = faults_after(|paths| {
            fs::remove_file(&paths[1]).unwrap();
            let instance = head::instance_of(&head::name(&paths[0])).unwrap();
            let newer = paths[0].with_file_name(format!("99991231T235959.999Z-{instance}.jsonl"));
            fs::rename(&paths[0], newer).unwrap();
        });
        assert_eq!(faults, [whole, whole, whole, removed(Fault::Removed)]);
        let faults = faults_after(|paths| {
            for path in &paths[..2] {
                fs::remove_file(path).unwrap();
            }
        });
        assert_eq!(faults, [whole, whole, removed(Fault::ThrownAway)]);
    }

    #[test]
    fn old_logs_may_be_thrown_away_while_a_server_lives_that_is_older() {
        let dir = tempfile::tempdir().unwrap();
        let living = Log::open(dir.path(), &InstanceId::random()).unwrap();
        append(&living, Action::Start, None);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let paths = servers(dir.path(), 3);
        append(&living, Action::RunCode, None);
        fs::remove_file(&paths[1]).unwrap();
        let whole = |lines| (lines, None);
        let gone = (3, Some(Fault::ThrownAway));
        assert_eq!(faults(dir.path()), [whole(2), whole(4), whole(4), gone]);
    }

    #[test]
    fn what_nobody_can_have_found_is_not_missed() {
        for name in [
            "../../../etc/passwd",
            "x",
            "",
            "20260101T000000.000Z-nobody",
        ] {
            let faults = faults_after(|paths| {
                let text = fs::read_to_string(&paths[3]).unwrap();
                let found = head::name(&paths[0]);
                fs::write(&paths[3], text.replacen(&found, name, 1)).unwrap();
            });
            assert_eq!(faults.len(), 4, "{faults:?}");
        }
    }

    #[test]
    fn logs_that_are_missed_without_end_are_told_in_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let first = servers(dir.path(), 1).remove(0);
        for _ in 0..3 {
            let log = Log::open(dir.path(), &InstanceId::random()).unwrap();
            let beside = (0..MAX_LISTED).map(|_| head::LogHead {
                log: format!("20260101T000000.000Z-{}", InstanceId::random()),
                lines: u64::MAX,
                time: Timestamp::MAX,
                sha256: Sha256::ZERO,
            });
            let event = Event::new(Action::Start, Caller::Local, Decision::within_settings());
            let beside = beside.collect();
            log.append(Event { beside, ..event }).unwrap();
        }
        let faults = faults(dir.path());
        assert_eq!(faults.len(), 4 + MAX_MISSING);
        assert_eq!(faults[4], (u64::MAX - 1, Some(Fault::Removed)));
        assert!(first.exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_no_log() {
        let dir = tempfile::tempdir().unwrap();
        servers(dir.path(), 1);
        let odd = |name: &str| {
            dir.path()
                .join(format!("{name}-{}.jsonl", InstanceId::random()))
        };
        fs::create_dir(odd("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", odd("link")).unwrap();
        let fifo = odd("fifo");
        let made = std::process::Command::new("mkfifo").arg(fifo).status();
        assert!(made.unwrap().success());
        // None of them holds anybody up.
        servers(dir.path(), 1);
        assert_eq!(faults(dir.path()), [(4, None); 2]);
    }

    #[test]
    fn a_living_server_s_log_that_goes_on_is_sound() {
        let dir = tempfile::tempdir().unwrap();
        let living = Log::open(dir.path(), &InstanceId::random()).unwrap();
        append(&living, Action::Start, None);
        servers(dir.path(), 2);
        append(&living, Action::RunCode, None);
        let reports = Logs::open(dir.path()).verify().unwrap();
        assert!(
            reports.iter().all(|report| report.fault.is_none()),
            "{reports:?}"
        );
    }
}
