//! When the server is killed: at any moment, or right after something that it was just seen to do.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    chance::Chance,
    docker::Events,
    server::{Server, Way},
    world::World,
};

/// The longest that a server lives whose end is left to chance, in milliseconds.
const MOST_MS: u64 = 1_800;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// So many milliseconds after its first answer.
    After(u64),
    /// The daemon has done this so often to containers of this server: after create and before start, between start and
    /// the first program, while a container dies, while it is removed. With a pool that fills, many are made at once.
    Event(&'static str, u64),
    /// So many more bytes stand in its audit log: while it appends, or right after.
    Audit(u64),
    /// A file is on its way into the store: an output that spills, or a file that is collected.
    Spool,
    /// So many more entries are in the store: between blob and entry of the next, or while files are collected.
    Entry(u64),
    /// A file is on its way into the user's folder, or has just come there.
    Save,
    /// It was told to stop, so many milliseconds ago.
    Stopping(u64),
}

impl Aim {
    /// Each kind in turn, with what else there is to it left to chance.
    pub(crate) fn nth(kill: u64, way: Way, chance: &mut Chance) -> Self {
        match kill % 12 {
            1 => Self::Event("create", 1 + chance.below(8)),
            2 => Self::Audit(1 + chance.below(20_000)),
            3 => Self::Event("start", 1 + chance.below(8)),
            4 => Self::Spool,
            5 => Self::Stopping(chance.below(400)),
            6 => Self::Entry(1 + chance.below(12)),
            7 => Self::Event("destroy", 1 + chance.below(4)),
            // Nobody over HTTP writes into the user's folder.
            8 if way == Way::Pipes => Self::Save,
            9 => Self::Event(chance.of(&["attach", "die", "kill"]), 1 + chance.below(4)),
            _ => Self::After(chance.below(MOST_MS)),
        }
    }
}

/// Waits for one.
pub(crate) struct Watch<'a> {
    aim: Aim,
    events: &'a Events,
    instance: String,
    state: PathBuf,
    folder: PathBuf,
    started: Instant,
    /// What is counted, as it was.
    before: u64,
    told: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(aim: Aim, world: &World, server: &Server, events: &'a Events) -> Self {
        let mut watch = Self {
            aim,
            events,
            instance: server.instance.clone(),
            state: world.state().to_owned(),
            folder: world.folder().to_owned(),
            started: Instant::now(),
            before: 0,
            told: None,
        };
        watch.before = watch.count();
        watch
    }

    fn count(&self) -> u64 {
        let store = self.state.join("artifacts");
        match self.aim {
            Aim::After(_) | Aim::Stopping(_) | Aim::Event(..) => 0,
            Aim::Audit(_) => bytes(&self.state.join("audit")),
            Aim::Entry(_) => files(&store.join("entries")),
            Aim::Spool => folders(&store.join("tmp"))
                .iter()
                .map(|folder| files(folder))
                .sum(),
            Aim::Save => files(&self.folder),
        }
    }

    /// Whether it is now.
    pub(crate) fn now(&self) -> bool {
        let more = || self.count().saturating_sub(self.before);
        match self.aim {
            Aim::After(ms) => self.started.elapsed() >= Duration::from_millis(ms),
            Aim::Event(action, times) => self.events.count(action, &self.instance) >= times,
            Aim::Audit(most) | Aim::Entry(most) => more() >= most,
            Aim::Spool | Aim::Save => more() > 0,
            Aim::Stopping(ms) => self
                .told
                .is_some_and(|told| told.elapsed() >= Duration::from_millis(ms)),
        }
    }

    /// Brings it about, where it does not come by itself.
    pub(crate) fn wish(&mut self, server: &mut Server) {
        if let Aim::Stopping(_) = self.aim
            && self.told.is_none()
            && self.started.elapsed() >= Duration::from_millis(MOST_MS / 2)
        {
            server.client.hang_up();
            self.told = Some(Instant::now());
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = std::fs::DirEntry> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(Result::ok)
}

fn files(folder: &Path) -> u64 {
    entries(folder).count() as u64
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let all = entries(folder).map(|entry| entry.path());
    all.filter(|path| path.is_dir()).collect()
}

fn bytes(folder: &Path) -> u64 {
    let sizes = entries(folder).filter_map(|entry| entry.metadata().ok());
    sizes.map(|about| about.len()).sum()
}
