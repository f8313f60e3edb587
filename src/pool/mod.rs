//! Sandboxes that are ready before the question: started, verified, and never used.
//!
//! Whoever needs a sandbox comes to [`Pool::take`] and gets one that waits, or one that is started for it. What is
//! taken is used by one caller and destroyed by the caller's drop: nothing ever comes back, so that no two callers
//! meet in one container. The engine knows nothing of all this.
//!
//! # Theory of operation
//! There is a [`shelf`] for every class of launch. Calls that find none waiting queue on their class's shelf; starts
//! belong to the shelf and not to a call, and whichever ends first serves the call that has waited longest. [`plan`]
//! says which start comes next, [`demand`] how many sandboxes of a class shall wait, and [`keeper`] looks after those
//! that do: it removes the dead, the old and the superfluous. Only launches with the operator's default limits wait;
//! a call that asks for more gets one of these raised, and a call that asks for less or for another workspace gets
//! one made for it.

mod class;
mod demand;
mod keeper;
mod plan;
mod shelf;
mod start;
mod warm;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::Settings,
    engine::{Engine, EngineError, Sandbox},
    policy::{Launch, Permit},
    types::Limits,
};
use class::Class;
use demand::{Bounds, Found};
use plan::Shelves;
use shelf::Waiter;

/// How long after a call was served its replacement is begun: making a container keeps a processor busy, which the
/// call that was just served needs more.
const REFILL_PAUSE: Duration = Duration::from_millis(20);

/// How long it counts that a sandbox has answered. The keeper asks more often; asking at each hand-over would cost
/// every call a round trip.
const SEEN_WELL: Duration = Duration::from_secs(2);

/// The pool. Clones share everything.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    options: Options,
    shelves: Mutex<Shelves<Arc<Sandbox>, EngineError>>,
    /// Numbers waiters and members.
    numbers: AtomicU64,
    /// How many may wait on the daemon's machine, as soon as it is known.
    room: AtomicUsize,
    /// Whether an image has changed and it is not known yet which sandboxes are of the past: until then none is handed
    /// out that waits.
    unsure: AtomicBool,
    /// Turns to boot an interpreter.
    warming: Semaphore,
    /// Wakes the keeper when there is something to keep.
    occupied: Notify,
    closed: CancellationToken,
}

/// What the operator decided.
#[derive(Clone, Copy, Debug)]
struct Options {
    bounds: Bounds,
    /// The limits of those that wait.
    limits: Limits,
}

/// A sandbox that is the caller's alone.
#[derive(Debug)]
pub struct Taken {
    /// The sandbox. Its container is destroyed when the last of its owners drops it.
    pub sandbox: Arc<Sandbox>,
    /// How it came to be had.
    pub origin: Origin,
}

/// How many sandboxes wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// All of them.
    pub all: usize,
    /// Those with a booted interpreter.
    pub warm: usize,
}

/// How a sandbox was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It waited.
    Ready,
    /// It waited, and was given more of something.
    Raised,
    /// It was started for this call, or had just been started when the call came.
    Started,
}

impl Origin {
    /// In one word, for logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Raised => "raised",
            Self::Started => "started",
        }
    }
}

/// Where a call's sandbox may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    AnyThatWaits,
    Start,
}

/// What a call found.
enum Begun {
    Ready(Arc<Sandbox>),
    Lower(Arc<Sandbox>),
    Wait(oneshot::Receiver<Result<Arc<Sandbox>, EngineError>>),
}

impl Pool {
    /// A pool without any sandbox. It asks nothing of the daemon before the first call.
    #[must_use]
    pub fn new(engine: Engine, settings: &Settings) -> Self {
        let pool = &settings.pool;
        Self {
            inner: Arc::new(Inner {
                engine,
                options: Options {
                    bounds: Bounds {
                        max: pool.max as usize,
                        min: pool.min as usize,
                        idle: pool.idle,
                    },
                    limits: settings.limits.default,
                },
                shelves: Mutex::default(),
                numbers: AtomicU64::new(0),
                room: AtomicUsize::new(usize::MAX),
                unsure: AtomicBool::new(false),
                warming: Semaphore::new(1),
                occupied: Notify::new(),
                closed: CancellationToken::new(),
            }),
        }
    }

    /// Starts what looks after those that wait, for as long as the pool is open.
    pub fn start(&self) {
        tokio::spawn(keeper::keep(Arc::clone(&self.inner)));
    }

    /// Has the operator's least number of sandboxes of this launch wait from now on, asked for or not.
    pub fn stock(&self, permit: &Permit<Launch>) {
        let inner = &self.inner;
        let Some(permit) = inner.waits_for(permit) else {
            return;
        };
        let mut all = inner.shelves();
        let stock = all.shelf(&permit, Instant::now());
        stock.demand.keep(inner.options.bounds.min);
        drop(all);
        inner.occupied.notify_one();
        inner.refill();
    }

