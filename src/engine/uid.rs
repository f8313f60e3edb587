//! The uids of sandboxes: one each, of a range that no account of a host has.
//!
//! Containers that share a uid share the kernel's budgets of that uid: one of them took all inotify
//! instances, and the next could not start. Within this server a uid is leased; against other servers on the
//! same daemon the launch compares labels after the fact and tries another.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The first uid of the range.
pub const FIRST_UID: u32 = 52_000;
/// How many there are; the images' passwd names them all.
pub const UID_COUNT: u32 = 2048;

/// The uids that this server has in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Uids(Arc<Mutex<HashSet<u32>>>);

impl Uids {
    /// Leases a random uid that is neither leased nor in `avoid`; `None` where there is none left.
    pub(super) fn lease(&self, avoid: &HashSet<u32>) -> Option<Uid> {
        let mut leased = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Not a secret: chance only keeps servers apart.
        let start = getrandom::u32().unwrap_or_default() % UID_COUNT;
        let uid = (0..UID_COUNT)
            .map(|step| FIRST_UID + (start + step) % UID_COUNT)
            .find(|uid| !leased.contains(uid) && !avoid.contains(uid))?;
        leased.insert(uid);
        Some(Uid(Arc::new(Lease {
            uid,
            leased: Arc::clone(&self.0),
        })))
    }
}

/// A leased uid; given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Uid(Arc<Lease>);

impl Uid {
    pub(super) fn get(&self) -> u32 {
        self.0.uid
    }
}

#[derive(Debug)]
struct Lease {
    uid: u32,
    leased: Arc<Mutex<HashSet<u32>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leased
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardening_user_every_uid_is_leased_once_and_comes_back() {
        let uids = Uids::default();
        let avoid = HashSet::from([FIRST_UID, FIRST_UID + 1]);
        let mut held: Vec<Uid> = std::iter::from_fn(|| uids.lease(&avoid)).collect();
        let distinct: HashSet<u32> = held.iter().map(Uid::get).collect();
        assert_eq!(distinct.len(), UID_COUNT as usize - 2);
        assert!(distinct.is_disjoint(&avoid));
        assert!(distinct.iter().all(|uid| (52_000..=54_047).contains(uid)));
        let last = held.pop().unwrap();
        let number = last.get();
        let clone = last.clone();
        drop(last);
        assert!(uids.lease(&avoid).is_none(), "a clone still holds it");
        drop(clone);
        assert_eq!(uids.lease(&avoid).map(|uid| uid.get()), Some(number));
    }
}
