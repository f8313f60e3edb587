//! What gets out of a sandbox and what does not: programs inside a real container, a broker as it is shipped, and servers
//! on loopback that see what arrives.
//!
//! These tests need a Docker daemon and belljar's images, and fail loudly without. Under which runtime they run says
//! `BELLJAR_TEST_RUNTIME` (`make test-gvisor`); without it it is the daemon's own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod clients;
mod corpus;
mod days;
mod packages;
mod registries;
mod secrets;
mod support;
