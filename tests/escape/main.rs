//! Escapes and evasions, tried from inside, and images that are made to loosen their sandbox.
//!
//! `probes/` has a file for each attempt, which says what plain Docker, a sandbox under runc and one under gVisor must come to.
//! Each prints `HELD` or `BREACHED`, and its evidence. A probe counts only if it bites: the same program runs in a
//! plain `docker run` and must be `BREACHED` there wherever its head says that Docker allows the thing, be it with flags that
//! people use. A breach that is expected of a sandbox and does not come is a failure as well.
//!
//! These tests need a Docker daemon and belljar's images, and fail loudly without. Under which runtime the sandboxes run
//! says `BELLJAR_TEST_RUNTIME` (`make test-gvisor`); without it it is the daemon's own. No probe connects to
//! anything but the bridge's gateway and addresses that lead nowhere, and none writes where a write would reach the machine.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too, and looks at the daemon past the engine"
)]

mod canary;
#[path = "../docker/support.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "shared with tests/docker, which uses more of it"
)]
mod docker;
mod images;
mod inside;
mod plain;
mod probes;
mod table;
mod world;
