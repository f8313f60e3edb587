//! What an instance file says: whose containers its holder sees to, on which daemon.
//!
//! A line is added before what it tells of may happen, and no line is ever changed: a server that is killed in the
//! middle of one leaves the lines before it as they were, and what the broken one speaks of has not happened. The last
//! line about a [`Charge`] counts. It never guesses: a file with a whole line that it does not understand is refused.

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::types::{InstanceId, read_at_most};

/// Bytes of a file. Stops a directory that was filled with junk, and a daemon with an endless id, from growing the server.
const MAX_BYTES: u64 = 1024 * 1024;

/// How much of that a line may fill which says something new. Stops charges that pile up from leaving no room to strike them
/// off, and those of others from leaving none for the server's own.
const fn room(state: State) -> u64 {
    match state {
        State::Ended(_) => MAX_BYTES / 4,
        State::Live => MAX_BYTES / 2,
        State::Gone => MAX_BYTES,
    }
}

/// The containers of one instance on one daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Charge {
    /// Whose they are.
    pub(in crate::engine) instance: InstanceId,
    /// The id of the daemon that was asked to make them.
    pub(in crate::engine) daemon: String,
}

/// What is known of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The server that makes them lived when this was written.
    Live,
    /// That server was found to have ended at this time of the wall clock, in seconds since 1970: the next server reads
    /// it.
    Ended(u64),
    /// Nothing of it is left, and nothing follows.
    Gone,
}

impl State {
    /// As of now.
    pub(super) fn ended_at(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        Self::Ended(since.unwrap_or_default().as_secs())
    }