    /// Takes a sandbox for `permit`. When this future is dropped, nothing is taken.
    pub async fn take(&self, permit: &Permit<Launch>) -> Result<Taken, EngineError> {
        let inner = &self.inner;
        let mut from = From::AnyThatWaits;
        let taken = loop {
            match inner.begin(permit, from)? {
                Begun::Ready(sandbox) if is_well(&sandbox).await => {
                    break Taken {
                        sandbox,
                        origin: Origin::Ready,
                    };
                }
                Begun::Lower(sandbox) if is_well(&sandbox).await => {
                    if let Err(error) = sandbox.raise(permit).await {
                        tracing::warn!(%error, "a sandbox could not be raised, another one is started");
                        from = From::Start;
                        continue;
                    }
                    break Taken {
                        sandbox,
                        origin: Origin::Raised,
                    };
                }
                Begun::Ready(dead) | Begun::Lower(dead) => {
                    // What ails it may ail the others: a call does not try them one after the other.
                    tracing::warn!(sandbox = %dead.id(), "a sandbox that waited does not answer, another one is started");
                    from = From::Start;
                }
                Begun::Wait(answer) => {
                    let sandbox = answer.await.unwrap_or(Err(EngineError::Closed))?;
                    break Taken {
                        sandbox,
                        origin: Origin::Started,
                    };
                }
            }
        };
        inner.refill();
        Ok(taken)
    }

    /// Gives up everything that waits, and gives nothing out any more.
    pub fn close(&self) {
        self.inner.closed.cancel();
        // Dropped outside of the lock: each destroys its container in the background.
        let all = self.inner.shelves().drain();
        drop(all);
    }

    /// How many sandboxes wait, of all classes.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.inner.shelves().waiting()
    }
}

/// Whether a sandbox that waited answers: as seen a moment ago, or asked now.
async fn is_well(sandbox: &Sandbox) -> bool {
    sandbox.answered_ago() < SEEN_WELL || sandbox.answers().await
}

impl Inner {
    fn shelves(&self) -> MutexGuard<'_, Shelves<Arc<Sandbox>, EngineError>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The launch of those that wait for calls like this one; `None` where none can.
    fn waits_for(&self, permit: &Permit<Launch>) -> Option<Permit<Launch>> {
        if self.options.bounds.max == 0 {
            return None;
        }
        permit.lowered(&self.options.limits)
    }

    /// The operator's bounds, within what the daemon's machine can hold.
    fn bounds(&self) -> Bounds {
        let room = self.room.load(Ordering::Relaxed);
        Bounds {
            max: self.options.bounds.max.min(room),
            ..self.options.bounds
        }
    }

    /// Takes one that waits, or joins those who wait for one.
    fn begin(self: &Arc<Self>, permit: &Permit<Launch>, from: From) -> Result<Begun, EngineError> {
        let now = Instant::now();
        let bounds = self.bounds();
        let mut dead = Vec::new();
        let mut all = self.shelves();
        if self.closed.is_cancelled() {
            return Err(EngineError::Closed);
        }
        if from == From::AnyThatWaits
            && !self.unsure.load(Ordering::Relaxed)
            && let Some(waits) = self.waits_for(permit)
        {
            let own = Class::of(waits.action());
            let as_it_is = own == Class::of(permit.action());
            let fit = |sandbox: &Arc<Sandbox>| as_it_is || sandbox.can_be_raised();
            let stock = all.shelf(&waits, now);
            dead = stock.take_if(|sandbox| sandbox.is_lost());
            let best = stock.take(fit);
            let found = match &best {
                Some(_) => Found::Ready,
                None => Found::Nothing,
            };
            stock.demand.asked(now, found, bounds);
            let left = stock.ready();
            stock.demand.left(left);
            // Another interpreter that waits is better than none, and better than a start.
            let taken = best.or_else(|| {
                all.iter_mut()
                    .filter(|(class, _)| class.is_kin(&own))
                    .find_map(|(_, kin)| kin.take(|sandbox| !sandbox.is_lost() && fit(sandbox)))
            });
            self.occupied.notify_one();
            if let Some(sandbox) = taken {
                return Ok(if as_it_is {
                    Begun::Ready(sandbox)
                } else {
                    Begun::Lower(sandbox)
                });
            }
        }
        let (reply, answer) = oneshot::channel();
        all.shelf(permit, now).wait(Waiter {
            number: self.number(),
            since: now,
            reply,
        });
        drop(all);
        drop(dead);
        self.start_awaited();
        Ok(Begun::Wait(answer))
    }
}
