//! The body of a request, read within bounds before the SDK reads it.
//!
//! The SDK polls a body only once `Host` and `Origin` are this machine's, so that reading it here, when it is polled,
//! keeps that order. What it must never do is to hand on a body that was refused.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
};
use rmcp::model::RequestId;

use super::{
    super::message::{Envelope, Fault},
    Body, refusal,
};
use crate::types::MIB;

/// The largest body of a request. Text and files beyond it go up in several calls.
#[expect(clippy::cast_possible_truncation, reason = "four mebibytes")]
pub(super) const MAX_BODY_BYTES: usize = 4 * MIB as usize;
/// How long a body may take. Stops connections that send theirs byte by byte from keeping their places.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The requests of sessions of the protocol that are under way. The SDK would let a second one of the same id take the
/// first one's place, and leave it without an answer.
#[derive(Clone, Default)]
pub(super) struct Taken(Arc<Mutex<HashSet<Key>>>);

/// A session of the protocol, and the id of a request in it.
type Key = (String, RequestId);

/// An id that is taken, until this is dropped.
pub(super) struct Hold {
    taken: Taken,
    key: Key,
}

impl Taken {
    fn set(&self) -> MutexGuard<'_, HashSet<Key>> {
        // Nothing that can panic happens under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: Key) -> Option<Hold> {
        self.set().insert(key.clone()).then(|| Hold {
            taken: self.clone(),
            key,
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.taken.set().remove(&self.key);
    }
}

/// What became of a body.
#[derive(Default)]
enum Verdict {
    /// Nobody has asked for it yet.
    #[default]
    Unread,
    /// It was handed on, and its id is taken where it has a session.
    Read(Option<Hold>),
    /// It was not, and this is why.
    Refused(Response<Body>),
}

/// What becomes of a body, told to whoever answers.
#[derive(Clone, Default)]
pub(super) struct Vetting(Arc<Mutex<Verdict>>);

impl Vetting {
    /// `body` as the SDK reads it, in the session of the protocol that it names.
    pub(super) fn body(
        &self,
        body: Incoming,
        session: Option<String>,
        taken: Taken,
    ) -> impl hyper::body::Body<Data = Bytes, Error = &'static str> + Send + 'static {
        let vetting = self.clone();
        StreamBody::new(stream::once(async move {
            let (result, verdict) = match vet(body, session, taken).await {
                Ok((bytes, hold)) => (Ok(Frame::data(bytes)), Verdict::Read(hold)),
                Err(refused) => (Err("refused"), Verdict::Refused(refused)),
            };
            vetting.set(verdict);
            result
        }))
    }

    fn set(&self, verdict: Verdict) -> Verdict {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, verdict)
    }

    /// The answer: the SDK's, or why it was not asked. A request's id stays taken until its answer is gone.
    pub(super) fn answer(&self, answer: Response<Body>) -> Response<Body> {
        match self.set(Verdict::Unread) {
            Verdict::Refused(refused) => refused,
            Verdict::Unread | Verdict::Read(None) => answer,
            Verdict::Read(Some(hold)) => answer.map(|body| {
                body.map_frame(move |frame| {
                    let _until_then = &hold;
                    frame
                })
                .boxed()
            }),
        }
    }
}

/// The bytes of a body that holds one message, and its id's hold.
async fn vet(
    body: Incoming,
    session: Option<String>,
    taken: Taken,
) -> Result<(Bytes, Option<Hold>), Response<Body>> {
    let reading = Limited::new(body, MAX_BODY_BYTES).collect();
    let bytes = match tokio::time::timeout(BODY_DEADLINE, reading).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok(Err(_broken)) => {
            return Err(last(StatusCode::BAD_REQUEST, "the body was cut off\n"));
        }
        Err(_elapsed) => {
            return Err(last(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long\n",
            ));
        }
    };
    let envelope = Envelope::read(&bytes).map_err(|fault| told(&fault))?;
    let hold = match (envelope, session) {
        (Envelope::Request { id, .. }, Some(session)) => Some(
            taken
                .take((session, id))
                .ok_or_else(|| told(&Fault::duplicate()))?,
        ),
        (Envelope::Request { .. }, None)
        | (Envelope::Notification { .. } | Envelope::Answer, _) => None,
    };
    Ok((bytes, hold))
}

fn told(fault: &Fault) -> Response<Body> {
    let body: Full<Bytes> = fault.to_json().into();
    let mut response = Response::new(body.map_err(|error: Infallible| error).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
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
