//! Plain values that every part shares: ids, limits, paths, the caller and the outcome of a run.
//!
//! Each is parsed once, at the edge, into a type that cannot be wrong; nothing here performs I/O but [`clock`],
//! and nothing here knows any other module.

mod bounded;
mod caller;
pub mod clock;
mod digest;
mod host;
mod id;
mod limits;
mod network;
mod outcome;
mod package;
mod path;
mod secret;
pub mod signal;
pub mod visible;

pub use bounded::read_at_most;
pub use caller::{Caller, CallerError, TokenId};
pub use digest::{DigestError, Sha256};
pub use host::{DnsName, Endpoint, Host, HostError};
pub(crate) use id::random_hex;
pub use id::{ArtifactId, FileId, IdError, InstanceId, RunId, SandboxId};
pub use limits::{
    Cpus, LimitError, LimitField, Limits, LimitsRequest, MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS,
    WallTime, whole_seconds,
};
pub use network::{MAX_METHOD_BYTES, MAX_TARGET_BYTES, NO_NETWORK, ProfileName, ProfileNameError};
pub use outcome::Status;
pub use package::{
    MAX_PACKAGE_SPEC_BYTES, PackageKind, PackageSpec, PackageSpecError, is_javascript_name,
    is_python_name,
};
pub use path::{MAX_PATH_BYTES, PathError, WorkspacePath};
pub use secret::Secret;

/// Bytes in a mebibyte.
pub const MIB: u64 = 1024 * 1024;
/// Bytes in a kibibyte.
pub const KIB: u64 = 1024;
