//! The proxy of one run.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::{
    authority::Authority,
    dial, front,
    ledger::{Ledger, Report, Witness},
    upstream::Upstream,
    vault::Vault,
};
use crate::config::Profile;

/// The proxy of one run. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Relay {
    pub(super) shared: Arc<Shared>,
}

/// What every connection of one run needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) profile: Arc<Profile>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) vault: Vault,
    pub(super) authority: Authority,
    /// Made for the first request; see [`Self::upstream`].
    pub(super) upstream: OnceLock<Upstream>,
    /// Places for names that are being resolved; see [`super::dial`].
    pub(super) lookups: Arc<Semaphore>,
    /// Fires at the end of the run.
    pub(super) stop: CancellationToken,
}

impl Shared {
    /// What a run under `profile` needs. Costs next to nothing: what is expensive is made when it is used.
    pub(super) fn new(profile: Arc<Profile>, witness: Arc<dyn Witness>, vault: Vault) -> Self {
        let stop = CancellationToken::new();
        let ledger = Ledger::new(Arc::clone(&profile), witness, stop.clone());
        Self {
            ledger: Arc::new(ledger),
            vault,
            authority: Authority::new(&profile),
            upstream: OnceLock::new(),
            lookups: Arc::new(Semaphore::new(dial::MAX_LOOKUPS)),
            stop,
            profile,
        }
    }

    /// The client that sends requests on.
    pub(super) fn upstream(self: &Arc<Self>) -> &Upstream {
        self.upstream.get_or_init(|| Upstream::new(self))
    }
}

impl Relay {
    /// A proxy for one run under `profile`, with the profile's secrets. Costs next to nothing.
    #[must_use]
    pub fn new(profile: Arc<Profile>, vault: Vault, witness: Arc<dyn Witness>) -> Self {
        Self {
            shared: Arc::new(Shared::new(profile, witness, vault)),
        }
    }

    /// The certificates, as PEM, that programs inside have to trust beside the image's own.
    #[must_use]
    pub fn trust(&self) -> &[u8] {
        self.shared.authority.trust_pem()
    }

    /// The variables in which programs find their stand-ins for secrets.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        self.shared.vault.env()
    }

    /// Serves one connection from inside to its end, which comes with [`Self::close`] at the latest.
    pub async fn serve<T>(&self, io: T)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        front::serve(Arc::clone(&self.shared), io).await;
    }

    /// Ends every connection and lets no new one in.
    pub fn close(&self) {
        self.shared.stop.cancel();
    }

    /// What was reached and denied so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.ledger.report()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::{egress::fixtures::Notes, policy::egress::fixtures::profile};

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_is_dropped_cuts_what_it_serves() {
        let notes: Arc<dyn Witness> = Notes::shared();
        let relay = Relay::new(Arc::new(profile(vec![])), Vault::default(), notes);
        let (_inside, io) = tokio::io::duplex(64);
        let served = front::serve(Arc::clone(&relay.shared), io);
        let before = Instant::now();
        drop(relay);
        served.await;
        // Not by any of the times for which a connection may last.
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}
