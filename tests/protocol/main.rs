//! The whole server as a client sees it: the protocol on one end, a daemon in memory on the other, whose
//! containers run scripts that can also misbehave. Nothing here needs Docker.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod audit;
mod bad_input;
mod cancel;
mod client;
mod clumsy;
mod eras;
mod fetch;
mod files;
mod harness;
mod http;
mod launch;
mod level;
mod local;
mod packages;
mod pool;
mod resources;
mod run;
mod sessions;
mod shown;