    /// When the server was found to have ended.
    pub(super) fn end(self) -> Option<SystemTime> {
        match self {
            // A time that no clock can show is none: as good as now, which keeps a charge for longer.
            Self::Ended(seconds) => {
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
            }
            Self::Live | Self::Gone => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    instance: InstanceId,
    daemon: String,
    state: State,
}

/// An instance file and what it says.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    /// How much of the file is whole lines.
    bytes: u64,
    /// What is not gone, in the order of the lines.
    open: Vec<(Charge, State)>,
    /// Whether something was noted that may not be on the disk.
    dirty: bool,
    /// Whether the disk failed once: it says so only once, and what it had to keep is lost all the same.
    failed: bool,
}

impl Ledger {
    /// That of a new, empty file.
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            bytes: 0,
            open: Vec::new(),
            dirty: false,
            failed: false,
        }
    }

    /// Reads one that somebody else wrote. Fails where it is too long or does not mean anything.
    pub(super) fn read(file: File) -> io::Result<Self> {
        let bytes = read_at_most(&file, MAX_BYTES + 1)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut ledger = Self::new(file);
        let whole = bytes
            .split_inclusive(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b"\n"));
        for line in whole {
            ledger.bytes += line.len() as u64;
            let Line {
                instance,
                daemon,
                state,
            } = serde_json::from_slice(line)?;
            ledger.remember(Charge { instance, daemon }, state);
        }
        Ok(ledger)
    }

    /// Whether nothing was ever noted, or nothing of it reached the disk.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes == 0
    }

    /// Everything that is not gone.
    pub(super) fn open(&self) -> &[(Charge, State)] {
        &self.open
    }

    /// Writes down what is known now. Where that fails nothing is noted.
    pub(super) fn note(&mut self, charge: &Charge, state: State) -> io::Result<()> {
        let known = |known: &(Charge, State)| known.0 == *charge && known.1 == state;
        if self.open.iter().any(known) {
            return Ok(());
        }
        let line = Line {
            instance: charge.instance.clone(),
            daemon: charge.daemon.clone(),
            state,
        };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        let end = self.bytes + text.len() as u64;
        if end > room(state) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // Not where the file ends: what a full disk or a kill left of an earlier line is written over.
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(text.as_bytes())?;
        self.bytes = end;
        self.dirty = true;
        self.remember(charge.clone(), state);
        Ok(())
    }

    /// Returns once all that was noted outlives a loss of power.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("the disk failed before"));
        }
        if self.dirty {
            let synced = self.file.sync_data();
            self.failed = synced.is_err();
            self.dirty = self.failed;
            return synced;
        }
        Ok(())
    }

    /// Frees the lock. Closing the file does so too; this says so.
    pub(super) fn unlock(&self) {
        let _ = self.file.unlock();
    }

    fn remember(&mut self, charge: Charge, state: State) {
        let known = self.open.iter_mut().find(|known| known.0 == charge);
        match (known, state) {
            (_, State::Gone) => self.open.retain(|known| known.0 != charge),
            (Some(known), _) => known.1 = state,
            (None, _) => self.open.push((charge, state)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use proptest::prelude::*;

    fn charge(daemon: &str) -> Charge {
        Charge {
            instance: InstanceId::parse(&"a".repeat(32)).unwrap(),
            daemon: daemon.to_owned(),
        }
    }

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    /// What another server reads.
    fn reread(ledger: &Ledger) -> io::Result<Ledger> {
        let mut file = ledger.file.try_clone().unwrap();
        file.rewind().unwrap();
        Ledger::read(file)
    }

    #[test]
    fn the_last_line_about_a_charge_counts() {
        let mut ledger = Ledger::new(file());
        let (one, two) = (charge("one"), charge("a name\nof two lines"));
        for (charge, state) in [
            (&one, State::Live),
            (&two, State::Live),
            (&one, State::Ended(7)),
            (&two, State::Gone),
        ] {
            ledger.note(charge, state).unwrap();
        }
        let want = [(one.clone(), State::Ended(7))];
        assert_eq!(ledger.open(), want);
        assert_eq!(reread(&ledger).unwrap().open(), want);
        ledger.note(&one, State::Gone).unwrap();
        assert_eq!(reread(&ledger).unwrap().open(), []);
    }

    #[test]
    fn a_line_looks_as_documented() {
        let mut ledger = Ledger::new(file());
        ledger.note(&charge("ABCD"), State::Live).unwrap();
        ledger.note(&charge("ABCD"), State::Ended(7)).unwrap();
        ledger.note(&charge("ABCD"), State::Gone).unwrap();
        let mut text = String::new();
        ledger.file.rewind().unwrap();
        ledger.file.read_to_string(&mut text).unwrap();
        let line = |state: &str| {
            format!(
                "{{\"instance\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"daemon\":\"ABCD\",\"state\":{state}}}\n"
            )
        };
        let want = ["\"live\"", "{\"ended\":7}", "\"gone\""].map(line);
        assert_eq!(text, want.concat());
    }

    #[test]
    fn what_is_known_already_is_not_written_again() {
        let mut ledger = Ledger::new(file());
        for _ in 0..10_000 {
            ledger.note(&charge("one"), State::Live).unwrap();
        }
        assert!(ledger.bytes < 100);
    }

    #[test]
    fn a_line_that_was_broken_off_says_nothing_and_is_written_over() {
        let mut ledger = Ledger::new(file());
        ledger.note(&charge("one"), State::Live).unwrap();
        // In the middle of a letter of two bytes.
        ledger.file.write_all(b"{\"instance\":\"\xc3").unwrap();
        let mut next = reread(&ledger).unwrap();
        assert_eq!(next.open(), [(charge("one"), State::Live)]);
        next.note(&charge("one"), State::Gone).unwrap();
        next.note(&charge("two"), State::Live).unwrap();
        assert_eq!(
            reread(&next).unwrap().open(),
            [(charge("two"), State::Live)]
        );
    }

    #[test]
    fn a_file_that_means_nothing_is_refused() {
        let line =
            r#"{"instance":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","daemon":"ABCD","state":"live"}"#;
        let long = "\n".repeat(usize::try_from(MAX_BYTES).unwrap() + 1);
        for text in [
            "ABCD\n".to_owned(),
            "\n".to_owned(),
            format!("{line}\nx\n{line}\n"),
            line.replace("live", "asleep") + "\n",
            line.replace("aaaaaaaaaaaaaaaa", "../../etc/passwd") + "\n",
            line.replace('}', r#","more":1}"#) + "\n",
            format!("{line}\0\n"),
            long,
        ] {
            let mut file = file();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            Ledger::read(file).expect_err(&text);
        }
        let mut file = file();
        file.write_all(line.as_bytes()).unwrap();
        file.write_all(b"\n").unwrap();
        file.rewind().unwrap();
        assert_eq!(Ledger::read(file).unwrap().open().len(), 1);
    }

    #[test]
    fn a_ledger_takes_no_more_than_its_bound() {
        let mut ledger = Ledger::new(file());
        let name = |n: usize| charge(&format!("{n}{}", "x".repeat(1000)));
        let taken = (0..1000)
            .take_while(|&n| ledger.note(&name(n), State::Live).is_ok())
            .count();
        assert!((400..600).contains(&taken), "{taken}");
        let mut read = reread(&ledger).unwrap();
        assert_eq!(read.open().len(), taken);
        // There is always room to strike off what there is.
        for n in 0..taken {
            read.note(&name(n), State::Gone).unwrap();
        }
        assert_eq!(reread(&read).unwrap().open(), []);
    }

    #[test]
    fn what_others_left_never_takes_the_room_of_the_server_s_own() {
        let mut ledger = Ledger::new(file());
        let mut number = 0;
        while ledger
            .note(&charge(&number.to_string()), State::Ended(number))
            .is_ok()
        {
            number += 1;
        }
        assert!(number > 100);
        ledger.note(&charge("own"), State::Live).unwrap();
    }

    #[test]
    fn a_disk_that_failed_once_is_not_believed_again() {
        // Nothing can be kept in a pipe.
        let (_reader, writer) = std::io::pipe().unwrap();
        let pipe: std::os::fd::OwnedFd = writer.into();
        let mut ledger = Ledger::new(file());
        ledger.note(&charge("one"), State::Live).unwrap();
        let file = std::mem::replace(&mut ledger.file, File::from(pipe));
        ledger.sync().unwrap_err();
        ledger.file = file;
        ledger.sync().unwrap_err();
    }

    #[test]
    fn a_time_survives_the_file_and_a_wild_one_is_none() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        assert_eq!(State::ended_at(time).end(), Some(time));
        assert_eq!(
            State::ended_at(SystemTime::UNIX_EPOCH - Duration::from_secs(5)),
            State::Ended(0)
        );
        assert_eq!(State::Ended(u64::MAX).end(), None);
    }

    fn notes() -> impl Strategy<Value = Vec<(u8, State)>> {
        let state = prop_oneof![
            Just(State::Live),
            any::<u64>().prop_map(State::Ended),
            Just(State::Gone)
        ];
        proptest::collection::vec((0..4_u8, state), 0..30)
    }

    proptest! {
        /// Wherever a kill cuts it, a ledger says what it said after its whole lines.
        #[test]
        fn a_cut_ledger_is_an_earlier_one(notes in notes(), cut in any::<prop::sample::Index>()) {
            let mut ledger = Ledger::new(file());
            // After so many bytes.
            let mut ever = vec![(0, Vec::new())];
            for (n, state) in notes {
                ledger.note(&charge(&n.to_string()), state).unwrap();
                ever.push((ledger.bytes, ledger.open().to_vec()));
            }
            let length = cut.index(usize::try_from(ledger.bytes).unwrap() + 1) as u64;
            ledger.file.set_len(length).unwrap();
            let (_, want) = ever.iter().rfind(|(bytes, _)| *bytes <= length).unwrap();
            let read = reread(&ledger).unwrap();
            prop_assert_eq!(read.open(), want);
        }

        /// What another version, or a broken disk, may have made of it.
        #[test]
        fn a_changed_ledger_never_panics(
            at in any::<prop::sample::Index>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            let mut ledger = Ledger::new(file());
            for state in [State::Live, State::Ended(7)] {
                ledger.note(&charge("one"), state).unwrap();
            }
            let at = at.index(usize::try_from(ledger.bytes).unwrap()) as u64;
            ledger.file.seek(SeekFrom::Start(at)).unwrap();
            ledger.file.write_all(&bytes).unwrap();
            let _ = reread(&ledger);
        }
    }
}
