//! The engine on a real Docker daemon. Without one these tests fail, and say so; none is skipped.
//!
//! They need the images `belljar/bash:latest` and `belljar/python:latest` (`belljar images build`); every other image is
//! made by the test itself and removed again. They touch nothing on the daemon that they did not make.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod gone;
mod guest;
mod hostile;
mod rows;
mod seccomp;
mod support;
