//! The requests that are under way: which ids are taken, and what their requests hold of the memory.
//!
//! A request ends when its handler has ended, and its id is free when its answer was given to the outbox, or when it
//! was taken back and its handler has ended. The SDK keeps no such account: it would let a second request of the same
//! id take the first one's place, and as many requests in as a client sends. Nothing here may wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::RequestId;
use tokio::sync::{Notify, futures::Notified};

use super::{
    super::message::{Fault, MAX_UNDER_WAY_BYTES, REQUEST_BYTES},
    outbox::Slot,
};
use crate::tools::Room;

/// The requests under way.
#[derive(Default)]
pub(super) struct Flights {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Default)]
struct State {
    taken: HashMap<RequestId, Flight>,
    bytes: usize,
    last: u64,
}

/// One request whose id is taken.
struct Flight {
    /// Tells it from later ones of the same id.
    number: u64,
    is: Stage,
    room: Room,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its handler is at it.
    Handled,
    /// Its handler is at it, and nobody wants its answer.
    TakenBack,
    /// Its handler has ended, and its answer is on its way to the outbox.
    Done,
}

/// Why a request may not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Its id is taken.
    Duplicate,
    /// Too much is under way.
    Busy,
}

/// What a request's handler holds until it ends, however it ends.
pub(super) struct Seat {
    flights: Arc<Flights>,
    outbox: Slot,
    id: RequestId,
    number: u64,
    bytes: usize,
}

impl Flights {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic happens under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request that takes `weight` bytes of memory; what its handler must hold, and where it keeps what its
    /// answer waits for.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: &RequestId,
        weight: usize,
        outbox: &Slot,
    ) -> Result<(Seat, Room), Full> {
        let bytes = weight + REQUEST_BYTES;
        let mut state = self.state();
        if state.taken.contains_key(id) {
            return Err(Full::Duplicate);
        }
        // One always may.
        if state.bytes > 0 && state.bytes + bytes > MAX_UNDER_WAY_BYTES {
            return Err(Full::Busy);
        }
        state.bytes += bytes;
        state.last += 1;
        let number = state.last;
        let room = Room::default();
        let flight = Flight {
            number,
            is: Stage::Handled,
            room: room.clone(),
        };
        state.taken.insert(id.clone(), flight);
        let seat = Seat {
            flights: Arc::clone(self),
            outbox: outbox.clone(),
            id: id.clone(),
            number,
            bytes,
        };
        Ok((seat, room))
    }

    /// Notes that a request was taken back; whether there is one of this id that can be.
    pub(super) fn take_back(&self, id: &RequestId) -> bool {
        match self.state().taken.get_mut(id) {
            Some(flight) if flight.is == Stage::Handled => {
                flight.is = Stage::TakenBack;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Frees the id of a request that is answered; what its answer held.
    pub(super) fn answered(&self, id: &RequestId) -> Option<Room> {
        self.state().taken.remove(id).map(|flight| flight.room)
    }

    /// Comes when the next handler ends, from now on.
    pub(super) fn less(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Notes that a handler has ended; whether somebody waits for an answer that will never come.
    fn end(&self, seat: &Seat, panics: bool) -> bool {
        let mut state = self.state();
        state.bytes -= seat.bytes;
        let flight = state.taken.get_mut(&seat.id);
        let unanswered = match flight.filter(|flight| flight.number == seat.number) {
            None => false,
            Some(flight) if flight.is == Stage::Handled && !panics => {
                flight.is = Stage::Done;
                false
            }
            Some(flight) => {
                let wanted = flight.is == Stage::Handled;
                state.taken.remove(&seat.id);
                wanted
            }
        };
        drop(state);
        self.ended.notify_waiters();
        unanswered
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let panics = std::thread::panicking();
        if self.flights.end(self, panics) {
            tracing::error!("a request panicked");
            // It fails where the client is gone.
            let _ = self
                .outbox
                .put(Fault::internal(&self.id).to_json().into_bytes(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::{super::outbox::Outbox, *};

    fn begin(
        flights: &Arc<Flights>,
        outbox: &Outbox,
        id: i64,
        weight: usize,
    ) -> Result<Seat, Full> {
        let id = RequestId::Number(id);
        flights
            .begin(&id, weight, outbox.slot())
            .map(|(seat, _room)| seat)
    }

    fn outbox() -> (Outbox, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(4096);
        let token = CancellationToken::new;
        (Outbox::new(theirs, token(), token()), ours)
    }

    #[tokio::test]
    async fn an_id_is_taken_until_its_answer_is_on_its_way() {
        let (outbox, _ours) = outbox();
        let flights: Arc<Flights> = Arc::default();
        let id = RequestId::Number(1);
        let seat = begin(&flights, &outbox, 1, 0).unwrap();
        assert_eq!(begin(&flights, &outbox, 1, 0).err(), Some(Full::Duplicate));
        drop(seat);
        assert_eq!(begin(&flights, &outbox, 1, 0).err(), Some(Full::Duplicate));
        assert!(!flights.take_back(&id), "its answer is on its way");
        assert!(flights.answered(&id).is_some());
        assert!(flights.answered(&id).is_none());
        assert!(begin(&flights, &outbox, 1, 0).is_ok());
    }

    #[tokio::test]
    async fn an_id_that_was_taken_back_is_taken_until_its_handler_has_ended() {
        let (outbox, _ours) = outbox();
        let flights: Arc<Flights> = Arc::default();
        let id = RequestId::Number(1);
        assert!(!flights.take_back(&id), "there is none yet");
        let seat = begin(&flights, &outbox, 1, 0).unwrap();
        assert!(flights.take_back(&id));
        assert!(!flights.take_back(&id), "once");
        assert_eq!(begin(&flights, &outbox, 1, 0).err(), Some(Full::Duplicate));
        drop(seat);
        assert!(!flights.take_back(&id), "it is over");
        assert!(begin(&flights, &outbox, 1, 0).is_ok());
    }

    #[tokio::test]
    async fn what_is_under_way_is_bounded_and_one_always_may() {
        let (outbox, _ours) = outbox();
        let flights: Arc<Flights> = Arc::default();
        let large = begin(&flights, &outbox, 1, 2 * MAX_UNDER_WAY_BYTES).unwrap();
        assert_eq!(begin(&flights, &outbox, 2, 0).err(), Some(Full::Busy));
        drop(large);
        let most = MAX_UNDER_WAY_BYTES / REQUEST_BYTES;
        let seats: Vec<_> = (0..)
            .map_while(|at| begin(&flights, &outbox, 10 + at, 0).ok())
            .collect();
        assert_eq!(seats.len(), most);
        drop(seats);
        assert_eq!(flights.state().bytes, 0);
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_for() {
        use tokio::io::{AsyncBufReadExt as _, BufReader};

        let (outbox, ours) = outbox();
        let flights: Arc<Flights> = Arc::default();
        let seat = begin(&flights, &outbox, 7, 0).unwrap();
        let handler = tokio::spawn(async move {
            let _seat = seat;
            panic!("on cue");
        });
        assert!(handler.await.is_err());
        let mut lines = BufReader::new(ours).lines();
        let line = lines.next_line().await.unwrap().unwrap();
        let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&7.into(), &(-32603).into())
        );
        assert!(begin(&flights, &outbox, 7, 0).is_ok());
    }
}
