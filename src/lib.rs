//! belljar: a Model Context Protocol server that gives an agent a computer that cannot hurt anyone.
//!
//! The library holds everything but the command line's entry. Its modules form rows, listed from top
//! to bottom in `ARCHITECTURE.md`; a module imports only from rows below its own, and
//! `tests/architecture.rs` keeps it so. Nothing in here may print to standard output, which belongs
//! to the protocol.

pub mod artifact;
pub mod audit;
pub mod broker;
pub mod cli;
pub mod config;
pub mod egress;
pub mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod images;
pub mod output;
pub mod policy;
pub mod pool;
mod scratch;
pub mod session;
pub mod tools;
pub mod transport;
pub mod types;
