//! Decides what to start next and what to give up: calls that wait come first, in the order of their coming, and
//! sandboxes for later are started only where none of them waits.
//!
//! Plain state without clock or daemon. However many calls wait, no more than [`MAX_STARTS`] starts are under way: a
//! daemon's latency grows faster than its load.

use std::collections::HashMap;

use tokio::time::Instant;

use super::{Waiting, class::Class, demand::Bounds, shelf::Shelf};
use crate::policy::{Launch, Permit};

/// Starts under way at a time. More of them do not make more sandboxes a second, each only takes longer.
pub(super) const MAX_STARTS: usize = 8;
/// Starts that hang, at a time, while which others are still begun. Stops calls that a daemon swallows, and whose callers
/// have gone, from keeping everybody else from starting anything; and stops a daemon that swallows all of them from
/// being given more.
pub(super) const MAX_SLOW_STARTS: usize = 8;
/// Of these, starts that no call waits for. What comes for later must not stand in the way of what comes now.
pub(super) const MAX_SPARE_STARTS: usize = 2;

/// Every class that anybody has asked for.
#[derive(Debug)]
pub(super) struct Shelves<S, E> {
    all: HashMap<Class, Shelf<S, E>>,
}

/// What is wanted beyond the calls that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spare<S> {
    /// A start.
    Start,
    /// This one goes, to make room for another class.
    Evict(S),
}

impl<S, E> Default for Shelves<S, E> {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
        }
    }
}

impl<S, E> Shelves<S, E> {
    /// The shelf of a launch's class, made where there is none.
    pub(super) fn shelf(&mut self, permit: &Permit<Launch>, now: Instant) -> &mut Shelf<S, E> {
        self.all
            .entry(Class::of(permit.action()))
            .or_insert_with(|| Shelf::new(permit.clone(), now))
    }

    pub(super) fn get(&mut self, class: &Class) -> Option<&mut Shelf<S, E>> {
        self.all.get_mut(class)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Class, &mut Shelf<S, E>)> {
        self.all.iter_mut()
    }

