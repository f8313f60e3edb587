//! The body of a request, read within bounds before the SDK reads it, and what requests hold of the memory until they are
//! answered.
//!
//! The SDK polls a body only once `Host` and `Origin` are this machine's, so that reading it here, when it is polled,
//! keeps that order. What it must never do is to hand on a body that was refused.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Body as _, Frame, Incoming},
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
};
use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    super::message::{Envelope, Fault, MAX_UNDER_WAY_BYTES, REQUEST_BYTES},
    Body, refusal,
    unread::Unread,
};
use crate::{tools::Room, types::MIB};

/// The largest body of a request. Text and files beyond it go up in several calls.
#[expect(clippy::cast_possible_truncation, reason = "four mebibytes")]
pub(super) const MAX_BODY_BYTES: usize = 4 * MIB as usize;
/// How long a body may take. Stops connections that send theirs byte by byte from keeping their places.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The largest body that is read however many others are on their way: a whole connection's buffer.
const SMALL_BODY_BYTES: u64 = 64 * 1024;
/// Larger bodies that are read at a time; others wait. Stops connections that each send one from filling the memory before
/// it is known what is in it.
const MAX_LARGE_BODIES: usize = 8;
/// How long a message may wait because too much is under way: a client that sends faster than we work is slowed down
/// rather than refused.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);
/// The memory of messages is counted in steps of so many bytes.
const STEP_BYTES: usize = 1024;

/// What is under way, over all connections and sessions.
#[derive(Clone)]
pub(super) struct UnderWay {
    /// The requests of sessions of the protocol. The SDK would let a second one of the same id take the first one's
    /// place, and leave it without an answer.
    taken: Arc<Mutex<HashSet<Key>>>,
    /// The memory that messages may hold, in steps.
    memory: Arc<Semaphore>,
    /// The places for large bodies.
    large: Arc<Semaphore>,
}

/// A session of the protocol, and the id of a request in it.
type Key = (String, RequestId);

impl Default for UnderWay {
    fn default() -> Self {
        Self {
            taken: Arc::default(),
            memory: Arc::new(Semaphore::new(MAX_UNDER_WAY_BYTES / STEP_BYTES)),
            large: Arc::new(Semaphore::new(MAX_LARGE_BODIES)),
        }
    }
}

impl UnderWay {
    fn taken(&self) -> MutexGuard<'_, HashSet<Key>> {
        // Nothing that can panic happens under the lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: Key) -> Option<Id> {
        self.taken().insert(key.clone()).then(|| Id {
            under_way: self.clone(),
            key,
        })
    }

    /// Waits a while for room for a message that takes `weight` bytes.
    async fn room(&self, weight: usize) -> Option<OwnedSemaphorePermit> {
        let steps = (weight + REQUEST_BYTES).div_ceil(STEP_BYTES);
        let room = Arc::clone(&self.memory).acquire_many_owned(u32::try_from(steps).ok()?);
        // It is never closed.
        tokio::time::timeout(BUSY_PATIENCE, room).await.ok()?.ok()
    }
}

/// An id that is taken, until this is dropped.
pub(super) struct Id {
    under_way: UnderWay,
    key: Key,
}

impl Drop for Id {
    fn drop(&mut self) {
        self.under_way.taken().remove(&self.key);
    }
}

/// What a message that was handed on holds.
struct Hold {
    _memory: Option<OwnedSemaphorePermit>,
    /// Where it is a request of a session.
    _id: Option<Id>,
}

/// What a message holds, once it was read. It goes with the request to its handler, and with the answer to the client:
/// whoever has it last lets go.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<OnceLock<Hold>>);

/// What becomes of a body, told to whoever answers.
#[derive(Clone, Default)]
pub(super) struct Vetting {
    refused: Arc<Mutex<Option<Response<Body>>>>,
    held: Held,
    /// Where its answer's place is kept.
    room: Room,
}

