//! One request and its answer, whatever way it came: where it goes, whether it may, what of it crosses.
//!
//! A request is written anew from what was decided; nothing of it is sent that was not looked at, and nothing of an
//! answer goes inside that still holds one of the run's secrets. Bodies are never held whole.

mod body;
mod destination;
pub(crate) mod headers;

use std::sync::Arc;

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, Uri, Version,
    body::{Bytes, Incoming},
    header::{CONNECTION, HeaderValue},
    http::uri::PathAndQuery,
};

pub(super) use body::AnswerBody;
pub(super) use destination::Way;
use destination::{Astray, Destination};

use super::{
    dial::{DialError, UpstreamFailure},
    ledger::{Refused, RequestLine},
    relay::Shared,
    reply::Reply,
    upstream::{self, RequestBody},
    vault::Plan,
};
use crate::{
    policy::{self, EgressDenial},
    types::Endpoint,
};

/// Answers one request: with the server's answer, or with the reason why there is none.
pub(super) async fn answer(
    relay: &Arc<Shared>,
    way: &Way,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let destination = match way.destination(&request) {
        Ok(destination) => destination,
        Err(astray) => return refuse(relay, &request, &astray),
    };
    let endpoint = &destination.endpoint;
    match forward(relay, &destination, request).await {
        Ok(answer) => answer,
        Err(DialError::Denied(denial)) => {
            if denial == EgressDenial::AddressDenied {
                relay.ledger.take_back(endpoint);
            }
            own(&Reply::denied(denial, Some(endpoint)))
        }
        Err(DialError::Failed(failure)) => {
            relay.ledger.failed(endpoint, failure.reason());
            own(&Reply::failed(failure, Some(endpoint)))
        }
    }
}

/// Records a request that goes nowhere, and says so.
fn refuse(relay: &Shared, request: &Request<Incoming>, astray: &Astray) -> Response<AnswerBody> {
    let target = policy::egress::canonical_target(target(request.uri()));
    let what = match &astray.target {
        Ok(Destination { scheme, endpoint }) => Refused::Request(RequestLine {
            scheme: *scheme,
            endpoint,
            method: request.method().as_str(),
            target: &target,
        }),
        Err(came) => Refused::Unparsed(came),
    };
    let denial = relay.ledger.denied(what, astray.denial);
    let endpoint = astray.target.as_ref().ok().map(|known| &known.endpoint);
    let mut answer = own(&Reply::denied(denial, endpoint));
    // Whoever contradicts itself is not listened to any further.
    if request.version() < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
    answer
}

async fn forward(
    relay: &Arc<Shared>,
    destination: &Destination,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, DialError> {
    let Destination { scheme, endpoint } = destination;
    let (mut head, body) = request.into_parts();
    let target = policy::egress::canonical_target(target(&head.uri));
    let line = RequestLine {
        scheme: *scheme,
        endpoint,
        method: head.method.as_str(),
        target: &target,
    };
    let denied = |denial| DialError::Denied(relay.ledger.denied(Refused::Request(line), denial));
    let redactor = relay.vault.redactor();

    relay.ledger.look_at(&line).map_err(DialError::Denied)?;
    let turn = relay
        .ledger
        .places
        .turn()
        .await
        .map_err(DialError::Denied)?;

    // First what the program may not send, so that it cannot name an injected header as one of the connection's.
    headers::for_upstream(&mut head.headers, &body, redactor.is_some());
    if policy::egress::is_restricted(&relay.profile, *scheme, endpoint) {
        headers::drop_overrides(&mut head.headers);
    }
    let secrets = relay
        .vault
        .prepare(endpoint, *scheme, &mut head.headers)
        .await
        .map_err(|error| {
            tracing::warn!(%error, "a request was not sent");
            DialError::Failed(UpstreamFailure::SecretUnavailable)
        })?;
    let uri = upstream::uri(*scheme, endpoint, &target)
        .ok_or_else(|| denied(EgressDenial::MalformedHead))?;
    relay
        .ledger
        .request(&line, secrets)
        .map_err(DialError::Denied)?;

    let body = RequestBody::new(body);
    let malformed = body.malformed();
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = head.headers;
    let sent = relay.upstream().send(request).await;
    let (mut answer, body) = sent
        .map_err(|error| {
            if malformed.is_seen() {
                return denied(EgressDenial::AmbiguousLength);
            }
            overdrawn(relay, endpoint).unwrap_or(error)
        })?
        .into_parts();
    if answer.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(DialError::Failed(UpstreamFailure::Protocol));
    }

    headers::for_program(&mut answer.headers);
    let body = match &redactor {
        None => AnswerBody::Passed {
            body,
            trailers: true,
            turn,
        },
        Some(redactor) => {
            let to_head = head.method == hyper::Method::HEAD;
            match redactor.plan(&mut answer, to_head, relay.profile.uninspectable) {
                Plan::Empty => AnswerBody::Own(Full::default()),
                Plan::Pass => AnswerBody::Passed {
                    body,
                    trailers: false,
                    turn,
                },
                Plan::Redact(finder) => AnswerBody::Redacted {
                    body,
                    redactor: Some(finder),
                    rest: Bytes::new(),
                    turn,
                },
                Plan::Block => return Err(denied(EgressDenial::Uninspectable)),
            }
        }
    };
    // A response of its own: the server's reason phrase, which nobody searched, and its version stay behind.
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    headers::settle_length(&mut response, &head.method);
    Ok(response)
}

/// The denial where a budget is used up: HTTP/2 tells no more of what broke its connection than that it broke.
fn overdrawn(relay: &Shared, endpoint: &Endpoint) -> Option<DialError> {
    let received = relay.ledger.received(endpoint, 0);
    let sent = relay.ledger.room_to_send(endpoint);
    received.and(sent).err().map(DialError::Denied)
}

/// The path and query, as they came.
fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", PathAndQuery::as_str)
}

fn own(reply: &Reply) -> Response<AnswerBody> {
    reply.response().map(AnswerBody::Own)
}
