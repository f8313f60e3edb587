//! The client's messages as the SDK takes them, and its answers as lines.
//!
//! What the client wrote and cannot be handed on is answered here, and reading goes on. Nothing may be handed on that
//! the SDK would drop without an answer, or give up over.

use std::{borrow::Cow, io, sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, GetExtensions as _, JsonRpcMessage,
        ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::{io::AsyncRead, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    super::message::{Envelope, Fault, Inbound, Notice},
    flights::{Flights, Full},
    lines::{Line, Lines, MAX_LINE_BYTES},
    outbox::Slot,
};

/// How long a request may wait because too much is under way. Meanwhile nothing else is read, so that a client that
/// writes faster than we work is slowed down rather than refused; but no longer, since it may want to take back what
/// is under way. Once one has waited in vain, others do not wait until one could begin.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);

/// A connection to one client.
pub(super) struct Wire<R> {
    lines: Lines<R>,
    outbox: Slot,
    flights: Arc<Flights>,
    /// The SDK takes nothing but requests before.
    opened: bool,
    /// A request that waits because too much is under way, and until when.
    waiting: Option<(Inbound, Instant)>,
    /// A request has waited in vain, and none could begin since.
    saturated: bool,
    /// Fires when the client can get nothing more.
    lost: CancellationToken,
    /// Fired when nothing more will be read.
    ended: CancellationToken,
}

/// What became of a request.
enum Begun {
    /// It is handed on.
    Message(ClientJsonRpcMessage),
    /// Too much is under way.
    Busy(Inbound),
    /// It was answered.
    Refused,
}

impl<R: AsyncRead + Send + Unpin> Wire<R> {
    /// Reads from `input` and answers into `outbox` until `lost` fires; fires `ended` when nothing more will be read.
    pub(super) fn new(
        input: R,
        outbox: Slot,
        lost: CancellationToken,
        ended: CancellationToken,
    ) -> Self {
        Self {
            lines: Lines::new(input, MAX_LINE_BYTES),
            outbox,
            flights: Arc::default(),
            opened: false,
            waiting: None,
            saturated: false,
            lost,
            ended,
        }
    }

    /// The next message; none at the end of the input. Whoever drops this future loses nothing.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.waiting.is_some() {
                match self.retry().await {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            tokio::select! {
                biased;
                () = self.outbox.room() => {}
                // It has asked for all that it will, and reads nothing: it gets as long as any client at its end.
                () = self.lines.end() => {
                    self.ended.cancel();
                    self.outbox.room().await;
                }
            }
            // A client that writes nothing but noise must not keep the thread from others.
            tokio::task::consume_budget().await;
            let line = match self.lines.next().await {
                Ok(line) => line?,
                Err(error) => {
                    tracing::warn!(%error, "the client cannot be read any more");
                    return None;
                }
            };
            let read = match line {
                Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
                Line::Whole(bytes) => Envelope::read(bytes),
                Line::TooLong(id) => Err(Fault::too_long(id, MAX_LINE_BYTES)),
            };
            match read.and_then(|envelope| self.sort(envelope)) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(fault) => self.refuse(&fault),
            }
        }
    }

    /// What is to be handed on of a message, if anything.
    fn sort(&mut self, envelope: Envelope) -> Result<Option<ClientJsonRpcMessage>, Fault> {
        match envelope {
            Envelope::Request {
                id,
                method,
                params,
                weight,
            } => {
                let inbound = Inbound::new(id, &method, params, weight)?;
                Ok(match self.begin(inbound) {
                    Begun::Message(message) => Some(message),
                    Begun::Refused => None,
                    Begun::Busy(inbound) if self.saturated => {
                        return Err(Fault::busy(&inbound.id));
                    }
                    Begun::Busy(inbound) => {
                        self.waiting = Some((inbound, Instant::now() + BUSY_PATIENCE));
                        None
                    }
                })
            }
            Envelope::Notification { method, params, .. } => Ok(self.notice(&method, params)),
            // This server asks nothing of its client.
            Envelope::Answer => Ok(None),
        }
    }

    fn notice(
        &self,
        method: &str,
        params: Option<serde_json::Map<String, serde_json::Value>>,
    ) -> Option<ClientJsonRpcMessage> {
        let notification: ClientNotification = match Notice::new(method, params) {
            // What is not under way cannot be taken back: it has not come yet, is over, or was taken back already.
            Notice::Cancelled(id, notification) => {
                self.flights.take_back(&id).then_some(notification)?
            }
            Notice::Initialized(notification) => notification,
            Notice::Other => return None,
        };
        self.opened
            .then(|| ClientJsonRpcMessage::notification(notification))
    }

    fn begin(&mut self, mut inbound: Inbound) -> Begun {
        let begun = self
            .flights
            .begin(&inbound.id, inbound.weight, &self.outbox);
        match begun {
            Ok((seat, room)) => {
                self.saturated = false;
                self.opened = self.opened || inbound.opens();
                // They live as long as the request's handler does.
                let extensions = inbound.request.extensions_mut();
                extensions.insert(Arc::new(seat));
                extensions.insert(room);
                Begun::Message(ClientJsonRpcMessage::request(inbound.request, inbound.id))
            }
            Err(Full::Busy) => Begun::Busy(inbound),
            Err(Full::Duplicate) => {
                self.refuse(&Fault::duplicate());
                Begun::Refused
            }
        }
    }

    /// Tries once more to begin the request that waits, and waits a while if it still cannot.
    async fn retry(&mut self) -> Option<ClientJsonRpcMessage> {
        let flights = Arc::clone(&self.flights);
        let less = flights.less();
        let (inbound, until) = self.waiting.take()?;
        match self.begin(inbound) {
            Begun::Message(message) => return Some(message),
            Begun::Refused => {}
            Begun::Busy(inbound) if Instant::now() >= until => {
                self.saturated = true;
                self.refuse(&Fault::busy(&inbound.id));
            }
            Begun::Busy(inbound) => {
                self.waiting = Some((inbound, until));
                tokio::select! {
                    () = less => {}
                    () = tokio::time::sleep_until(until) => {}
                }
            }
        }
        None
    }

    fn refuse(&self, fault: &Fault) {
        // It fails where the client can get nothing more, which is noticed elsewhere.
        let _ = self.outbox.put(fault.to_json().into_bytes(), None);
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Wire<R> {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let place = id
            .and_then(|id| self.flights.answered(id))
            .and_then(|room| room.take());
        let outbox = self.outbox.clone();
        async move {
            let line = serde_json::to_vec(&message).map_err(io::Error::other)?;
            drop(message);
            outbox.put(line, place)
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let lost = self.lost.clone();
        let next = tokio::select! {
            biased;
            () = lost.cancelled() => None,
            next = self.next() => next,
        };
        if next.is_none() {
            self.ended.cancel();
        }
        next
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // The outbox is closed by whoever opened it.
        Ok(())
    }
}