impl Vetting {
    /// `request` as the SDK reads it, in the session of the protocol that it names.
    pub(super) fn request(
        &self,
        mut request: Request<Incoming>,
        session: Option<String>,
        under_way: UnderWay,
    ) -> Request<impl hyper::body::Body<Data = Bytes, Error = &'static str> + Send + 'static> {
        // The SDK keeps a request's extensions for as long as its handler runs, whether anybody waits for it or not.
        let extensions = request.extensions_mut();
        extensions.insert(self.held.clone());
        extensions.insert(self.room.clone());
        let vetting = self.clone();
        request.map(|body| {
            StreamBody::new(stream::once(async move {
                match vet(body, session, &under_way).await {
                    Ok((bytes, hold)) => {
                        // Nothing is there yet: a body is read once.
                        let _ = vetting.held.0.set(hold);
                        Ok(Frame::data(bytes))
                    }
                    Err(refused) => {
                        *vetting.refused() = Some(refused);
                        Err("refused")
                    }
                }
            }))
        })
    }

    fn refused(&self) -> MutexGuard<'_, Option<Response<Body>>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer: the SDK's, or why it was not asked. What the message holds is held until the last of its answer was
    /// taken.
    pub(super) fn answer(self, answer: Response<Body>, unread: &Unread) -> Response<Body> {
        if let Some(refused) = self.refused().take() {
            return refused;
        }
        answer.map(|body| unread.bounded(body, self.held, self.room))
    }
}

/// The bytes of a body that holds one message, and what it holds.
async fn vet(
    body: Incoming,
    session: Option<String>,
    under_way: &UnderWay,
) -> Result<(Bytes, Hold), Response<Body>> {
    let reading = async {
        let is_small = body
            .size_hint()
            .upper()
            .is_some_and(|most| most <= SMALL_BODY_BYTES);
        let place = if is_small {
            None
        } else {
            // It is never closed.
            Arc::clone(&under_way.large).acquire_owned().await.ok()
        };
        (Limited::new(body, MAX_BODY_BYTES).collect().await, place)
    };
    let (bytes, _place) = match tokio::time::timeout(BODY_DEADLINE, reading).await {
        Ok((Ok(collected), place)) => (collected.to_bytes(), place),
        Ok((Err(error), _)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok((Err(_broken), _)) => {
            return Err(last(StatusCode::BAD_REQUEST, "the body was cut off\n"));
        }
        Err(_elapsed) => {
            return Err(last(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long\n",
            ));
        }
    };
    let bad = |fault: &Fault| told(StatusCode::BAD_REQUEST, fault);
    // What was read is gone again before anything waits.
    let (id, weight) = match Envelope::read(&bytes).map_err(|fault| bad(&fault))? {
        Envelope::Request { id, weight, .. } => (Some(id), Some(weight)),
        // One of the usual size may take back what is under way: it must always get in, and is gone at once.
        Envelope::Notification { weight, .. } if weight <= REQUEST_BYTES => (None, None),
        Envelope::Notification { weight, .. } => (None, Some(weight)),
        Envelope::Answer => (None, None),
    };
    let taken = match (&id, session) {
        (Some(id), Some(session)) => Some(
            under_way
                .take((session, id.clone()))
                .ok_or_else(|| bad(&Fault::duplicate()))?,
        ),
        (Some(_), None) | (None, _) => None,
    };
    let memory = match weight {
        Some(weight) => Some(under_way.room(weight).await.ok_or_else(|| {
            let fault = Fault::busy(id.as_ref());
            told(StatusCode::SERVICE_UNAVAILABLE, &fault)
        })?),
        None => None,
    };
    let hold = Hold {
        _memory: memory,
        _id: taken,
    };
    Ok((bytes, hold))
}

fn told(status: StatusCode, fault: &Fault) -> Response<Body> {
    let body: Full<Bytes> = fault.to_json().into();
    let mut response = Response::new(body.map_err(|error: Infallible| error).boxed());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn too_large() -> Response<Body> {
    last(
        StatusCode::PAYLOAD_TOO_LARGE,
        "a body may have 4 MiB: give large content in several calls\n",
    )
}

/// An answer behind which nothing more can be read.
fn last(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = refusal(status, text);
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
