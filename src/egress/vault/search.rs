//! Finds credentials in bytes that come in pieces, and puts a note in their place.

use std::{fmt, mem};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, MatchKind};

use super::forms::{self, Form};
use crate::types::Secret;

/// What stands where a credential stood. The same for all of them, so that it says nothing about which it was.
pub(crate) const NOTE: &str = "[belljar: secret removed]";
/// Up to how many bytes of forms the faster table is built, which takes up to 1 KiB for each of them; beyond, a table
/// that is a little slower and takes some 16. Stops long credentials from filling the memory.
const MAX_FAST_BYTES: usize = 16 * 1024;

/// Finds a set of credentials in all of their forms.
pub(super) struct Searcher {
    table: AhoCorasick,
    /// What the table finds, sorted.
    forms: Vec<Form>,
    /// The length of the longest form, in bytes.
    longest: usize,
}

impl Searcher {
    /// A searcher for `credentials`.
    ///
    /// # Errors
    /// There is more than a table can hold.
    pub(super) fn new<'a>(
        credentials: impl IntoIterator<Item = &'a Secret>,
    ) -> Result<Self, BuildError> {
        let mut forms: Vec<Form> = credentials
            .into_iter()
            .flat_map(|credential| forms::of(credential.expose()))
            .collect();
        forms.sort_unstable_by(|a, b| a.as_slice().cmp(b.as_slice()));
        // Two secrets may be the same.
        forms.dedup_by(|a, b| a.as_slice() == b.as_slice());
        let bytes: usize = forms.iter().map(|form| form.len()).sum();
        let kind = if bytes <= MAX_FAST_BYTES {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let table = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .kind(Some(kind))
            .build(forms.iter().map(|form| form.as_slice()))?;
        Ok(Self {
            table,
            longest: forms
                .iter()
                .map(|form| form.len())
                .max()
                .unwrap_or_default(),
            forms,
        })
    }

    /// Whether there is a credential in `text`.
    pub(super) fn finds(&self, text: &[u8]) -> bool {
        self.table.is_match(text)
    }

    /// A whole text without credentials; none where it has none.
    pub(super) fn cleaned(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.finds(text)
            .then(|| self.clean(&mut text.to_vec(), true))
    }

    /// Takes from `held` what is certain to be no part of a credential, with notes in the place of credentials.
    /// What may be the beginning of one stays in `held`: less than the longest form, and nothing at the `end`.
    pub(super) fn clean(&self, held: &mut Vec<u8>, end: bool) -> Vec<u8> {
        let undecided = |from: usize| {
            if end {
                held.len()
            } else {
                self.undecided(held, from)
            }
        };
        let mut out = Vec::new();
        let mut at = 0;
        let mut until = undecided(at);
        while let Some(found) = self.table.find(Input::new(held.as_slice()).range(at..)) {
            // Of two that begin here the longer is taken: it may not be complete yet.
            if found.start() >= until {
                break;
            }
            out.extend_from_slice(&held[at..found.start()]);
            out.extend_from_slice(NOTE.as_bytes());
            at = found.end();
            if until < at {
                until = undecided(at);
            }
        }
        // Into memory of its own, so that one large piece does not hold on to as much for as long as the body lasts.
        let rest = held.split_off(until);
        let decided = mem::replace(held, rest);
        if at == 0 {
            return decided;
        }
        out.extend_from_slice(&decided[at..]);
        out
    }

    /// From where on `text` may be the beginning of a form that is not all there; its length if nowhere.
    fn undecided(&self, text: &[u8], from: usize) -> usize {
        let earliest = from.max((text.len() + 1).saturating_sub(self.longest));
        let tail = text[earliest..].to_ascii_lowercase();
        (0..tail.len())
            .find(|at| self.begins_a_form(&tail[*at..]))
            .map_or(text.len(), |at| earliest + at)
    }

    /// Whether a form begins with `text` and goes on: those are the next ones in the order after it.
    fn begins_a_form(&self, text: &[u8]) -> bool {
        let next = self.forms.partition_point(|form| form.as_slice() <= text);
        self.forms
            .get(next)
            .is_some_and(|form| form.starts_with(text))
    }
}

/// Shows nothing: the table holds the credentials.
impl fmt::Debug for Searcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Searcher(…)")
    }
}
