//! A page of a registry, of either kind.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{digest::Digest, javascript::Package, python::Project, registry::Registry};
use crate::{config::HttpUrl, types::PackageKind};

/// A file that a page links to, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The digest that stands in the gateway's path.
    pub(crate) at: Digest,
    /// The name that stands behind it.
    pub(crate) name: String,
    /// The digest of the file itself.
    pub(crate) digest: Digest,
    /// Where it is fetched from.
    pub(crate) url: HttpUrl,
}

/// What a registry says of one name.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub(crate) enum Page {
    /// Of a project of Python's.
    Python(Project),
    /// Of a package of JavaScript's.
    JavaScript(Package),
}

impl Page {
    /// Reads what a registry answered for `name`.
    pub(crate) fn read(
        kind: PackageKind,
        name: &str,
        bytes: &[u8],
    ) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            PackageKind::Python => Self::Python(Project::read(name, bytes)?),
            PackageKind::JavaScript => Self::JavaScript(Package::read(name, bytes)?),
        })
    }

    /// The page as the gateway serves it, and its links. `url` is the page's own address, and `files` the gateway's for
    /// files.
    pub(crate) fn render(
        &self,
        registry: &Registry,
        url: &HttpUrl,
        files: &str,
    ) -> (Value, Vec<Link>) {
        let leads = |url: &HttpUrl| registry.leads_to(url);
        match self {
            Self::Python(project) => project.render(url, registry.settings.code, leads),
            Self::JavaScript(package) => package.render(url, files, leads),
        }
    }
}
