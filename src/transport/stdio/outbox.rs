//! What waits to be written to the client.
//!
//! Answers are never thrown away while the client may still read them, so what bounds them is that nothing more is
//! read of a client that lets them lie. A client that lets more lie than the bound, and takes nothing for long, is
//! given up. Nothing here may wait for the client but the task that writes.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, OwnedSemaphorePermit, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// The bytes of answers that may lie unread before nothing more is read of the client. Stops a client that asks and
/// never reads from filling the memory: what is beyond it are answers of requests that were under way already.
pub const MAX_UNREAD_BYTES: usize = 16 * 1024 * 1024;
/// How long a client may take nothing while more than that lies unread, before it is given up. Stops a client that is
/// stuck in its writing, because we no longer read, from holding its sandboxes for ever.
pub const STALL: Duration = Duration::from_mins(2);
/// What a message that waits takes beside its bytes.
const OVERHEAD_BYTES: usize = 128;

/// What waits, and who writes it.
pub(super) struct Outbox {
    slot: Slot,
    writer: Option<JoinHandle<()>>,
}

/// A handle to put messages in.
#[derive(Clone)]
pub(super) struct Slot {
    /// None ends the writing, whoever else may still hold a slot.
    queue: mpsc::UnboundedSender<Option<Item>>,
    unread: Arc<Unread>,
}

/// One message with the end of its line.
struct Item {
    line: Vec<u8>,
    /// What may not begin before the client has this answer.
    _held: Option<OwnedSemaphorePermit>,
}

impl Item {
    fn charge(&self) -> usize {
        self.line.capacity() + OVERHEAD_BYTES
    }
}

/// How much waits.
#[derive(Default)]
struct Unread {
    bytes: AtomicUsize,
    less: Notify,
}

impl Unread {
    fn is_much(&self) -> bool {
        self.bytes.load(Ordering::Acquire) >= MAX_UNREAD_BYTES
    }
}

impl Slot {
    /// Puts a message in.
    pub(super) fn put(
        &self,
        mut line: Vec<u8>,
        held: Option<OwnedSemaphorePermit>,
    ) -> io::Result<()> {
        line.push(b'\n');
        let item = Item { line, _held: held };
        self.unread.bytes.fetch_add(item.charge(), Ordering::AcqRel);
        self.queue
            .send(Some(item))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Waits until so little lies unread that the client may be listened to.
    pub(super) async fn room(&self) {
        let unread = &self.unread;
        while unread.is_much() {
            let less = unread.less.notified();
            if !unread.is_much() {
                return;
            }
            less.await;
        }
    }
}

impl Outbox {
    /// Writes to `output` until it is closed; fires `lost` when the client can get nothing more, and stops when
    /// `abandon` fires.
    pub(super) fn new(
        output: impl AsyncWrite + Send + Unpin + 'static,
        lost: CancellationToken,
        abandon: CancellationToken,
    ) -> Self {
        let (queue, items) = mpsc::unbounded_channel();
        let unread = Arc::<Unread>::default();
        let writing = write(output, items, Arc::clone(&unread));
        let writer = tokio::spawn(async move {
            let ended = tokio::select! {
                ended = writing => ended,
                () = abandon.cancelled() => Ok(()),
            };
            if let Err(error) = ended {
                tracing::warn!(%error, "the client can get no more answers");
                lost.cancel();
            }
        });
        Self {
            slot: Slot { queue, unread },
            writer: Some(writer),
        }
    }

    /// A handle to put messages in.
    pub(super) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Takes nothing more, and waits until the client has all or can get no more.
    pub(super) async fn close(&mut self) {
        // It fails where the writer has ended already.
        let _ = self.slot.queue.send(None);
        if let Some(writer) = self.writer.take() {
            // It ends by itself; that it panicked was logged.
            let _ = writer.await;
        }
    }
}

/// Writes what waits, in order.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut items: mpsc::UnboundedReceiver<Option<Item>>,
    unread: Arc<Unread>,
) -> io::Result<()> {
    while let Some(Some(item)) = items.recv().await {
        let mut rest = item.line.as_slice();
        while !rest.is_empty() {
            let taken = patiently(&unread, |cx| Pin::new(&mut output).poll_write(cx, rest)).await?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[taken..];
        }
        patiently(&unread, |cx| Pin::new(&mut output).poll_flush(cx)).await?;
        unread.bytes.fetch_sub(item.charge(), Ordering::AcqRel);
        unread.less.notify_waiters();
    }
    output.shutdown().await
}

/// Takes one step of writing, however long the client takes, unless it lets too much lie meanwhile.
async fn patiently<T>(
    unread: &Unread,
    mut step: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    loop {
        match tokio::time::timeout(STALL, poll_fn(&mut step)).await {
            Ok(done) => return done,
            Err(_elapsed) if unread.is_much() => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client does not read its answers",
                ));
            }
            Err(_elapsed) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn outbox(wire: usize) -> (Outbox, tokio::io::DuplexStream, CancellationToken) {
        let (ours, theirs) = tokio::io::duplex(wire);
        let lost = CancellationToken::new();
        let outbox = Outbox::new(theirs, lost.clone(), CancellationToken::new());
        (outbox, ours, lost)
    }

    #[tokio::test]
    async fn everything_arrives_in_order_and_is_no_longer_counted() {
        let (mut outbox, mut ours, lost) = outbox(3);
        let slot = outbox.slot().clone();
        for text in ["first", "second", ""] {
            slot.put(text.into(), None).unwrap();
        }
        let unread = Arc::clone(&slot.unread);
        let closing = tokio::spawn(async move { outbox.close().await });
        let mut text = String::new();
        ours.read_to_string(&mut text).await.unwrap();
        closing.await.unwrap();
        assert_eq!(text, "first\nsecond\n\n");
        assert_eq!(unread.bytes.load(Ordering::Acquire), 0);
        assert!(slot.put(Vec::new(), None).is_err(), "it is closed");
        assert!(!lost.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_lets_too_much_lie_is_given_up_and_one_that_lets_little_lie_is_not() {
        let (outbox, ours, lost) = outbox(3);
        let slot = outbox.slot();
        slot.put(b"little".to_vec(), None).unwrap();
        tokio::time::sleep(10 * STALL).await;
        assert!(!lost.is_cancelled());
        slot.put(vec![b'x'; MAX_UNREAD_BYTES], None).unwrap();
        let waited = tokio::time::timeout(STALL / 2, outbox.slot().room());
        assert!(waited.await.is_err(), "nothing more is read meanwhile");
        lost.cancelled().await;
        drop(ours);
    }

    #[tokio::test]
    async fn a_client_that_closes_its_end_is_lost() {
        let (outbox, ours, lost) = outbox(3);
        drop(ours);
        outbox.slot().put(b"x".to_vec(), None).unwrap();
        lost.cancelled().await;
    }
}
