//! What the operator decided: one file and the environment become checked [`Settings`], read once at the start.
//!
//! Every default is closed and listed in `tests/fixtures/config/defaults.toml`, which a test compares. The
//! environment is read nowhere else in the program. Nothing here is ever read from the current directory: a
//! checked-out repository must not configure its own jail.

mod check;
mod egress;
mod environment;
mod error;
mod language;
mod load;
mod packages;
mod raw;
mod settings;
mod show;
mod table;
mod url;
mod words;

pub use egress::{
    Budget, CallerKind, EgressProblem, EgressSettings, HostPattern, Injection, MAX_CONNECTIONS,
    PathPattern, Profile, Rule, Scheme, SecretSource, SecretSpec, Uninspectable,
    is_reserved_variable,
};
pub use environment::Environment;
pub use error::{ConfigError, Problem};
pub use language::{Languages, list};
pub use load::{FileOrigin, MAX_CONFIG_BYTES, machine_cpus};
pub use packages::{PackageSettings, RegistrySettings};
pub use raw::schema;
pub use settings::{
    ArtifactSettings, ConcurrencySettings, DockerSettings, FileSettings, LimitSettings,
    PoolSettings, SessionSettings, Settings, StructuredContent,
};
pub use url::{HttpUrl, UrlError};
