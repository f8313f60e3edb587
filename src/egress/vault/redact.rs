//! Takes the secrets of a run out of what comes back: of heads, of trailers, and of bodies as they stream.
//!
//! An answer is redacted whichever host it comes from. What cannot be searched is never passed off as searched: the
//! operator says what becomes of it. Nothing here holds a whole body, and what is held back between two pieces is
//! shorter than the longest form of a credential. A format that packs what it holds, such as an archive or an image, is
//! searched as the bytes that it is.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use hyper::{
    HeaderMap, StatusCode,
    header::{
        ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, HeaderName, HeaderValue,
    },
    http::response::Parts,
};

use super::{
    decode::{Coding, Decoder},
    search::Searcher,
};
use crate::{config::Uninspectable, types::Secret};

/// The most credentials of one run, those that ran out included. Stops a command that prints something new at every
/// moment from filling the memory; the oldest is never forgotten, since it may still be good.
const MAX_CREDENTIALS: usize = 64;
/// Headers that say something of the body's very bytes, and are no longer true of what goes inside.
const OF_THE_BYTES: [HeaderName; 7] = [
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
];

/// There are more credentials, or longer ones, than can be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are more secrets in this run than can be searched for")]
pub(crate) struct TooMany;

/// Every credential that this run ever had.
#[derive(Debug)]
pub(crate) struct Known(RwLock<Inner>);

struct Inner {
    credentials: Vec<Secret>,
    searcher: Arc<Searcher>,
}

impl Known {
    /// Knows these.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(crate) fn new(credentials: Vec<Secret>) -> Result<Self, TooMany> {
        if credentials.len() > MAX_CREDENTIALS {
            return Err(TooMany);
        }
        let searcher = Arc::new(Searcher::new(&credentials).map_err(|_| TooMany)?);
        Ok(Self(RwLock::new(Inner {
            credentials,
            searcher,
        })))
    }

    /// Knows these too, from now on and in bodies that are on their way.
    ///
    /// # Errors
    /// [`TooMany`]: then they must not be used.
    pub(super) fn add(&self, credentials: Vec<Secret>) -> Result<(), TooMany> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = inner.credentials.clone();
        for credential in credentials {
            if !all.contains(&credential) {
                all.push(credential);
            }
        }
        if all.len() == inner.credentials.len() {
            return Ok(());
        }
        if all.len() > MAX_CREDENTIALS {
            return Err(TooMany);
        }
        inner.searcher = Arc::new(Searcher::new(&all).map_err(|_| TooMany)?);
        inner.credentials = all;
        Ok(())
    }

    fn searcher(&self) -> Arc<Searcher> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&inner.searcher)
    }
}

/// Shows nothing.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inner(…)")
    }
}

/// Finds the secrets of one run in answers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Redactor(Arc<Known>);

/// What is done with the body of one answer.
#[derive(Debug)]
pub(crate) enum Plan {
    /// There is none, and what comes in its place over HTTP/2 all the same must not pass.
    Empty,
    /// It passes as it is: the operator lets pass what cannot be searched.
    Pass,
    /// It goes through this. The head was changed to fit: no length, no coding, no digest.
    Redact(Box<BodyRedactor>),
    /// It cannot be searched and must not reach the program.
    Block,
}

/// A body that cannot be decoded, or grows too much when it is: the answer must end here, as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of the answer is not what its coding says, or grows too much when it is decoded")]
pub(crate) struct Unreadable;

impl Redactor {
    pub(crate) fn new(known: Arc<Known>) -> Self {
        Self(known)
    }

    /// Takes secrets out of headers or trailers.
    pub(crate) fn headers(&self, headers: &mut HeaderMap) {
        let searcher = self.0.searcher();
        let telling: Vec<HeaderName> = headers
            .keys()
            .filter(|name| searcher.finds(name.as_str().as_bytes()))
            .cloned()
            .collect();
        for name in telling {
            headers.remove(name);
        }
        for value in headers.values_mut() {
            if let Some(cleaned) = searcher.cleaned(value.as_bytes()) {
                // What was a header value is one with a note in it.
                *value = HeaderValue::from_bytes(&cleaned)
                    .unwrap_or(HeaderValue::from_static(super::search::NOTE));
            }
        }
    }

