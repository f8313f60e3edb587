//! Whether the other side may open streams, and how many.
//!
//! It decides on each stream as it comes. It must never hold more streams than the bound, whether
//! somebody takes them or not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_channel::mpsc;
use futures_util::StreamExt as _;

use super::backlog::Reader;
use super::{MuxError, Stream};
use crate::limits::MAX_TUNNELS;

/// Streams that may come after the gate was closed, since they were under way. Stops a guest from
/// keeping the server busy with streams that it knows are refused.
const MAX_LATE: usize = MAX_TUNNELS;

/// What decides on each stream. Its end, with the connection, ends what has been let in.
#[derive(Debug, Default)]
pub(super) struct Admission(Arc<Mutex<State>>);

/// Lets streams of the other side in, or not. Shut at first. Clones are of the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Weak<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// It never was open: whoever opens a stream breaks the protocol.
    #[default]
    Never,
    /// Streams go to whoever has the [`Incoming`].
    Open {
        streams: mpsc::UnboundedSender<Stream>,
        /// One clone for each stream that is alive.
        permits: Arc<()>,
    },
    /// It was open. What was under way is reset.
    Over { late: usize },
}

impl Admission {
    /// The handle that opens it.
    pub(super) fn gate(&self) -> Gate {
        Gate(Arc::downgrade(&self.0))
    }

    /// Takes in a stream that the other side has opened; at most `most` are alive.
    pub(super) fn admit(
        &self,
        inner: yamux::Stream,
        backlog: Reader,
        most: usize,
    ) -> Result<(), MuxError> {
        match &mut *lock(&self.0) {
            State::Never => Err(MuxError::UnexpectedStream),
            State::Open { permits, .. } if Arc::strong_count(permits) > most => {
                Err(MuxError::TooManyStreams)
            }
            State::Open { streams, permits } => {
                let stream = Stream {
                    inner,
                    backlog,
                    _permit: Arc::clone(permits),
                };
                // Nobody takes streams any more: dropping it resets it.
                drop(streams.unbounded_send(stream));
                Ok(())
            }
            State::Over { late } if *late == MAX_LATE => Err(MuxError::UnexpectedStream),
            State::Over { late } => {
                *late += 1;
                drop(inner);
                Ok(())
            }
        }
    }
}

impl Gate {
    /// Lets streams in until what is returned is dropped; `None` if it is open already.
    #[must_use]
    pub fn open(&self) -> Option<Incoming> {
        let (sender, streams) = mpsc::unbounded();
        // Once the connection has ended nothing keeps the sender, and nothing will come.
        if let Some(state) = self.0.upgrade() {
            let mut state = lock(&state);
            if matches!(*state, State::Open { .. }) {
                return None;
            }
            *state = State::Open {
                streams: sender,
                permits: Arc::new(()),
            };
        }
        Some(Incoming {
            streams,
            gate: self.clone(),
        })
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The streams that the other side opens. Dropping it shuts the gate and resets what nobody took.
#[derive(Debug)]
pub struct Incoming {
    streams: mpsc::UnboundedReceiver<Stream>,
    gate: Gate,
}

impl Incoming {
    /// The next stream; `None` once the connection has ended. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Stream> {
        self.streams.next().await
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(state) = self.gate.0.upgrade() {
            *lock(&state) = State::Over { late: 0 };
        }
    }
}
