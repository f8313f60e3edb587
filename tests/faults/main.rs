//! Faults at every step: a server process, and between it and a real Docker daemon a proxy that breaks one call.
//!
//! `matrix` holds the steps and faults as data, and what must hold after each; `disk`, `descriptors`, `clock` and `restart`
//! are the same for what a proxy cannot play. Without a Docker daemon, or without the image `belljar/bash:latest`, these
//! tests fail, and say so. They remove nothing that they did not make.
//!
//! `BELLJAR_FAULTS='create'` plays the cells with this in their line of the table, and `BELLJAR_FAULTS_LOGS` names a
//! folder for the servers' logs.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too, asks for the daemon of this machine, and prints what it found"
)]
#![cfg(unix)]

mod act;
mod api;
mod cell;
mod cells;
mod clock;
mod descriptors;
mod disk;
mod dockerd;
mod matrix;
mod mounted;
mod proxy;
mod pump;
mod restart;
mod server;
mod step;
mod table;
