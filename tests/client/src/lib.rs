//! A server process of a test's own, the client at its pipes or at its port, and what both leave behind.
//!
//! The tests of the whole program start it with settings of their own and ask it through this. It takes no part of the
//! program's code: what it says of the server is what the kernel, the daemon and the files say. Never part of what is
//! shipped.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking, in its helpers too"
)]

pub mod http;
pub mod left;
mod process;
mod server;

use std::{
    thread,
    time::{Duration, Instant},
};

pub use process::Process;
pub use server::{Server, said};

/// How long anything may take that no deadline is about, on a machine that has too much to do.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How often is looked whether something holds.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until something holds; whether it did in time.
pub fn holds_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Waits until it holds, and fails where it does not in time.
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, holds), "not in time: {what}");
}
