//! Starts sandboxes, and sees to what becomes of each: a call's, a waiting one, or nobody's.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Inner, REFILL_PAUSE,
    class::Class,
    plan::Spare,
    shelf::{Age, Member, Shelf},
};
use crate::{
    engine::{EngineError, Sandbox},
    policy::{Launch, Permit},
    types::MIB,
};

type ShelfOf = Shelf<Arc<Sandbox>, EngineError>;

/// What one that waits takes of the daemon's machine with a booted interpreter, in MiB: more than a Python with
/// pandas and matplotlib.
const MEMBER_MIB: u64 = 80;
/// Interpreters that boot at a time besides the first, however many processors there are.
const MAX_WARMING: usize = 7;
/// How much of the daemon's machine those that wait may take together, in quarters.
const QUARTERS: u64 = 3;

/// How long nothing is started for later after a start has failed; doubled for each further failure. Stops a daemon
/// that is down from being asked without end.
const REST: Duration = Duration::from_secs(1);
/// The longest such rest.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// How long a start may take before nobody counts on it any more: longer than the daemon has for a question, and many
/// times what a start takes.
const SLOW: Duration = Duration::from_secs(30);

/// How a start went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Usual,
    Slow,
}

impl Inner {
    /// Begins the starts that calls wait for.
    pub(super) fn start_awaited(self: &Arc<Self>) {
        loop {
            let mut all = self.shelves();
            let Some(class) = all.next_awaited() else {
                return;
            };
            let permit = all.get(&class).map(begin);
            drop(all);
            if let Some(permit) = permit {
                self.launch(class, permit);
            }
        }
    }

    /// Begins, in a moment, the starts that nobody waits for yet.
    pub(super) fn refill(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(REFILL_PAUSE) => inner.start_spares(),
                () = inner.closed.cancelled() => {}
            }
        });
    }

    fn start_spares(self: &Arc<Self>) {
        loop {
            let mut all = self.shelves();
            let Some((class, spare)) = all.next_spare(Instant::now(), self.bounds()) else {
                return;
            };
            match spare {
                Spare::Start => {
                    let permit = all.get(&class).map(begin);
                    drop(all);
                    if let Some(permit) = permit {
                        self.launch(class, permit);
                    }
                }
                Spare::Evict(sandbox) => {
                    drop(all);
                    drop(sandbox);
                }
            }
        }
    }

    fn launch(self: &Arc<Self>, class: Class, permit: Permit<Launch>) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let at = Instant::now();
            // A launch that panics is told as an error, so that every start that began also ends.
            let mut launch = std::pin::pin!(inner.engine.launch(&permit));
            let in_time = tokio::time::timeout(SLOW, &mut launch).await;
            let (pace, result) = if let Ok(result) = in_time {
                (Pace::Usual, result)
            } else {
                inner.mark_slow(&class);
                (Pace::Slow, launch.await)
            };
            inner.measure();
            inner.started(&class, at, pace, result.map(Arc::new));
        });
    }

    /// A start takes so long that it may never end: another one is begun for whoever waits.
    fn mark_slow(self: &Arc<Self>, class: &Class) {
        if let Some(stock) = self.shelves().get(class) {
            stock.slow += 1;
        }
        tracing::warn!("the daemon takes long to start a sandbox, another one is started");
        self.start_awaited();
    }

    /// Learns how many the daemon's machine can hold. Stops an operator's slip of the finger from filling it.
    fn measure(&self) {
        let known = self.room.load(Ordering::Relaxed) != usize::MAX;
        if !known && let Some(machine) = self.engine.machine() {
            let room = machine.memory_bytes / 4 * QUARTERS / (MEMBER_MIB * MIB);
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            self.room.store(room, Ordering::Relaxed);
            // Half of the processors, of which one was there from the start.
            let spare = usize::try_from(machine.cpus / 2).unwrap_or(0);
            self.warming
                .add_permits(spare.saturating_sub(1).min(MAX_WARMING));
            if room < self.options.bounds.max {
                tracing::info!(
                    room,
                    "fewer sandboxes wait than `pool.max` allows: the daemon's machine has no memory for more"
                );
            }
        }
    }

    fn started(
        self: &Arc<Self>,
        class: &Class,
        at: Instant,
        pace: Pace,
        result: Result<Arc<Sandbox>, EngineError>,
    ) {
        let mut unwanted = None;
        {
            let mut all = self.shelves();
            let room = self.bounds().max > all.ready();
            // Closed meanwhile: whatever was started goes with this call's end.
            let Some(stock) = all.get(class) else {
                return;
            };
            stock.starting = stock.starting.saturating_sub(1);
            if pace == Pace::Slow {
                stock.slow = stock.slow.saturating_sub(1);
            }
            match result {
                Ok(sandbox) => {
                    stock.rested();
                    match stock.learn(Some(sandbox.image_id()), at) {
                        Age::Stale => unwanted = Some(sandbox),
                        Age::Current => {
                            unwanted = self.place(stock, sandbox, room);
                        }
                    }
                }
                Err(error) => {
                    if let Err(error) = stock.disappoint(error, at) {
                        let rest = REST
                            .saturating_mul(1 << stock.failures.min(16))
                            .min(LONGEST_REST);
                        stock.rest(Instant::now() + rest);
                        tracing::warn!(%error, ?rest, "no sandbox could be started for later");
                    }
                }
            }
            all.tidy();
        }
        drop(unwanted);
        self.start_awaited();
        self.refill();
    }

    /// To a call that waits, else to those that wait for one, unless there are enough of them.
    fn place(
        self: &Arc<Self>,
        stock: &mut ShelfOf,
        sandbox: Arc<Sandbox>,
        room: bool,
    ) -> Option<Arc<Sandbox>> {
        let Err(sandbox) = stock.hand_over(sandbox) else {
            return None;
        };
        if !room || stock.ready() >= stock.demand.target() {
            return Some(sandbox);
        }
        let number = self.number();
        self.warm_up(number, &sandbox);
        stock.put(Member {
            sandbox,
            number,
            warm: false,
        });
        self.occupied.notify_one();
        None
    }
}

/// Notes that a start begins, and gives what it needs.
fn begin(stock: &mut ShelfOf) -> Permit<Launch> {
    stock.starting += 1;
    stock.permit.clone()
}
