//! Every file of every corpus, as it is and changed a little, on a stable compiler and without a fuzzer: what was once
//! found stays found.

use std::{
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// What is kept for a target, in the order of the names.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = corpora().join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|item| item.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let items = fs::read_dir(corpora()).unwrap();
    let folders: BTreeSet<String> = items
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    let names = TARGETS.map(|(name, _)| name.to_owned());
    assert!(names.is_sorted());
    assert_eq!(folders, BTreeSet::from(names));
    assert!(target("host").is_some() && target("nothing").is_none());
}

#[test]
fn every_file_of_every_corpus_holds() {
    let mut broken = Vec::new();
    for (name, target) in TARGETS {
        for (path, bytes) in corpus(name) {
            if catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_err() {
                broken.push(path);
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// One change of some bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Cut(Index),
    Double(Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (at(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        2 => (at(), 1..16_usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => at().prop_map(Change::Cut),
        1 => (at(), 1..64_usize).prop_map(|(at, count)| Change::Double(at, count)),
    ]
}

fn change_it(bytes: &mut Vec<u8>, change: &Change) {
    let place = |at: &Index| at.index(bytes.len() + 1);
    match change {
        Change::Set(at, byte) => {
            let at = place(at);
            if let Some(old) = bytes.get_mut(at) {
                *old = *byte;
            }
        }
        Change::Insert(at, new) => {
            let at = place(at);
            drop(bytes.splice(at..at, new.iter().copied()));
        }
        Change::Remove(at, count) => {
            let at = place(at);
            drop(bytes.drain(at..(at + count).min(bytes.len())));
        }
        Change::Cut(at) => bytes.truncate(place(at)),
        Change::Double(at, count) => {
            let at = place(at);
            let piece = bytes[at..(at + count).min(bytes.len())].to_vec();
            drop(bytes.splice(at..at, piece));
        }
    }
}

proptest! {
    // What fails here becomes a file of the corpus.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn so_does_what_is_nearly_one_of_them(which in any::<Index>(), changes in vec(change(), 1..5)) {
        for (name, target) in TARGETS {
            let mut files = corpus(name);
            let (path, mut bytes) = files.swap_remove(which.index(files.len()));
            for change in &changes {
                change_it(&mut bytes, change);
            }
            let held = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
            prop_assert!(held.is_ok(), "{} as {:?}", path.display(), bytes);
        }
    }

    #[test]
    fn so_do_bytes_of_no_kind_at_all(bytes in vec(any::<u8>(), 0..256)) {
        for (name, target) in TARGETS {
            let held = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
            prop_assert!(held.is_ok(), "{name}");
        }
    }
}
