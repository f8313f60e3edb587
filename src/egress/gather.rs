//! Reads from inside until a parser has what it needs, and not for longer than that may take.

use std::time::Duration;

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

/// How long a program may take to send one message of those that open a connection. Stops it from holding places with
/// messages that never end.
const ARRIVE: Duration = Duration::from_secs(10);
/// How much is read at once, in bytes.
const READ: usize = 4 * 1024;

/// Why there is no message.
#[derive(Debug)]
pub(super) enum Ended<E> {
    /// The other side is gone, or too slow: nobody is there to be told.
    Gone,
    /// What came is not allowed.
    Refused(E),
}

/// Reads into `read` until `parse` finds a message in it. What is behind the message stays there; `parse` bounds how
/// much is read by refusing what is too long.
///
/// # Errors
/// [`Ended`].
pub(super) async fn gather<T, R, E>(
    io: &mut T,
    read: &mut BytesMut,
    mut parse: impl FnMut(&[u8]) -> Result<Option<R>, E>,
) -> Result<R, Ended<E>>
where
    T: AsyncRead + Unpin,
{
    let arriving = async {
        loop {
            if let Some(message) = parse(read).map_err(Ended::Refused)? {
                return Ok(message);
            }
            read.reserve(READ);
            match io.read_buf(read).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(Ended::Gone),
            }
        }
    };
    timeout(ARRIVE, arriving).await.unwrap_or(Err(Ended::Gone))
}
