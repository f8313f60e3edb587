//! Where packages come from: registries, what of them is open, and how much of them is kept.
//!
//! Off unless the operator writes a section for a kind of packages. Made from the configuration file alone: nothing
//! that runs inside, and no caller, ever adds to it.

mod check;
pub(super) mod raw;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use ipnet::IpNet;
use rustls_pki_types::CertificateDer;

use super::{CallerKind, HttpUrl};
use crate::types::{DnsName, Endpoint, PackageKind};

/// Packages that programs may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSettings {
    /// Python's; absent: they are off.
    pub python: Option<Arc<RegistrySettings>>,
    /// JavaScript's; absent: they are off.
    pub javascript: Option<Arc<RegistrySettings>>,
    /// How much the cache of files may take, in MiB; what was used longest ago goes first.
    pub cache_mib: u64,
    /// How long what an index said is believed without asking again.
    pub index_ttl: Duration,
    /// How long an installer may run.
    pub timeout: Duration,
    /// Who may ask for packages.
    pub callers: Vec<CallerKind>,
}

impl PackageSettings {
    /// The registry of one kind, where it is on.
    #[must_use]
    pub fn registry(&self, kind: PackageKind) -> Option<&Arc<RegistrySettings>> {
        match kind {
            PackageKind::Python => self.python.as_ref(),
            PackageKind::JavaScript => self.javascript.as_ref(),
        }
    }
}

/// A registry of packages, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrySettings {
    /// Its address; absent: the one that the installer of the server's user is configured with.
    pub url: Option<HttpUrl>,
    /// Where its files lie, beside its own host; absent: on whatever host its index links to over HTTPS.
    pub hosts: Option<Vec<Endpoint>>,
    /// Whether code of the packages may run while they are installed: builds of Python's, scripts of JavaScript's.
    pub code: bool,
    /// Addresses of names, in the place of what a resolver says.
    pub resolve: BTreeMap<DnsName, Vec<IpAddr>>,
    /// Addresses that are open though they are denied otherwise. Never those of cloud metadata.
    pub allow_private: Vec<IpNet>,
    /// Certificates that servers may be signed by, beside the system's.
    pub upstream_ca: Vec<CertificateDer<'static>>,
    /// Where those were read from, as it is written, to be shown.
    pub upstream_ca_file: Option<PathBuf>,
}
