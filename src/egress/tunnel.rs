//! TLS passed through unread, for rules that say `tunnel`.
//!
//! The server name was compared before. No name is asked for and nothing dialled but what was
//! recorded, the latter with its address.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};

use super::{
    dial::{self, DialError},
    prefixed::Prefixed,
    relay::Shared,
    reply,
};
use crate::types::Endpoint;

/// How much is carried at once each way, in bytes: what keeps up with a fast network.
const BUFFER: usize = 64 * 1024;

/// Carries bytes both ways until both sides have ended, one of them fails, or the budget is used up.
pub(super) async fn serve<T>(shared: &Arc<Shared>, endpoint: &Endpoint, mut io: Prefixed<T>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // The name itself goes out with the question for its address, whether or not there is one: that too is on record
    // first, and is held to the budget.
    if dial::is_looked_up(shared, endpoint) && shared.ledger.lookup(endpoint).is_err() {
        return reply::send(&mut io, &reply::ALERT_ACCESS_DENIED).await;
    }
    let record = |address| shared.ledger.tunnel(endpoint, address);
    match dial::connect_each(shared, endpoint, record).await {
        // However it ends, both sides see their connection end; who was at fault they know better.
        Ok(mut outside) => {
            let _ = copy_bidirectional_with_sizes(&mut io, &mut outside, BUFFER, BUFFER).await;
        }
        Err(DialError::Denied(_)) => reply::send(&mut io, &reply::ALERT_ACCESS_DENIED).await,
        Err(DialError::Failed(failure)) => {
            shared.ledger.failed(endpoint, failure.reason());
            reply::send(&mut io, &reply::ALERT_INTERNAL_ERROR).await;
        }
    }
}
