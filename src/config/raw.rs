//! The configuration file as it is written: every key optional, unknown keys refused. Nothing is checked here
//! but the kinds of values.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::{
    StructuredContent,
    egress::raw::{RawProfile, RawSecret},
    packages::raw::RawPackages,
    table,
};

/// The JSON schema of the configuration file, for editors.
#[must_use]
pub fn schema() -> Schema {
    schema_for!(RawConfig)
}

/// belljar's configuration file. Every key may be left out; the defaults are closed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "belljar.toml")]
pub(super) struct RawConfig {
    /// Whether results carry structuredContent: "on" or "off". Default "on".
    pub(super) structured_content: Option<StructuredContent>,
    /// Limits of a sandbox that asks for none.
    #[serde(deserialize_with = "table::one")]
    pub(super) limits: RawLimits,
    /// Sessions.
    #[serde(deserialize_with = "table::one")]
    pub(super) sessions: RawSessions,
    /// How much happens at the same time.
    #[serde(deserialize_with = "table::one")]
    pub(super) concurrency: RawConcurrency,
    /// Sandboxes that are started before anybody asks.
    #[serde(deserialize_with = "table::one")]
    pub(super) pool: RawPool,
    /// What is kept of outputs, collected files and uploads.
    #[serde(deserialize_with = "table::one")]
    pub(super) artifacts: RawArtifacts,
    /// The Docker daemon.
    #[serde(deserialize_with = "table::one")]
    pub(super) docker: RawDocker,
    /// Folders of this machine that tools may touch.
    #[serde(deserialize_with = "table::one")]
    pub(super) files: RawFiles,
    /// Languages beside the built-in ones, or in their place.
    #[serde(
        deserialize_with = "table::each",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(super) language: Vec<RawLanguage>,
    /// Profiles of the network by their names, which a call gives as `network`. None by default: then nothing goes out.
    #[serde(
        deserialize_with = "table::named",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) egress: BTreeMap<String, RawProfile>,
    /// Credentials by their names, for profiles to use. None by default.
    #[serde(
        deserialize_with = "table::named",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) secrets: BTreeMap<String, RawSecret>,
    /// Packages that calls may ask for. Off by default.
    #[serde(deserialize_with = "table::one")]
    pub(super) packages: RawPackages,
}

/// Limits of a sandbox that asks for none, and under `ceiling` the most that one may ask for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLimits {
    /// Memory in MiB. Default 512, at least 64.
    pub(super) memory_mib: Option<u32>,
    /// Processors. Default 1, at least 0.1.
    pub(super) cpus: Option<f64>,
    /// Processes and threads. Default 128, at least 16.
    pub(super) pids: Option<u32>,
    /// Size of /workspace in MiB. Default 256, at least 1.
    pub(super) workspace_mib: Option<u32>,
    /// Output that ends a run, both streams together, in KiB. Default 16384, at least 1.
    pub(super) output_kib: Option<u32>,
    /// Wall time of a run in seconds. Default 30, at least 0.1.
    pub(super) timeout_seconds: Option<f64>,
    /// The most that a call may ask for.
    #[serde(deserialize_with = "table::one")]
    pub(super) ceiling: RawCeiling,
}

/// The most that a call may ask for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCeiling {
    /// Memory in MiB. Default 4096.
    pub(super) memory_mib: Option<u32>,
    /// Processors. Default: as many as this machine has; a remote daemon with fewer refuses to start the sandbox.
    pub(super) cpus: Option<f64>,
    /// Processes and threads. Default 1024.
    pub(super) pids: Option<u32>,
    /// Size of /workspace in MiB. Default 2048.
    pub(super) workspace_mib: Option<u32>,
    /// Output in KiB. Default 262144.
    pub(super) output_kib: Option<u32>,
    /// Wall time in seconds. Default 300, at most 86400.
    pub(super) timeout_seconds: Option<f64>,
}

/// Sessions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSessions {
    /// The lease of a session that asks for none, in seconds. Default 1800.
    pub(super) ttl_seconds: Option<u64>,
    /// The longest lease that a call may ask for, in seconds. Default 86400.
    pub(super) ttl_ceiling_seconds: Option<u64>,
    /// How long a session may lie idle, in seconds. Default 900.
    pub(super) idle_seconds: Option<u64>,
    /// How many sessions one caller may have at a time. Default 12.
    pub(super) max: Option<u32>,
}

/// How much happens at the same time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawConcurrency {
    /// Sandboxes that exist at a time, sessions included. Default 16.
    pub(super) max_sandboxes: Option<u32>,
    /// Calls that may wait for a place; one more is refused. Default 64.
    pub(super) queue: Option<u32>,
}

/// Sandboxes that are started before anybody asks, each for one use. Those with the limits of `[limits]` wait.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPool {
    /// The most that wait, on top of those in use, of all languages together; Python waits in up to four kinds. Default 8; 0
    /// starts each sandbox when it is asked for.
    pub(super) max: Option<u32>,
    /// The fewest that wait of each image in use. Over HTTP those of `languages` wait from the start; on stdio nothing
    /// waits before the first call. Default 0.
    pub(super) min: Option<u32>,
    /// How long nobody must have used an image before nothing of it waits beyond what `min` and `languages` keep, in
    /// seconds. Default 600.
    pub(super) idle_seconds: Option<u64>,
    /// The languages that wait from the start over HTTP. Default python.
    pub(super) languages: Option<Vec<String>>,
}

/// What is kept of outputs, collected files and uploads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawArtifacts {
    /// How long each is kept, in seconds. Default 86400.
    pub(super) ttl_seconds: Option<u64>,
    /// How much all of them may take, in MiB; the oldest go first. Default 4096.
    pub(super) cap_mib: Option<u64>,
}

/// The Docker daemon.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDocker {
    /// Its address, such as `unix:///run/docker.sock`. Default: `DOCKER_HOST`, else the current context, else the usual sockets.
    pub(super) host: Option<String>,
    /// The runtime that starts containers, such as runc or runsc. Default: the daemon's.
    pub(super) runtime: Option<String>,
}

/// Folders of this machine that tools may touch on stdio; absolute paths. None by default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFiles {
    /// Folders that files may be read from.
    pub(super) read: Vec<PathBuf>,
    /// Folders that files may be read from and saved to.
    pub(super) read_write: Vec<PathBuf>,
}

/// A language in an image of the operator's.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLanguage {
    /// Its name. That of a built-in language takes that one's place.
    pub(super) name: String,
    /// Further names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) aliases: Vec<String>,
    /// The image's reference on the daemon; it is never pulled.
    pub(super) image: String,
    /// The hidden file name that the code is given, such as .main.py.
    pub(super) program: String,
    /// The command that runs it; `{program}` stands for the file's path, and the program's arguments follow.
    pub(super) command: Vec<String>,
    /// Variables for each program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    /// Size of /dev/shm in MiB. Default 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shm_mib: Option<u32>,
}
