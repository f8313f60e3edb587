//! Numbers that one seed decides, so that a failure can be had again.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
};

/// A new seed, short enough to be typed.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000
}

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        let at = self.below(all.len() as u64);
        all[usize::try_from(at).unwrap()]
    }

    /// Numbers of their own: how many are drawn there changes nothing here.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }
}
