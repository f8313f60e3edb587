//! Servers that share a state directory, living and ended.

use std::collections::BTreeSet;

use std::fs::File;

use super::*;

const HERE: &str = "ABCD";

/// A server that made containers here.
fn server(state: &Path) -> Instance {
    let instance = Instance::create(state).unwrap();
    instance.note_daemon(HERE).unwrap();
    instance
}

fn names(charges: Vec<(Charge, Duration)>) -> BTreeSet<InstanceId> {
    let charges = charges.into_iter();
    charges.map(|(charge, _)| charge.instance).collect()
}

/// Whose containers are to be removed here.
fn seen_to(instance: &Instance) -> BTreeSet<InstanceId> {
    names(instance.take_over(HERE).unwrap())
}

fn files(instance: &Instance) -> usize {
    std::fs::read_dir(&instance.directory).unwrap().count()
}

#[test]
fn only_an_ended_server_is_taken_over() {
    let state = tempfile::tempdir().unwrap();
    let (ours, other) = (server(state.path()), server(state.path()));
    assert!(seen_to(&ours).is_empty(), "both live");
    let id = other.id().clone();
    drop(other);
    assert_eq!(seen_to(&ours), [id.clone()].into());
    assert_eq!(files(&ours), 1, "its file is gone at once");
    assert_eq!(seen_to(&ours), [id.clone()].into(), "until it is done with");
    let third = server(state.path());
    assert!(seen_to(&third).is_empty(), "one at a time sees to it");
    let daemon = HERE.to_owned();
    ours.done_with(&Charge {
        instance: id,
        daemon,
    });
    assert!(seen_to(&ours).is_empty());
    let own = ours.id().clone();
    drop(ours);
    assert_eq!(
        seen_to(&third),
        [own].into(),
        "nobody sees to the first again"
    );
}

#[test]
fn what_a_server_had_taken_over_goes_to_the_next_with_the_time_it_is_known() {
    let state = tempfile::tempdir().unwrap();
    let mut want = BTreeSet::new();
    // Each takes over from all before it, and is killed.
    for _ in 0..5 {
        let next = server(state.path());
        assert_eq!(seen_to(&next), want);
        want.insert(next.id().clone());
    }
    // A clock may be set, and a machine may sleep, by less than that.
    let (long, short) = (2 * LONG_ENDED, LONG_ENDED / 2);
    let last = server(state.path());
    assert_eq!(seen_to(&last), want);
    let aged = |instances: &BTreeSet<InstanceId>, age: Duration| {
        let mut books = last.books();
        for instance in instances {
            let charge = Charge {
                instance: instance.clone(),
                daemon: HERE.to_owned(),
            };
            let end = State::ended_at(clock::file_clock() - age);
            books.ledger.note(&charge, end).unwrap();
        }
    };
    let third = want.iter().nth(2).unwrap().clone();
    let recent = want.split_off(&third);
    aged(&want, long);
    aged(&recent, short);
    let mut certain = BTreeSet::from([last.id().clone()]);
    certain.extend(recent);
    drop(last);
    let charges = server(state.path()).take_over(HERE).unwrap();
    let (known, new): (Vec<_>, Vec<_>) = charges
        .into_iter()
        .partition(|(_, known_for)| *known_for >= LONG_ENDED);
    assert_eq!((names(known), names(new)), (want, certain));
}