    /// Forgets the classes of which nothing is left.
    pub(super) fn tidy(&mut self) {
        self.all.retain(|_, shelf| !shelf.is_unused());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Everything, for the end.
    pub(super) fn drain(&mut self) -> Vec<Shelf<S, E>> {
        self.all.drain().map(|(_, shelf)| shelf).collect()
    }

    /// How many wait, of all classes.
    pub(super) fn ready(&self) -> usize {
        self.all.values().map(Shelf::ready).sum()
    }

    /// The same, and how many of them have a booted interpreter.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            all: self.ready(),
            warm: self.all.values().map(Shelf::warm).sum(),
        }
    }

    fn starting(&self) -> usize {
        self.all.values().map(|shelf| shelf.starting).sum()
    }

    fn slow(&self) -> usize {
        self.all.values().map(|shelf| shelf.slow).sum()
    }

    /// The class to start one of for a call that waits.
    pub(super) fn next_awaited(&mut self) -> Option<Class> {
        let slow = self.slow();
        if slow > MAX_SLOW_STARTS || self.starting() - slow >= MAX_STARTS {
            return None;
        }
        self.all
            .iter_mut()
            .filter_map(|(class, shelf)| {
                let short = shelf.waiting() > shelf.starting - shelf.slow;
                let first = shelf.first_waiter()?;
                short.then_some((first, class))
            })
            .min_by_key(|(first, _)| *first)
            .map(|(_, class)| class.clone())
    }

    /// The class to start one of for later, and what to do for it.
    pub(super) fn next_spare(&mut self, now: Instant, bounds: Bounds) -> Option<(Class, Spare<S>)> {
        if self.starting() >= MAX_SPARE_STARTS || self.all.values_mut().any(|s| s.waiting() > 0) {
            return None;
        }
        let all: usize = self.all.values().map(|s| s.ready() + s.starting).sum();
        let (class, used) = self
            .all
            .iter()
            .filter(|(_, shelf)| {
                shelf.ready() + shelf.starting < shelf.demand.target()
                    && shelf.rest_until.is_none_or(|until| until <= now)
            })
            .map(|(class, shelf)| (class, shelf.demand.used()))
            .max_by_key(|(_, used)| *used)?;
        let class = class.clone();
        if all < bounds.max {
            return Some((class, Spare::Start));
        }
        // What was used longer ago makes room, down to its floor.
        let oldest = self
            .all
            .values_mut()
            .filter(|shelf| shelf.ready() > shelf.demand.floor() && shelf.demand.used() < used)
            .min_by_key(|shelf| shelf.demand.used())?;
        oldest
            .give_up()
            .map(|sandbox| (class, Spare::Evict(sandbox)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        pool::{
            demand::Found,
            shelf::{Member, Waiter},
        },
        types::Limits,
    };

    const BOUNDS: Bounds = Bounds {
        max: 3,
        min: 0,
        idle: Duration::from_mins(10),
    };

    type Test = Shelves<u32, ()>;

    fn permit(image: &str) -> Permit<Launch> {
        Permit::for_tests(Launch {
            image: image.to_owned(),
            shm_mib: 16,
            limits: Limits::DEFAULT,
            warm_up: None,
        })
    }

    fn class(image: &str) -> Class {
        Class::of(permit(image).action())
    }

    fn wait(shelves: &mut Test, image: &str, number: u64) -> oneshot::Receiver<Result<u32, ()>> {
        let (reply, answer) = oneshot::channel();
        let shelf = shelves.shelf(&permit(image), Instant::now());
        let since = Instant::now();
        shelf.wait(Waiter {
            number,
            since,
            reply,
        });
        answer
    }

    fn start(shelves: &mut Test) -> Option<Class> {
        let class = shelves.next_awaited()?;
        shelves.get(&class).unwrap().starting += 1;
        Some(class)
    }

    #[tokio::test]
    async fn calls_are_served_in_their_order_over_all_classes_and_not_too_many_at_once() {
        let mut shelves = Test::default();
        let _answers: Vec<_> = ["b", "a", "a", "b", "b", "a"]
            .repeat(2)
            .into_iter()
            .zip(0..)
            .map(|(image, number)| wait(&mut shelves, image, number))
            .collect();
        let begun: Vec<_> = std::iter::from_fn(|| start(&mut shelves)).collect();
        assert_eq!(begun.len(), MAX_STARTS);
        assert_eq!(begun[0], class("b"));
        assert!(begun.contains(&class("a")));
        assert_eq!(shelves.next_spare(Instant::now(), BOUNDS), None);
    }

    #[tokio::test]
    async fn starts_that_hang_keep_nobody_from_starting_but_are_not_without_end() {
        let mut shelves = Test::default();
        let callers: Vec<_> = (0..8).map(|n| wait(&mut shelves, "a", n)).collect();
        while start(&mut shelves).is_some() {}
        drop(callers);
        let _next: Vec<_> = (8..10).map(|n| wait(&mut shelves, "a", n)).collect();
        assert_eq!(start(&mut shelves), None, "those under way are theirs");
        shelves.get(&class("a")).unwrap().slow = MAX_SLOW_STARTS;
        assert_eq!(start(&mut shelves), Some(class("a")));
        assert_eq!(start(&mut shelves), Some(class("a")));
        assert_eq!(start(&mut shelves), None, "one for each call");
        shelves.get(&class("a")).unwrap().slow = MAX_SLOW_STARTS + 1;
        let _more = wait(&mut shelves, "a", 10);
        assert_eq!(start(&mut shelves), None, "the daemon swallows them all");
    }

    #[tokio::test]
    async fn one_start_a_call_and_none_for_a_call_that_has_given_up() {
        let mut shelves = Test::default();
        let first = wait(&mut shelves, "a", 0);
        assert_eq!(start(&mut shelves), Some(class("a")));
        assert_eq!(start(&mut shelves), None, "it is on its way");
        let second = wait(&mut shelves, "a", 1);
        drop((first, second));
        assert_eq!(start(&mut shelves), None);
    }

    #[tokio::test]
    async fn spares_are_started_up_to_the_ceiling_and_the_long_unused_makes_room() {
        let mut shelves = Test::default();
        let now = Instant::now();
        let new = class("new");
        let shelf = shelves.shelf(&permit("old"), now);
        for number in 0..3 {
            shelf.demand.asked(now, Found::Nothing, BOUNDS);
            shelf.put(Member {
                sandbox: number,
                number: u64::from(number),
                warm: true,
            });
        }
        assert_eq!(shelves.next_spare(now, BOUNDS), None, "all are there");
        let later = now + Duration::from_secs(1);
        let shelf = shelves.shelf(&permit("new"), later);
        shelf.demand.asked(later, Found::Nothing, BOUNDS);
        assert_eq!(
            shelves.next_spare(later, BOUNDS),
            Some((new.clone(), Spare::Evict(0)))
        );
        assert_eq!(
            shelves.next_spare(later, BOUNDS),
            Some((new.clone(), Spare::Start)),
            "there is room now"
        );
        shelves.get(&new).unwrap().rest_until = Some(later + Duration::from_secs(1));
        assert_eq!(
            shelves.next_spare(later, Bounds { max: 2, ..BOUNDS }),
            None,
            "the last start failed just now"
        );
    }

    #[tokio::test]
    async fn a_class_of_which_nothing_is_left_is_forgotten() {
        let mut shelves = Test::default();
        let now = Instant::now();
        shelves.shelf(&permit("a"), now);
        shelves.shelf(&permit("b"), now).demand.keep(1);
        shelves.tidy();
        assert!(shelves.get(&class("a")).is_none());
        assert!(shelves.get(&class("b")).is_some(), "the operator wants it");
    }
}
