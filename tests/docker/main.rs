//! The engine on a real Docker daemon. Without one these tests fail, and say so; none is skipped.
//!
//! They need the images `belljar/bash:latest` and `belljar/python:latest` (`belljar images build`); every other image is
//! made by the test itself and removed again. They touch nothing on the daemon that they did not make.
//!
//! `init` and `warm` say what holds under every runtime: with `BELLJAR_TEST_RUNTIME=runsc` they run under gVisor. The others
//! say what the daemon's default runtime does.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too, and looks at the daemon past the engine"
)]

mod foreign;
mod gone;
mod guest;
mod init;
mod pool;
mod rows;
mod seccomp;
mod support;
mod warm;
