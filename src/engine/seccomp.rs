//! The system calls that a sandbox may make: an allow-list, kept as data in `seccomp.json`.
//!
//! It is passed as JSON with every container, since Docker's own default silently becomes
//! `unconfined` where the kernel or the daemon lacks it, while an explicit profile makes the create fail. What
//! is not listed fails with EPERM, calls of a foreign ABI (i386, x32) die of SIGSYS, since no other
//! architecture is listed, and calls newer than the list get ENOSYS from the runtime.

/// The profile, as Docker reads it.
pub const PROFILE: &str = include_str!("seccomp.json");
