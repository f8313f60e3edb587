//! Looks after the sandboxes that wait: the dead, those of an image that was replaced, and those that nobody needs
//! any more go.
//!
//! It sleeps while nothing waits, so that an idle window costs nothing. It never decides which call gets what.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use tokio::time::{Instant, MissedTickBehavior};

use super::Inner;
use crate::engine::{EngineError, Sandbox, daemon::DaemonError};

/// How often those that wait are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long after a failure the daemon's events are asked for again. Stops a daemon that is down, or that refuses
/// them, from being asked without end.
const FOLLOW_AGAIN: Duration = Duration::from_secs(5);

/// How many of them are asked at each look whether they answer, those that are handed out next. The others are asked
/// when they are handed out. Stops a large pool from keeping the machine busy with pings.
const ASKED: usize = 8;

type Changes = BoxStream<'static, Result<(), DaemonError>>;

/// Works until the pool is closed.
pub(super) async fn keep(inner: Arc<Inner>) {
    let work = async {
        loop {
            inner.occupied.notified().await;
            look_after(&inner).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = inner.closed.cancelled() => {}
    }
}

/// Works until nothing waits.
async fn look_after(inner: &Arc<Inner>) {
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follow = Follow::Not {
        again: Instant::now(),
    };
    loop {
        follow.begin(inner).await;
        tokio::select! {
            _ = tick.tick() => {
                inner.settle();
                inner.ask();
                if inner.shelves().is_empty() {
                    return;
                }
                follow.confirm(inner).await;
            }
            change = follow.next() => match change {
                Some(Ok(())) => {
                    inner.unsure.store(true, Ordering::Relaxed);
                    inner.compare_images().await;
                    inner.unsure.store(false, Ordering::Relaxed);
                }
                Some(Err(error)) => follow.give_up(&error.to_string()),
                None => follow.give_up("the connection ended"),
            },
        }
    }
}

/// The daemon's word on images.
enum Follow {
    Not {
        again: Instant,
    },
    /// Followed, but what happened before the daemon took the question may have been missed.
    Fresh(Changes),
    Sure(Changes),
}

impl Follow {
    async fn begin(&mut self, inner: &Inner) {
        match self {
            Self::Not { again } if *again <= Instant::now() => {
                match inner.engine.image_changes().await {
                    Ok(changes) => *self = Self::Fresh(changes),
                    Err(error) => self.give_up(&error.to_string()),
                }
            }
            Self::Not { .. } | Self::Fresh(_) | Self::Sure(_) => {}
        }
    }

    /// A while after the daemon was asked it has answered: looks once at what may have changed before.
    async fn confirm(&mut self, inner: &Inner) {
        let now = Self::Not {
            again: Instant::now(),
        };
        *self = match std::mem::replace(self, now) {
            Self::Fresh(changes) => {
                inner.compare_images().await;
                Self::Sure(changes)
            }
            same @ (Self::Not { .. } | Self::Sure(_)) => same,
        };
    }

    /// The next change, and with it all that have arrived besides: building an image tells of many.
    async fn next(&mut self) -> Option<Result<(), DaemonError>> {
        match self {
            Self::Not { .. } => std::future::pending().await,
            Self::Fresh(changes) | Self::Sure(changes) => {
                let mut last = changes.next().await?;
                while last.is_ok()
                    && let Some(Some(more)) = changes.next().now_or_never()
                {
                    last = more;
                }
                Some(last)
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        tracing::debug!(why, "images are not followed for a while");
        *self = Self::Not {
            again: Instant::now() + FOLLOW_AGAIN,
        };
    }
}

impl Inner {
    /// Removes the dead and the superfluous, and starts what is missing.
    fn settle(self: &Arc<Self>) {
        let now = Instant::now();
        let mut gone: Vec<Arc<Sandbox>> = Vec::new();
        {
            let mut all = self.shelves();
            for (_, stock) in all.iter_mut() {
                gone.extend(stock.take_if(|sandbox| sandbox.is_lost()));
                let ready = stock.ready();
                stock.demand.settle(now, ready, self.bounds());
                while stock.ready() > stock.demand.target() {
                    gone.extend(stock.give_up());
                }
            }
            all.tidy();
        }
        if !gone.is_empty() {
            tracing::debug!(count = gone.len(), "sandboxes that waited are given up");
        }
        drop(gone);
        self.refill();
    }

    /// Asks those that are handed out next whether they answer, and removes those that do not: a container that is
    /// paused, or a guest that hangs, closes no connection.
    fn ask(self: &Arc<Self>) {
        let next: Vec<_> = {
            let mut all = self.shelves();
            let members = all.iter_mut().flat_map(|(_, stock)| stock.next());
            members.take(ASKED).cloned().collect()
        };
        for sandbox in next {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                if sandbox.answers().await {
                    return;
                }
                let mute = {
                    let mut all = inner.shelves();
                    let mut taken = all.iter_mut().map(|(_, stock)| {
                        stock.take_if(|member| Arc::ptr_eq(member, &sandbox)).pop()
                    });
                    taken.find_map(|taken| taken)
                };
                if mute.is_some() {
                    tracing::warn!(sandbox = %sandbox.id(), "a sandbox that waits does not answer and is given up");
                }
            });
        }
    }

    /// Gives up what was made of an image that is no longer the one of its name.
    async fn compare_images(self: &Inner) {
        let classes: Vec<_> = {
            let mut all = self.shelves();
            all.iter_mut().map(|(class, _)| class.clone()).collect()
        };
        for class in classes {
            let at = Instant::now();
            let found = self.engine.image_id(class.image()).await;
            let mut all = self.shelves();
            let Some(stock) = all.get(&class) else {
                continue;
            };
            let gone = match found {
                Ok(id) => {
                    let _ = stock.learn(Some(&id), at);
                    stock.rested();
                    stock.take_if(|sandbox| sandbox.image_id() != id)
                }
                // Nothing of it may run any more. A call that needs it is told how to get it back.
                Err(EngineError::ImageMissing { .. } | EngineError::ImageRefused { .. }) => {
                    // What is being started of it must not wait either.
                    let _ = stock.learn(None, at);
                    stock.take_if(|_| true)
                }
                // The daemon is the trouble, and whoever waits will show it.
                Err(error) => {
                    tracing::debug!(%error, "an image could not be looked at");
                    Vec::new()
                }
            };
            drop(all);
            drop(gone);
        }
    }
}
