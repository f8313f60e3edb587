//! The sandboxes of one class: those that wait, those that are being started, and the calls that wait for one.
//!
//! Plain state without clock or daemon, generic over what a sandbox is, so that it can be tried without either.
//! A sandbox leaves it once, to one call or to nobody, and never comes back.

use std::collections::VecDeque;

use tokio::{sync::oneshot, time::Instant};

use super::demand::Demand;
use crate::policy::{Launch, Permit};

/// Whoever waits for a sandbox.
#[derive(Debug)]
pub(super) struct Waiter<S, E> {
    /// Waiters are numbered in the order of their coming, over all shelves.
    pub(super) number: u64,
    /// When it came.
    pub(super) since: Instant,
    pub(super) reply: oneshot::Sender<Result<S, E>>,
}

/// A sandbox that waits.
#[derive(Debug)]
pub(super) struct Member<S> {
    pub(super) sandbox: S,
    /// Its number among all members.
    pub(super) number: u64,
    /// Whether its interpreter has been booted.
    pub(super) warm: bool,
}

/// The image that sandboxes are made of, as of a moment.
#[derive(Debug)]
struct Known {
    /// `None`: there was none of that name.
    id: Option<String>,
    at: Instant,
}

/// What the knowledge of the image says of a sandbox that has just been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Current,
    /// Its image was replaced while it was being started.
    Stale,
}

/// One class.
#[derive(Debug)]
pub(super) struct Shelf<S, E> {
    /// What starts one.
    pub(super) permit: Permit<Launch>,
    idle: Vec<Member<S>>,
    waiters: VecDeque<Waiter<S, E>>,
    /// Starts under way.
    pub(super) starting: usize,
    /// Those of them that have taken long already, and on which nobody counts any more.
    pub(super) slow: usize,
    pub(super) demand: Demand,
    image: Option<Known>,
    /// No start without a call that waits for it before this moment: the last one failed.
    pub(super) rest_until: Option<Instant>,
    /// Starts that have failed one after the other.
    pub(super) failures: u32,
}

impl<S, E> Shelf<S, E> {
    pub(super) fn new(permit: Permit<Launch>, now: Instant) -> Self {
        Self {
            permit,
            idle: Vec::new(),
            waiters: VecDeque::new(),
            starting: 0,
            slow: 0,
            demand: Demand::new(now),
            image: None,
            rest_until: None,
            failures: 0,
        }
    }

    /// How many wait.
    pub(super) fn ready(&self) -> usize {
        self.idle.len()
    }

    /// How many of those have a booted interpreter.
    pub(super) fn warm(&self) -> usize {
        self.idle.iter().filter(|member| member.warm).count()
    }

    /// How many calls wait. Those that have given up are forgotten here.
    pub(super) fn waiting(&mut self) -> usize {
        self.waiters.retain(|waiter| !waiter.reply.is_closed());
        self.waiters.len()
    }

    /// The number of the call that has waited longest.
    pub(super) fn first_waiter(&self) -> Option<u64> {
        self.waiters.front().map(|waiter| waiter.number)
    }

    pub(super) fn wait(&mut self, waiter: Waiter<S, E>) {
        self.waiters.push_back(waiter);
    }

    /// Whether nothing here is worth remembering.
    pub(super) fn is_unused(&mut self) -> bool {
        self.idle.is_empty()
            && self.starting == 0
            && self.waiting() == 0
            && self.demand.target() == 0
            && self.demand.floor() == 0
    }

    /// Takes the best that waits and is `fit`: one whose interpreter has been booted, else the one that has waited
    /// longest.
    pub(super) fn take(&mut self, fit: impl Fn(&S) -> bool) -> Option<S> {
        let fitting = |member: &Member<S>| fit(&member.sandbox);
        let warm = |member: &Member<S>| member.warm && fitting(member);
        let best = self.idle.iter().position(warm);
        let best = best.or_else(|| self.idle.iter().position(fitting))?;
        Some(self.idle.remove(best).sandbox)
    }

    /// Those that wait, the best first.
    pub(super) fn next(&self) -> impl Iterator<Item = &S> {
        let kind = |warm: bool| self.idle.iter().filter(move |member| member.warm == warm);
        kind(true).chain(kind(false)).map(|member| &member.sandbox)
    }

    /// Takes the one that is missed least.
    pub(super) fn give_up(&mut self) -> Option<S> {
        let least = self
            .idle
            .iter()
            .position(|member| !member.warm)
            .unwrap_or(0);
        (least < self.idle.len()).then(|| self.idle.remove(least).sandbox)
    }

    /// Takes all for which `gone` holds.
    pub(super) fn take_if(&mut self, mut gone: impl FnMut(&S) -> bool) -> Vec<S> {
        self.idle
            .extract_if(.., |member| gone(&member.sandbox))
            .map(|member| member.sandbox)
            .collect()
    }

    /// Hands a sandbox to the call that has waited longest, or gives it back if none does.
    pub(super) fn hand_over(&mut self, sandbox: S) -> Result<(), S> {
        let mut sandbox = sandbox;
        while let Some(waiter) = self.waiters.pop_front() {
            match waiter.reply.send(Ok(sandbox)) {
                Ok(()) | Err(Err(_)) => return Ok(()),
                // It has given up.
                Err(Ok(back)) => sandbox = back,
            }
        }
        Err(sandbox)
    }

