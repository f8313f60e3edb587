//! The real guest: in real containers, and once as a plain process.
//!
//! These tests start containers with plain `docker run`, so that they hold for the guest alone,
//! whatever the engine does around it. They need a Docker daemon and the images `belljar/bash` and
//! `belljar/python`, and fail without; the aarch64 guest needs `qemu-aarch64` (Debian's package `qemu-user`).

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in what its helpers do"
)]

mod egress;
mod files;
mod harness;
mod life;
mod runs;
mod warm;
