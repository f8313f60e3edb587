//! The engine on a real Docker daemon. Without one these tests fail, and say so; none is skipped.
//!
//! They need the images `belljar/bash:latest` and `belljar/python:latest` (`belljar images build`); every other image is
//! made by the test itself and removed again. They touch nothing on the daemon that they did not make.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too, and looks at the daemon past the engine"
)]

mod gone;
mod guest;
mod pool;
mod rows;
mod seccomp;
mod support;
mod warm;