    /// Tells the call that has waited longest why there is none for it, if it waited already when the start that failed
    /// began: another one's failure says nothing of its own. Otherwise gives the error back.
    pub(super) fn disappoint(&mut self, error: E, began: Instant) -> Result<(), E> {
        let mut error = error;
        while self
            .waiters
            .front()
            .is_some_and(|waiter| waiter.since <= began)
            && let Some(waiter) = self.waiters.pop_front()
        {
            match waiter.reply.send(Err(error)) {
                Ok(()) | Err(Ok(_)) => return Ok(()),
                Err(Err(back)) => error = back,
            }
        }
        Err(error)
    }

    /// A start has failed, and so many before it: none is begun for later before `until`.
    pub(super) fn rest(&mut self, until: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.rest_until = Some(until);
    }

    /// Starts may work again.
    pub(super) fn rested(&mut self) {
        self.failures = 0;
        self.rest_until = None;
    }

    pub(super) fn put(&mut self, member: Member<S>) {
        self.idle.push(member);
    }

    /// The member of this number, if it still waits.
    pub(super) fn member(&mut self, number: u64) -> Option<&mut Member<S>> {
        self.idle.iter_mut().find(|member| member.number == number)
    }

    /// Learns that the image was `id` at the time `at`, or that there was none, and says whether that is still so.
    pub(super) fn learn(&mut self, id: Option<&str>, at: Instant) -> Age {
        match &self.image {
            Some(known) if known.at > at && known.id.as_deref() != id => Age::Stale,
            Some(known) if known.at > at => Age::Current,
            Some(_) | None => {
                self.image = Some(Known {
                    id: id.map(str::to_owned),
                    at,
                });
                Age::Current
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Limits;

    type Test = Shelf<u32, &'static str>;

    fn shelf(members: &[(u32, bool)]) -> Test {
        let permit = Permit::for_tests(Launch {
            image: "a".to_owned(),
            shm_mib: 16,
            limits: Limits::DEFAULT,
            warm_up: None,
        });
        let mut shelf = Test::new(permit, Instant::now());
        for (number, (sandbox, warm)) in members.iter().enumerate() {
            shelf.put(Member {
                sandbox: *sandbox,
                number: number as u64,
                warm: *warm,
            });
        }
        shelf
    }

    fn waiter(shelf: &mut Test, number: u64) -> oneshot::Receiver<Result<u32, &'static str>> {
        let (reply, answer) = oneshot::channel();
        let since = Instant::now();
        shelf.wait(Waiter {
            number,
            since,
            reply,
        });
        answer
    }

    #[tokio::test]
    async fn the_booted_go_first_then_the_oldest_and_the_others_are_given_up_first() {
        let mut taken = shelf(&[(1, false), (2, true), (3, false)]);
        assert_eq!(taken.take(|sandbox| *sandbox > 3), None);
        assert_eq!(taken.take(|sandbox| *sandbox == 3), Some(3));
        taken.put(Member {
            sandbox: 3,
            number: 9,
            warm: false,
        });
        let order: Vec<_> = std::iter::from_fn(|| taken.take(|_| true)).collect();
        assert_eq!(order, [2, 1, 3]);
        let mut given = shelf(&[(1, true), (2, false)]);
        assert_eq!(given.give_up(), Some(2));
        assert_eq!(given.give_up(), Some(1));
        assert_eq!(given.give_up(), None);
    }

    #[tokio::test]
    async fn a_sandbox_goes_to_the_first_that_still_waits() {
        let mut shelf = shelf(&[]);
        let gone = waiter(&mut shelf, 1);
        let mut second = waiter(&mut shelf, 2);
        let mut third = waiter(&mut shelf, 3);
        drop(gone);
        assert_eq!(shelf.waiting(), 2);
        assert_eq!(shelf.first_waiter(), Some(2));
        assert_eq!(shelf.hand_over(7), Ok(()));
        assert_eq!(second.try_recv().unwrap(), Ok(7));
        let before = Instant::now() - std::time::Duration::from_secs(1);
        assert_eq!(shelf.disappoint("no", before), Err("no"), "not its own");
        assert_eq!(shelf.disappoint("no", Instant::now()), Ok(()));
        assert_eq!(third.try_recv().unwrap(), Err("no"));
        assert_eq!(shelf.hand_over(8), Err(8));
        assert_eq!(shelf.disappoint("no", Instant::now()), Err("no"));
    }

    #[tokio::test]
    async fn what_is_known_of_the_image_outlives_a_start_that_began_before() {
        let mut shelf = shelf(&[]);
        let begun = Instant::now();
        let later = begun + std::time::Duration::from_secs(1);
        assert_eq!(shelf.learn(Some("old"), begun), Age::Current);
        assert_eq!(shelf.learn(Some("new"), later), Age::Current);
        assert_eq!(
            shelf.learn(Some("old"), begun),
            Age::Stale,
            "begun before the change"
        );
        assert_eq!(shelf.learn(Some("new"), begun), Age::Current);
        let last = later + std::time::Duration::from_secs(1);
        assert_eq!(shelf.learn(None, last), Age::Current);
        assert_eq!(shelf.learn(Some("new"), later), Age::Stale, "it is gone");
    }
}