    /// Takes secrets out of an answer's head, and says what is to be done with its body. `to_head` says that the
    /// request was a HEAD, whose answer has no body whatever its head says.
    pub(crate) fn plan(
        &self,
        head: &mut Parts,
        to_head: bool,
        uninspectable: Uninspectable,
    ) -> Plan {
        let coding = inspectable(head);
        self.headers(&mut head.headers);
        // The reason phrase of HTTP/1, which is free text: nobody needs it.
        head.extensions.clear();
        if to_head
            || matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            )
        {
            return Plan::Empty;
        }
        let Some(coding) = coding else {
            return match uninspectable {
                Uninspectable::Block => Plan::Block,
                Uninspectable::Pass => Plan::Pass,
            };
        };
        for name in OF_THE_BYTES {
            head.headers.remove(name);
        }
        Plan::Redact(Box::new(BodyRedactor {
            known: Arc::clone(&self.0),
            decoder: Some(Decoder::new(coding)),
            held: Vec::new(),
        }))
    }
}

/// How the body is coded, where all of it comes in a way that can be searched.
fn inspectable(head: &Parts) -> Option<Coding> {
    // A part of a body may begin or end within a secret.
    let in_parts = head.status == StatusCode::PARTIAL_CONTENT
        || head.headers.contains_key(CONTENT_RANGE)
        || head.headers.get_all(CONTENT_TYPE).iter().any(|value| {
            let value = value.as_bytes().trim_ascii_start();
            let parts = b"multipart/byteranges";
            value.len() >= parts.len() && value[..parts.len()].eq_ignore_ascii_case(parts)
        });
    if in_parts || head.status.is_informational() {
        return None;
    }
    Coding::of(&head.headers)
}

/// Leaves of the codings that a program takes those that can be undone here; with none left it asks for none.
pub(super) fn narrow_codings(headers: &mut HeaderMap) {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return;
    }
    let known = |item: &str| {
        let name = item.split(';').next().unwrap_or_default().trim();
        ["gzip", "x-gzip", "deflate", "identity"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    let kept: Vec<&str> = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|item| known(item))
        .collect();
    let value = HeaderValue::from_str(&kept.join(", "))
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or(HeaderValue::from_static("identity"));
    headers.insert(ACCEPT_ENCODING, value);
}

/// Takes secrets out of one body that comes in pieces, and undoes its coding.
pub(crate) struct BodyRedactor {
    known: Arc<Known>,
    /// None after an error.
    decoder: Option<Decoder>,
    /// What may be the beginning of a secret.
    held: Vec<u8>,
}

impl BodyRedactor {
    /// The longest piece that should be pushed at a time, in bytes: whoever has a longer one cuts it. What one push
    /// returns can be as many times longer as the coding allows, and lies in memory at once.
    pub(crate) const MAX_PIECE: usize = 16 * 1024;

    /// The next piece as it came; returns what may go inside by now, perhaps nothing.
    ///
    /// # Errors
    /// [`Unreadable`]: nothing more may be sent inside.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Bytes, Unreadable> {
        let mut decoder = self.decoder.take().ok_or(Unreadable)?;
        decoder.push(piece, &mut self.held)?;
        self.decoder = Some(decoder);
        Ok(self.clean(false))
    }

    /// The end came; returns the rest. Trailers go through [`Redactor::headers`].
    ///
    /// # Errors
    /// [`Unreadable`] where the end came too early: the answer must not look complete.
    pub(crate) fn finish(mut self) -> Result<Bytes, Unreadable> {
        let decoder = self.decoder.take().ok_or(Unreadable)?;
        decoder.finish(&mut self.held)?;
        Ok(self.clean(true))
    }

    fn clean(&mut self, end: bool) -> Bytes {
        self.known.searcher().clean(&mut self.held, end).into()
    }
}

/// Shows nothing of the body.
impl fmt::Debug for BodyRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyRedactor(…)")
    }
}
