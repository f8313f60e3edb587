//! What clumsy clients cost the program itself: its peak memory, as the kernel counts it, stays below a named figure, and
//! others are served. On a real Docker daemon with the image `belljar/bash:latest`; without one these tests fail, and say
//! so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]
#![cfg(target_os = "linux")]

mod http;
mod pipes;

use std::{fs, path::Path, process::Command, time::Duration};

use belljar_test_client::{Process, holds_within};

/// How long anything may take before a test gives up. No test measures time.
const PATIENCE: Duration = Duration::from_mins(3);

/// The program, without sandboxes that wait.
fn command(state: &Path) -> Command {
    let config = state.join("belljar.toml");
    fs::write(&config, "[pool]\nmax = 0\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .env("BELLJAR_STATE_DIR", state)
        .env("BELLJAR_CONFIG", config);
    command
}

/// The most memory that the server has ever held, in KiB, is less than this.
#[track_caller]
fn assert_peak(process: &Process, what: &str, most: u64) {
    let peak = process.memory_kib("VmHWM");
    eprintln!("{what}: peak {} MiB", peak / 1024);
    assert!(peak < most, "{what}: {peak} KiB, at most {most}");
}

#[track_caller]
fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, holds), "not in time: {what}");
}
