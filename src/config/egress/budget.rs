//! How much one run may use of a profile.

use std::time::Duration;

use super::{Budget, MAX_CONNECTIONS, raw::RawBudget};
use crate::{
    config::{Problem, check::whole},
    types::MIB,
};

/// Requests by default: an installation of packages takes some hundred.
const DEFAULT_REQUESTS: u64 = 1000;
/// The most requests. Each is a line in the audit log.
const HIGHEST_REQUESTS: u64 = 1_000_000;
/// What may be sent by default, in MiB: little, since it is what leaks.
const DEFAULT_SENT_MIB: u64 = 64;
/// What may be received by default, in MiB.
const DEFAULT_RECEIVED_MIB: u64 = 1024;
/// The most bytes that an operator may allow in either direction, in MiB: a tebibyte.
const HIGHEST_MIB: u64 = 1024 * 1024;
/// How long one connection may last by default, in seconds.
const DEFAULT_SECONDS: u64 = 300;
/// The longest that a connection may last, in seconds: a day, like the longest run.
const HIGHEST_SECONDS: u64 = 86_400;

impl Budget {
    /// Checks the section `key`.
    pub(super) fn checked(raw: &RawBudget, key: &str) -> Result<Self, Problem> {
        let within =
            |name, found, default, most| whole(format!("{key}.{name}"), found, default, 1, most);
        Ok(Self {
            requests: within("requests", raw.requests, DEFAULT_REQUESTS, HIGHEST_REQUESTS)?,
            connections: whole(
                format!("{key}.connections"),
                raw.connections,
                MAX_CONNECTIONS,
                1,
                MAX_CONNECTIONS,
            )?,
            sent_bytes: within("sent_mib", raw.sent_mib, DEFAULT_SENT_MIB, HIGHEST_MIB)? * MIB,
            received_bytes: within(
                "received_mib",
                raw.received_mib,
                DEFAULT_RECEIVED_MIB,
                HIGHEST_MIB,
            )? * MIB,
            duration: Duration::from_secs(within(
                "seconds",
                raw.seconds,
                DEFAULT_SECONDS,
                HIGHEST_SECONDS,
            )?),
        })
    }

    /// The budget as it is written.
    pub(super) fn raw(&self) -> RawBudget {
        RawBudget {
            requests: Some(self.requests),
            connections: Some(self.connections),
            sent_mib: Some(self.sent_bytes / MIB),
            received_mib: Some(self.received_bytes / MIB),
            seconds: Some(self.duration.as_secs()),
        }
    }
}
