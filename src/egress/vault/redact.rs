//! Takes secrets out of what comes back.

use bytes::Bytes;
use hyper::{HeaderMap, http::response::Parts};

use crate::config::Uninspectable;

/// Finds the secrets of one run in answers. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::egress) struct Redactor {}

/// What is done with the body of one answer.
#[derive(Debug)]
pub(in crate::egress) enum Plan {
    /// It passes as it is: there is none, or the operator lets pass what cannot be searched.
    Pass,
    /// It goes through this. The head was changed to fit: no length, no coding, no digest.
    Redact(Box<BodyRedactor>),
    /// It cannot be searched and must not reach the program.
    Block,
}

/// A body that cannot be decoded, or grows too much when it is: the answer must end here, as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of the answer is not what its coding says, or grows too much when it is decoded")]
pub(in crate::egress) struct Unreadable;

impl Redactor {
    /// Takes secrets out of headers or trailers.
    pub(in crate::egress) fn headers(&self, headers: &mut HeaderMap) {
        let _ = headers;
    }

    /// Takes secrets out of an answer's head, and says what is to be done with its body. `to_head` says that the
    /// request was a HEAD, whose answer has no body whatever its head says.
    pub(in crate::egress) fn plan(
        &self,
        head: &mut Parts,
        to_head: bool,
        uninspectable: Uninspectable,
    ) -> Plan {
        self.headers(&mut head.headers);
        let _ = (to_head, uninspectable);
        Plan::Block
    }
}

/// Takes secrets out of one body that comes in pieces.
#[derive(Debug)]
pub(in crate::egress) struct BodyRedactor {}

impl BodyRedactor {
    /// The next piece as it came; returns what may go inside by now, perhaps nothing.
    ///
    /// # Errors
    /// [`Unreadable`]: nothing more may be sent inside.
    pub(in crate::egress) fn push(&mut self, piece: &[u8]) -> Result<Bytes, Unreadable> {
        let _ = piece;
        Err(Unreadable)
    }

    /// The end came; returns the rest. Trailers go through [`Redactor::headers`].
    ///
    /// # Errors
    /// [`Unreadable`] where the end came too early: the answer must not look complete.
    pub(in crate::egress) fn finish(self) -> Result<Bytes, Unreadable> {
        Err(Unreadable)
    }
}
