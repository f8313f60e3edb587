//! What must hold of everything that reads bytes of others, whatever they are: one function for each such reader.
//!
//! Built for tests and under `--cfg fuzzing` only, so that nothing of it is in a belljar that runs. `fuzz/` hands these
//! functions what a fuzzer makes up; the tests here hand them what is kept in `fuzz/corpus/`, as it is and changed a
//! little. A function says more than "does not panic": bounds, round trips, and wherever there is one, what a slow and
//! simple reader makes of the same bytes. It must never depend on a clock, on what was read before, or on this machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a panic is how a target says that something does not hold"
)]

mod asked;
mod egress;
mod guest;
mod input;
mod kept;
mod output;
mod packages;
#[cfg(test)]
mod tests;
mod tether;

/// Takes any bytes, and panics where something does not hold of what is made of them.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its folder in `fuzz/corpus/`.
pub const TARGETS: [(&str, Target); 26] = [
    ("answer", egress::answer),
    ("arguments", asked::arguments),
    ("audit", kept::audit),
    ("capture", output::capture),
    ("client_hello", egress::client_hello),
    ("config", asked::config),
    ("cursor", kept::cursor),
    ("demux", tether::demux),
    ("entries", kept::entries),
    ("environment", asked::environment),
    ("frame", tether::frame),
    ("gateway", packages::gateway),
    ("guest", guest::guest),
    ("host", egress::host),
    ("index", packages::index),
    ("manifest", asked::manifest),
    ("media", kept::media),
    ("message", tether::message),
    ("mux", tether::mux),
    ("name", output::name),
    ("package", packages::package),
    ("redact", egress::redact),
    ("request_head", egress::request_head),
    ("shown", output::shown),
    ("socks", egress::socks),
    ("url", egress::url),
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, target)| *target)
}
