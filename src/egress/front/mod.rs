//! A connection from inside, from its first byte until it is known what it wants.
//!
//! It is SOCKS 5 or HTTP; nothing else exists. Where it wants to go is parsed once, decided, and only then agreed to;
//! of TLS the server name is compared before anybody else sees a byte of it.

mod proxy;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use self::proxy::{Asked, asked};
use super::{
    client_hello,
    gather::{Ended, gather},
    head, http,
    http::PlainTarget,
    intercept,
    ledger::Refused,
    prefixed::Prefixed,
    relay::Shared,
    reply::{self, Reply},
    socks, tunnel,
};
use crate::{
    policy::{EgressDenial, Route},
    types::Endpoint,
};

/// The first byte of SOCKS 4, and its "rejected".
const SOCKS_4: u8 = 4;
const SOCKS_4_REJECTED: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// The first byte of TLS.
const TLS: u8 = 22;

/// The way in which a connection was asked for, and is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Connect,
    Socks,
}

/// Serves one connection to its end, which comes at the latest when the run stops or the budget's duration is over.
pub(super) async fn serve<T>(shared: Arc<Shared>, mut io: T)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Where it goes, once that is known: for the record of a connection that lasts too long.
    let whither = OnceLock::new();
    let conversation = async {
        match shared.ledger.place() {
            Ok(_place) => {
                let duration = shared.profile.budget.duration;
                let served = timeout(duration, converse(&shared, &whither, io)).await;
                if served.is_err() {
                    let what = whither
                        .get()
                        .map_or(Refused::Unparsed(b""), Refused::Endpoint);
                    shared.ledger.denied(what, EgressDenial::TooLong);
                }
            }
            Err(denial) => reply::send(&mut io, &Reply::denied(denial, None).raw()).await,
        }
    };
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => {}
        () = conversation => {}
    }
}

async fn converse<T>(shared: &Arc<Shared>, whither: &OnceLock<Endpoint>, mut io: T)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut read = BytesMut::new();
    let Ok(first) = first_byte(&mut io, &mut read).await else {
        return;
    };
    let (endpoint, dialect) = match first {
        socks::VERSION => match socks::negotiate(&mut io, &mut read).await {
            Ok(endpoint) => (endpoint, Dialect::Socks),
            Err(Ended::Gone) => return,
            Err(Ended::Refused(refusal)) => {
                let asked = Refused::Unparsed(&refusal.asked);
                shared.ledger.denied(asked, refusal.denial);
                return reply::send(&mut io, &refusal.reply).await;
            }
        },
        SOCKS_4 => {
            let asked = Refused::Unparsed(b"");
            shared.ledger.denied(asked, EgressDenial::Protocol);
            return reply::send(&mut io, &SOCKS_4_REJECTED).await;
        }
        _ => match by_http(&mut io, &mut read).await {
            Ok(Asked {
                connect: Some(endpoint),
            }) => (endpoint, Dialect::Connect),
            Ok(Asked { connect: None }) => {
                let io = Prefixed::new(read.freeze(), io);
                return http::serve_plain(shared, PlainTarget::Proxy, io).await;
            }
            Err(Ended::Gone) => return,
            Err(Ended::Refused(denial)) => {
                let asked = Refused::Head(None, head::first_line(&read));
                let denial = shared.ledger.denied(asked, denial);
                return reply::send(&mut io, &Reply::denied(denial, None).raw()).await;
            }
        },
    };
    let _ = whither.set(endpoint.clone());
    let route = match shared.ledger.connection(&endpoint) {
        Ok(route) => route,
        Err(denial) => {
            return reply::send(&mut io, &dialect.refused(denial, &endpoint)).await;
        }
    };
    if dialect.agree(&mut io).await.is_ok() {
        onward(shared, &endpoint, route, read, io).await;
    }
}

/// The first head of a connection to an HTTP proxy. That of a `CONNECT` is taken out of `read`, any other stays there.
async fn by_http<T>(io: &mut T, read: &mut BytesMut) -> Result<Asked, Ended<EgressDenial>>
where
    T: AsyncRead + Unpin,
{
    if read.first().is_some_and(|b| !b.is_ascii_alphabetic()) {
        return Err(Ended::Refused(EgressDenial::Protocol));
    }
    let mut searched = 0;
    let end = gather(io, read, |bytes| {
        let end = head::end(bytes, searched);
        searched = bytes.len();
        end
    })
    .await?;
    let asked = asked(&read[..end]).map_err(Ended::Refused)?;
    if asked.connect.is_some() {
        drop(read.split_to(end));
    }
    Ok(asked)
}

/// A connection that was agreed to. `read` is what came of it already.
async fn onward<T>(
    shared: &Arc<Shared>,
    endpoint: &Endpoint,
    route: Route,
    mut read: BytesMut,
    mut io: T,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let looked = match route {
        Route::Plain => match first_byte(&mut io, &mut read).await {
            Ok(TLS) => Err(Ended::Refused(EgressDenial::SchemeNotAllowed)),
            looked => looked.map(drop),
        },
        Route::Tunnel | Route::Intercept => gather(&mut io, &mut read, client_hello::inspect)
            .await
            .and_then(|seen| seen.names(&endpoint.host).map_err(Ended::Refused)),
    };
    match looked {
        Ok(()) => {}
        Err(Ended::Gone) => return,
        Err(Ended::Refused(denial)) => {
            let denial = shared.ledger.denied(Refused::Endpoint(endpoint), denial);
            let speaks_tls = read.first() == Some(&TLS);
            let words = if speaks_tls {
                reply::ALERT_ACCESS_DENIED.to_vec()
            } else {
                Reply::denied(denial, Some(endpoint)).raw()
            };
            return reply::send(&mut io, &words).await;
        }
    }
    let io = Prefixed::new(read.freeze(), io);
    match route {
        Route::Plain => {
            http::serve_plain(shared, PlainTarget::Fixed(endpoint.clone()), io).await;
        }
        Route::Intercept => intercept::serve(shared, endpoint, io).await,
        Route::Tunnel => tunnel::serve(shared, endpoint, io).await,
    }
}

async fn first_byte<T>(io: &mut T, read: &mut BytesMut) -> Result<u8, Ended<EgressDenial>>
where
    T: AsyncRead + Unpin,
{
    gather(io, read, |bytes| Ok(bytes.first().copied())).await
}

impl Dialect {
    /// Says that the connection is there. That it is, is only known later; what goes wrong then is said in TLS or HTTP.
    async fn agree<T: AsyncWrite + Unpin>(self, io: &mut T) -> std::io::Result<()> {
        let words: &[u8] = match self {
            Self::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Self::Socks => &socks::reply(socks::Code::Succeeded),
        };
        io.write_all(words).await?;
        io.flush().await
    }

    fn refused(self, denial: EgressDenial, endpoint: &Endpoint) -> Vec<u8> {
        match self {
            Self::Connect => Reply::denied(denial, Some(endpoint)).raw(),
            Self::Socks => socks::reply(socks::Code::NotAllowed).to_vec(),
        }
    }
}
