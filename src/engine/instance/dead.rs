//! The files of servers that have ended. Never touches one whose lock is held.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use super::{
    NEW,
    ledger::{Charge, Ledger, State},
};
use crate::types::InstanceId;

/// The file of an instance whose server has ended. Two servers never take over from the same one at a time: the value
/// holds its lock.
#[derive(Debug)]
pub(super) struct DeadInstance {
    id: InstanceId,
    path: PathBuf,
    ledger: Ledger,
}

impl DeadInstance {
    /// `None` where the lock is held, the file is gone meanwhile, or it means nothing to this version.
    pub(super) fn claim(id: InstanceId, path: PathBuf) -> Option<Self> {
        let lock = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        Self::of(id, path, lock)
    }

    pub(super) fn of(id: InstanceId, path: PathBuf, lock: File) -> Option<Self> {
        match lock.try_lock() {
            // Opened before and locked after another sweep took it over.
            Ok(()) if !path.exists() => None,
            Ok(()) => match Ledger::read(lock) {
                Ok(ledger) => Some(Self { id, path, ledger }),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "an instance file that this version cannot read is left alone");
                    None
                }
            },
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    }

    /// What it was to see to on this daemon.
    pub(super) fn charges(&self, daemon: &str) -> Vec<(Charge, State)> {
        if self.ledger.is_blank() {
            // It made nothing; or the machine lost its power before what it noted was kept.
            let charge = Charge {
                instance: self.id.clone(),
                daemon: daemon.to_owned(),
            };
            return vec![(charge, State::Live)];
        }
        let mut open = self.ledger.open().to_vec();
        open.retain(|(charge, _)| charge.daemon == daemon);
        open
    }

    /// These are another's now. The file goes where nothing else is in it; what is another daemon's stays. What cannot be
    /// struck off is seen to twice.
    pub(super) fn strike(&mut self, charges: &[(Charge, State)]) {
        if charges.len() >= self.ledger.open().len() {
            remove(&self.path);
            return;
        }
        for (charge, _) in charges {
            if let Err(error) = self.ledger.note(charge, State::Gone) {
                tracing::debug!(path = %self.path.display(), %error, "what was taken over is not struck off");
            }
        }
    }
}

pub(super) fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "instance file not removed");
    }
}

/// Removes a file that was made and never locked, since its server was killed between the two.
pub(super) fn tidy(directory: &Path, name: &str) {
    let id = name.strip_suffix(NEW).map(InstanceId::parse);
    let path = directory.join(name);
    if matches!(id, Some(Ok(_))) {
        // Its maker, if it lives, waits for the lock, finds the file gone, and makes another.
        if let Ok(lock) = OpenOptions::new().write(true).open(&path)
            && lock.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}
