//! A connection to the outside, of which every byte is charged to the run's budget.
//!
//! What comes beyond the budget is never passed on, and nothing goes out beyond it but what other connections send at
//! the same moment.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::{
    ledger::{Ledger, Socket},
    watched::{Watch, Watched},
};
use crate::{policy::EgressDenial, types::Endpoint};

/// Charges what passes, and fails once the budget is used up: [`denial_of`] tells that from other errors.
pub(super) type Metered<T> = Watched<T, Meter>;

/// Whose budget is charged.
#[derive(Debug)]
pub(super) struct Meter {
    ledger: Arc<Ledger>,
    endpoint: Endpoint,
    _socket: Option<Socket>,
}

impl<T> Metered<T> {
    pub(super) fn new(io: T, ledger: Arc<Ledger>, endpoint: Endpoint) -> Self {
        let watch = Meter {
            ledger,
            endpoint,
            _socket: None,
        };
        Self { io, watch }
    }

    /// The same, which holds its place among the run's connections.
    pub(super) fn holding(self, socket: Socket) -> Self {
        let watch = Meter {
            _socket: Some(socket),
            ..self.watch
        };
        Self { watch, ..self }
    }
}

/// The denial behind an error of a metered connection, if it is one.
pub(super) fn denial_of(error: &io::Error) -> Option<EgressDenial> {
    error.get_ref()?.downcast_ref::<EgressDenial>().copied()
}

impl Watch for Meter {
    fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(io).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        if let Err(denial) = self.ledger.received(&self.endpoint, read) {
            buf.set_filled(before);
            return Poll::Ready(Err(io::Error::other(denial)));
        }
        Poll::Ready(Ok(()))
    }

    fn room(&mut self, wanted: usize) -> io::Result<usize> {
        if wanted == 0 {
            return Ok(0);
        }
        let room = self
            .ledger
            .room_to_send(&self.endpoint)
            .map_err(io::Error::other)?;
        Ok(usize::try_from(room).map_or(wanted, |room| room.min(wanted)))
    }

    fn wrote(&mut self, bytes: usize) {
        self.ledger.sent(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        egress::{fixtures::Notes, ledger::Witness},
        policy::egress::fixtures::{endpoint, profile},
    };

    fn metered(sent: u64, received: u64) -> (Metered<DuplexStream>, DuplexStream) {
        let mut profile = profile(vec![]);
        profile.budget.sent_bytes = sent;
        profile.budget.received_bytes = received;
        let witness: Arc<dyn Witness> = Arc::new(Notes::default());
        let ledger = Ledger::new(Arc::new(profile), witness, CancellationToken::new());
        let (near, far) = tokio::io::duplex(1 << 16);
        (
            Metered::new(near, Arc::new(ledger), endpoint("x.org:443")),
            far,
        )
    }

    #[tokio::test]
    async fn what_is_sent_ends_exactly_where_the_budget_does() {
        let (mut near, mut far) = metered(10, 100);
        let error = near.write_all(&[7; 30]).await.unwrap_err();
        assert_eq!(denial_of(&error), Some(EgressDenial::TooMuchSent));
        drop(near);
        let mut got = [0; 30];
        let mut length = 0;
        loop {
            match far.read(&mut got[length..]).await.unwrap() {
                0 => break,
                n => length += n,
            }
        }
        assert_eq!(length, 10);
    }

    #[tokio::test]
    async fn what_is_sent_in_slices_ends_exactly_where_the_budget_does() {
        let (mut near, mut far) = metered(10, 100);
        let slices = [
            IoSlice::new(b""),
            IoSlice::new(b"123456"),
            IoSlice::new(b"7890ab"),
        ];
        let first = near.write_vectored(&slices).await.unwrap();
        let second = near.write_vectored(&slices[2..]).await.unwrap();
        assert_eq!((first, second), (6, 4));
        assert!(near.write_vectored(&slices).await.is_err());
        let mut got = [0; 10];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"1234567890");
    }

    #[tokio::test]
    async fn what_comes_beyond_the_budget_is_not_passed_on() {
        let (mut near, mut far) = metered(100, 10);
        far.write_all(&[7; 10]).await.unwrap();
        let mut got = [0; 10];
        near.read_exact(&mut got).await.unwrap();
        far.write_all(&[7; 1]).await.unwrap();
        let error = near.read(&mut got).await.unwrap_err();
        assert_eq!(denial_of(&error), Some(EgressDenial::TooMuchReceived));
    }
}