#[test]
fn servers_that_sweep_at_once_take_over_each_of_the_dead_once() {
    let state = tempfile::tempdir().unwrap();
    let dead: BTreeSet<_> = (0..200)
        .map(|_| server(state.path()).id().clone())
        .collect();
    let sweepers: Vec<_> = (0..4).map(|_| server(state.path())).collect();
    let taken = std::thread::scope(|scope| {
        let all: Vec<_> = sweepers
            .iter()
            .map(|sweeper| scope.spawn(|| seen_to(sweeper)))
            .collect();
        all.into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    let count: usize = taken.iter().map(BTreeSet::len).sum();
    assert_eq!(count, dead.len(), "none twice");
    let all: BTreeSet<_> = taken.into_iter().flatten().collect();
    assert_eq!(all, dead);
    assert_eq!(files(&sweepers[0]), sweepers.len());
}

#[test]
fn a_server_that_ends_in_good_order_hands_on_what_is_not_done_and_nothing_of_its_own() {
    let state = tempfile::tempdir().unwrap();
    let killed = server(state.path());
    let id = killed.id().clone();
    drop(killed);
    for _ in 0..3 {
        let passing = server(state.path());
        assert_eq!(seen_to(&passing), [id.clone()].into());
        passing.retire(HERE);
        assert_eq!(files(&passing), 1, "somebody has to see to it");
    }
    let last = server(state.path());
    for (charge, _) in last.take_over(HERE).unwrap() {
        last.done_with(&charge);
    }
    last.retire(HERE);
    assert_eq!(files(&last), 0);
}

#[test]
fn the_dead_of_another_daemon_stay_for_its_own_servers() {
    let state = tempfile::tempdir().unwrap();
    let ours = server(state.path());
    let both = server(state.path());
    both.note_daemon("first").unwrap();
    let id = both.id().clone();
    drop(both);
    assert_eq!(seen_to(&ours), [id.clone()].into());
    assert_eq!(files(&ours), 2, "there is another daemon");
    let there = Instance::create(state.path()).unwrap();
    let charges = there.take_over("first").unwrap();
    assert_eq!(charges[0].0.instance, id);
    assert_eq!(files(&ours), 2, "both servers' own");
}

#[test]
fn a_file_that_says_nothing_is_looked_for_here() {
    let state = tempfile::tempdir().unwrap();
    let blank = Instance::create(state.path()).unwrap();
    let id = blank.id().clone();
    drop(blank);
    let next = server(state.path());
    // It made nothing; or what it wrote was lost with the power.
    assert_eq!(seen_to(&next), [id].into());
    assert_eq!(files(&next), 1);
}

#[test]
fn what_cannot_be_written_down_is_seen_to_and_its_file_stays() {
    let state = tempfile::tempdir().unwrap();
    let killed = server(state.path());
    let (id, path) = (killed.id().clone(), killed.path());
    drop(killed);
    let ours = server(state.path());
    // Somebody tidied up beneath a living server.
    std::fs::remove_file(ours.path()).unwrap();
    for _ in 0..2 {
        let charges = ours.take_over(HERE).unwrap();
        let (charge, known_for) = &charges[0];
        assert_eq!((&charge.instance, *known_for), (&id, Duration::ZERO));
        assert!(path.exists(), "whoever comes next must find it");
    }
    // A file that takes no line.
    let full = server(state.path());
    let read_only = File::open(full.path()).unwrap();
    full.books().ledger = Ledger::new(read_only);
    assert_eq!(seen_to(&full), [id].into());
    assert!(path.exists());
}

#[test]
fn a_retired_instance_leaves_no_file_but_where_another_daemon_is_to_be_looked_at() {
    let state = tempfile::tempdir().unwrap();
    let ours = server(state.path());
    assert!(!ours.retire_unused(), "it may have made something");
    ours.note_daemon(HERE).unwrap();
    ours.retire(HERE);
    assert_eq!(files(&ours), 0);
    let unused = Instance::create(state.path()).unwrap();
    assert!(unused.retire_unused());
    assert_eq!(files(&unused), 0);
    for instance in [ours, unused] {
        instance.note_daemon(HERE).unwrap_err();
    }
    let moved = server(state.path());
    moved.note_daemon("another").unwrap();
    moved.retire("another");
    let id = moved.id().clone();
    drop(moved);
    let next = server(state.path());
    assert!(next.take_over("another").unwrap().is_empty());
    assert_eq!(seen_to(&next), [id].into());
}

#[test]
fn a_file_that_was_made_and_never_locked_is_removed() {
    let state = tempfile::tempdir().unwrap();
    let ours = server(state.path());
    let left = || {
        let name = format!("{}{NEW}", InstanceId::random());
        ours.directory.join(name)
    };
    let (new, held) = (left(), left());
    File::create(&new).unwrap();
    let holder = File::create(&held).unwrap();
    holder.lock().unwrap();
    assert!(seen_to(&ours).is_empty());
    assert!(!new.exists());
    assert!(held.exists(), "its maker is at it");
    drop(holder);
    seen_to(&ours);
    assert!(!held.exists());
}

#[test]
fn a_file_that_another_took_over_meanwhile_is_not_taken_over_again() {
    let state = tempfile::tempdir().unwrap();
    let (ours, other) = (server(state.path()), server(state.path()));
    let (id, path) = (other.id().clone(), other.path());
    drop(other);
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    assert_eq!(seen_to(&ours).len(), 1);
    assert!(DeadInstance::of(id, path, lock).is_none());
    assert_eq!(files(&ours), 1);
}

#[test]
fn servers_that_begin_while_others_sweep_all_get_their_file() {
    let state = tempfile::tempdir().unwrap();
    let sweeper = Instance::create(state.path()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let all = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(seen_to(&sweeper).is_empty());
            }
        });
        let all: Vec<_> = (0..200)
            .map(|_| Instance::create(state.path()).unwrap())
            .collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        all
    });
    assert_eq!(files(&sweeper), all.len() + 1);
}

#[test]
fn strange_files_are_left_alone() {
    let state = tempfile::tempdir().unwrap();
    let ours = server(state.path());
    // A name of ours with what a later version may write.
    let later = format!("{}{SUFFIX}", InstanceId::random());
    let names = ["x.lock", "README", "..lock", &later];
    for name in names {
        std::fs::write(ours.directory.join(name), "who knows\n").unwrap();
    }
    assert!(seen_to(&ours).is_empty());
    assert_eq!(files(&ours), names.len() + 1);
}
