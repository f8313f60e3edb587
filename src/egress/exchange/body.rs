//! The body of an answer on its way inside.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::egress::{
    ledger::Turn,
    vault::{BodyRedactor, Unreadable},
};

/// The body of an answer. Holds one piece at a time: the next is asked for when the program has taken this one.
#[derive(Debug)]
pub(in crate::egress) enum AnswerBody {
    /// Words of ours.
    Own(Full<Bytes>),
    /// As it comes, but for trailers where those are not to pass.
    Passed {
        body: Incoming,
        trailers: bool,
        #[expect(dead_code, reason = "held for its drop")]
        turn: Turn,
    },
    /// Without the run's secrets and without trailers.
    Redacted {
        body: Incoming,
        /// None once the body has ended.
        redactor: Option<Box<BodyRedactor>>,
        /// What came and was not searched yet.
        rest: Bytes,
        #[expect(dead_code, reason = "held for its drop")]
        turn: Turn,
    },
}

/// Why an answer ends before its end. The program sees a connection or a stream that broke.
#[derive(Debug, thiserror::Error)]
pub(in crate::egress) enum Broken {
    /// The server broke it off, or the budget is used up.
    #[error(transparent)]
    Upstream(#[from] hyper::Error),
    /// It cannot be searched for secrets.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Own(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            Self::Passed { body, trailers, .. } => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(match frame {
                    Some(Ok(frame)) if frame.is_data() || *trailers => Some(Ok(frame)),
                    // Trailers are the last.
                    Some(Ok(_)) | None => None,
                    Some(Err(error)) => Some(Err(error.into())),
                })
            }
            Self::Redacted {
                body,
                redactor,
                rest,
                ..
            } => poll_redacted(body, redactor, rest, cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Passed { body, .. } => body.is_end_stream(),
            Self::Redacted { redactor, .. } => redactor.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Passed { body, .. } => body.size_hint(),
            Self::Redacted { .. } => SizeHint::default(),
        }
    }
}

fn poll_redacted(
    body: &mut Incoming,
    redactor: &mut Option<Box<BodyRedactor>>,
    rest: &mut Bytes,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
    while let Some(finder) = redactor {
        let searched = if rest.is_empty() {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    *rest = frame.into_data().unwrap_or_default();
                    continue;
                }
                Some(Err(error)) => Err(error.into()),
                None => match redactor.take() {
                    Some(finder) => finder.finish().map_err(Broken::from),
                    None => Ok(Bytes::new()),
                },
            }
        } else {
            let piece = rest.split_to(rest.len().min(BodyRedactor::MAX_PIECE));
            finder.push(&piece).map_err(Broken::from)
        };
        match searched {
            Ok(piece) if piece.is_empty() => {}
            Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
            Err(broken) => {
                *redactor = None;
                return Poll::Ready(Some(Err(broken)));
            }
        }
    }
    Poll::Ready(None)
}
