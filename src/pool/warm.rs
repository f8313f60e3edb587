//! Boots the interpreters of those that wait, one or a few at a time, and only while no call waits for a sandbox.
//!
//! Booting costs processor time that a call may need: a call takes a sandbox whether its interpreter has booted or
//! not, and whatever is under way then ends inside. `nice` would not do: priorities of one container mean nothing to
//! the processes of another.

use std::sync::Arc;

use belljar_wire::message::FromWarm;

use super::Inner;
use crate::engine::Sandbox;

impl Inner {
    /// Has the interpreter of a sandbox that waits booted, in its turn.
    pub(super) fn warm_up(self: &Arc<Self>, number: u64, sandbox: &Arc<Sandbox>) {
        let inner = Arc::clone(self);
        // Whoever is handed the sandbox owns it: this must not keep its container from being destroyed.
        let sandbox = Arc::downgrade(sandbox);
        tokio::spawn(async move {
            let turn = tokio::select! {
                turn = inner.warming.acquire() => turn,
                () = inner.closed.cancelled() => return,
            };
            // The same number of turns as there are processors to spare; see `Inner::measure`.
            let Ok(_turn) = turn else { return };
            let Some(sandbox) = sandbox.upgrade() else {
                return;
            };
            if !inner.still_waits(number) {
                return;
            }
            match sandbox.warm_up().await {
                Ok(FromWarm::Ready) => inner.is_warm(number),
                Ok(FromWarm::Failed) => {
                    tracing::debug!(sandbox = %sandbox.id(), "no interpreter waits in it");
                }
                Err(error) => tracing::debug!(sandbox = %sandbox.id(), %error, "not warmed up"),
            }
        });
    }

    fn still_waits(&self, number: u64) -> bool {
        let mut all = self.shelves();
        all.iter_mut()
            .any(|(_, stock)| stock.member(number).is_some())
    }

    fn is_warm(&self, number: u64) {
        let mut all = self.shelves();
        let member = all.iter_mut().find_map(|(_, stock)| stock.member(number));
        if let Some(member) = member {
            member.warm = true;
        }
    }
}
