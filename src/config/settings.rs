//! The checked settings. There is no way to one that breaks a rule but by hand.

use std::{path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, EgressSettings, FileOrigin, Languages, PackageSettings, check};
use crate::types::{Limits, WallTime};

/// Everything the operator decided, with closed defaults for the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the settings come from.
    pub origin: FileOrigin,
    /// Whether results carry `structuredContent`.
    pub structured_content: StructuredContent,
    /// What one sandbox may use.
    pub limits: LimitSettings,
    /// How long sessions live, and how many there are.
    pub sessions: SessionSettings,
    /// How much happens at the same time.
    pub concurrency: ConcurrencySettings,
    /// What is started before anybody asks.
    pub pool: PoolSettings,
    /// How long and how much is kept.
    pub artifacts: ArtifactSettings,
    /// Which daemon, and how it starts containers.
    pub docker: DockerSettings,
    /// Which folders of this machine tools may touch.
    pub files: FileSettings,
    /// What can be run.
    pub languages: Languages,
    /// What the network is opened to.
    pub egress: EgressSettings,
    /// Packages that programs may ask for.
    pub packages: PackageSettings,
}

/// Whether results carry `structuredContent` and tools an output schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredContent {
    /// They do.
    #[default]
    On,
    /// Only the fenced text is sent: for clients that hand the model nothing but structured results.
    Off,
}

/// Defaults and ceilings of the limits of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// What a call gets that asks for nothing.
    pub default: Limits,
    /// The most that a call may ask for.
    pub ceiling: Limits,
    /// The wall time of a run that asks for none.
    pub timeout: WallTime,
    /// The most wall time that a run may ask for.
    pub timeout_ceiling: WallTime,
}

/// How long sessions live, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// The lease of a session that asks for none.
    pub ttl: Duration,
    /// The longest lease.
    pub ttl_ceiling: Duration,
    /// How long a session may lie idle.
    pub idle: Duration,
    /// How many sessions one caller may have at a time.
    pub max: u32,
}

/// How much happens at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcurrencySettings {
    /// Sandboxes that exist at a time, sessions included.
    pub max_sandboxes: u32,
    /// Calls that may wait for a place; one more is refused.
    pub queue: u32,
}

/// What is started before anybody asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The most sandboxes that wait.
    pub max: u32,
    /// The fewest that wait of an image in use.
    pub min: u32,
    /// How long an image must have been unused before nothing of it waits.
    pub idle: Duration,
    /// The languages that wait from the start, where nobody has many idle servers.
    pub languages: Vec<String>,
}

/// How long and how much is kept of outputs, collected files and uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactSettings {
    /// How long each is kept.
    pub ttl: Duration,
    /// How much all of them may take, in MiB; the oldest go first.
    pub cap_mib: u64,
}

/// Which daemon, and how it starts containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerSettings {
    /// The daemon's address; before `DOCKER_HOST` and every discovered one.
    pub host: Option<String>,
    /// The runtime to start containers with; absent: the daemon's default.
    pub runtime: Option<String>,
}

/// Folders of this machine that tools may touch on stdio. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSettings {
    /// Folders that `local_path` may read.
    pub read: Vec<PathBuf>,
    /// Folders that `local_path` may read and `save_to` may write.
    pub read_write: Vec<PathBuf>,
}

impl Settings {
    /// Adds the folders of `--allow-dir` and `--allow-dir-rw`. They must be absolute: a relative one would
    /// open whatever directory the client started in.
    pub fn allow_folders(
        &mut self,
        read: Vec<PathBuf>,
        read_write: Vec<PathBuf>,
    ) -> Result<(), ConfigError> {
        let read = check::folders("--allow-dir", read).map_err(ConfigError::Argument)?;
        let read_write =
            check::folders("--allow-dir-rw", read_write).map_err(ConfigError::Argument)?;
        self.files.read.extend(read);
        self.files.read_write.extend(read_write);
        Ok(())
    }
}
