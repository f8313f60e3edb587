//! Registries of packages as they are written. Nothing is checked here but the kinds of values.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{CallerKind, table};

/// Packages that calls may ask for. Off, unless `python` or `javascript` is there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawPackages {
    /// How much the files that are kept for a next time may take, in MiB; what was used longest ago goes first. Default
    /// 4096.
    pub(super) cache_mib: Option<u64>,
    /// How long an index is believed without asking it again, in seconds. Default 3600.
    pub(super) index_ttl_seconds: Option<u64>,
    /// How long an installer may run, in seconds. Default 120.
    pub(super) timeout_seconds: Option<u64>,
    /// Which callers may ask for packages: "local", the user who started the server; "token", whoever shows the token over
    /// HTTP. Default: both.
    pub(super) callers: Option<Vec<CallerKind>>,
    /// Python's packages.
    #[serde(
        deserialize_with = "table::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) python: Option<RawPython>,
    /// JavaScript's packages.
    #[serde(
        deserialize_with = "table::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) javascript: Option<RawJavaScript>,
}

/// Python's packages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawPython {
    /// The index, which speaks the simple repository API in JSON. Default: the one that pip of the server's user uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<String>,
    /// Where files lie, beside the index's own host, as `host` or `host:port`. Default: whatever host the index links to
    /// over HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hosts: Option<Vec<String>>,
    /// Whether source distributions may be built, which runs their code while the index can be reached. Default false.
    pub(super) builds: bool,
    /// Addresses of names, instead of what DNS says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) resolve: BTreeMap<String, Vec<String>>,
    /// Ranges of private, local or reserved addresses that are open for these hosts. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) allow_private: Vec<String>,
    /// A PEM file of certificates that servers may be signed by, beside the system's; relative to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstream_ca: Option<PathBuf>,
}

/// JavaScript's packages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawJavaScript {
    /// The registry. Default: the one that npm of the server's user uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) registry: Option<String>,
    /// Where files lie, beside the registry's own host, as `host` or `host:port`. Default: whatever host the registry
    /// links to over HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hosts: Option<Vec<String>>,
    /// Whether the scripts of packages may run while they are installed and the registry can be reached. Default false.
    pub(super) scripts: bool,
    /// Addresses of names, instead of what DNS says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) resolve: BTreeMap<String, Vec<String>>,
    /// Ranges of private, local or reserved addresses that are open for these hosts. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) allow_private: Vec<String>,
    /// A PEM file of certificates that servers may be signed by, beside the system's; relative to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstream_ca: Option<PathBuf>,
}
