//! Packages without an open network: a gateway to the operator's registry, in the place of a way out.
//!
//! An installer inside speaks to a [`Gateway`] and to nothing else. The gateway makes every request to the registry
//! itself, from a name that it has parsed, and hands on only what has the digest that the registry's index promised.
//! Nothing an installer sends, but a name, ever leaves the server.
//!
//! # Theory of operation
//! [`registry`] says where packages come from; [`path`] reads what an installer asks for; [`client`] decides, records
//! and sends what goes out for it, over the same dialling and TLS as programs'; [`python`] and [`javascript`] read and
//! rewrite pages; [`cache`] keeps both pages and files for every server of the user, so that a second use costs no
//! network.

mod cache;
mod client;
pub(crate) mod digest;
mod gateway;
pub(crate) mod javascript;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod python;
mod registry;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc};

use tokio::sync::{OnceCell, Semaphore};

pub use gateway::Gateway;
pub use registry::{Registry, RegistryError};

use gateway::Shared;

use super::Witness;
use crate::{
    config::PackageSettings,
    types::{MIB, PackageKind},
};

/// Pages that are read at a time, by all installations together. Each may take its bytes and what they are parsed into.
const MAX_PAGES_AT_ONCE: usize = 6;

/// The registries of this server and what was fetched from them.
#[derive(Debug)]
pub struct Packages {
    settings: PackageSettings,
    shared: Shared,
    python: OnceCell<Registry>,
    javascript: OnceCell<Registry>,
}

impl Packages {
    /// What the operator opened; `folder` is where it is kept, and need not exist yet. Nothing is asked or made before
    /// the first installation.
    #[must_use]
    pub fn new(settings: &PackageSettings, folder: PathBuf) -> Self {
        let most = settings.cache_mib.saturating_mul(MIB);
        Self {
            shared: Shared {
                cache: Arc::new(cache::Cache::new(folder, most)),
                pages: Arc::new(Semaphore::new(MAX_PAGES_AT_ONCE)),
            },
            settings: settings.clone(),
            python: OnceCell::new(),
            javascript: OnceCell::new(),
        }
    }

    /// Removes what servers had on their way from a registry that were killed. Blocks; where nothing was ever
    /// fetched it makes nothing.
    pub fn tidy(&self) -> std::io::Result<()> {
        self.shared.cache.tidy()
    }

    /// Removes what this server has on its way. Blocks for as long as it takes to remove a few files.
    pub fn close(&self) {
        self.shared.cache.close();
    }

    /// The registry of one kind, found the first time that somebody asks; `None` where the kind is off.
    ///
    /// # Errors
    /// [`RegistryError`]: it is on, and nobody says where packages come from.
    pub async fn registry(&self, kind: PackageKind) -> Result<Option<&Registry>, RegistryError> {
        let found = match kind {
            PackageKind::Python => &self.python,
            PackageKind::JavaScript => &self.javascript,
        };
        match self.settings.registry(kind) {
            None => Ok(None),
            Some(settings) => found
                .get_or_try_init(|| Registry::find(kind, settings))
                .await
                .map(Some),
        }
    }

    /// A gateway to `registry` for one installation, which finds it at `authority`.
    #[must_use]
    pub fn gateway(
        &self,
        registry: &Registry,
        authority: &str,
        witness: Arc<dyn Witness>,
    ) -> Gateway {
        Gateway::new(
            registry.clone(),
            client::Client::new(registry.clone(), witness),
            self.shared.clone(),
            self.settings.index_ttl,
            authority,
        )
    }
}
