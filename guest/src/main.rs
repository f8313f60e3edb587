//! PID 1 inside every belljar sandbox.
//!
//! It starts programs, moves files and reaps, at the word of the server on the other end of its
//! standard input and output. It holds no secret and no right that the programs beside it lack, and
//! the server trusts nothing it says. It must never start a thread (threads count against the pids
//! limit), never wait for a program's file or pipe, and never outlive the connection.
//!
//! # Theory of operation
//! One thread drives a tokio runtime. [`link`] accepts the streams that the server opens and serves
//! each in a local task; [`run`] runs at most one program at a time, [`prefork`] has an interpreter
//! wait for it, [`files`] writes and reads, [`walk`] lists, and [`egress`] carries the programs'
//! connections to the server. When the connection ends, PID 1 exits, and the kernel kills whatever is
//! left in its pid namespace.
//!
//! Under gVisor, where PID 1 can be killed and read by whatever runs beside it, the server starts the guest with
//! [`belljar_wire::STUB_ARGUMENT`], and each program gets a [`stub`] of its own.

mod beneath;
mod confine;
mod egress;
mod files;
mod filter;
mod home;
mod init;
mod link;
mod oom;
mod prefork;
mod pump;
mod reap;
mod run;
mod spawn;
mod stub;
mod trust;
mod walk;

use std::io::Write as _;
use std::process::ExitCode;

use crate::stub::Parent;

/// Where the program works.
const WORKSPACE: &str = "/workspace";

/// Why the guest could not start, as an exit status that an operator can look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Not PID 1: killing "everything" would then reach beyond the sandbox.
    NotInit = 100,
    /// Standard input and output are not the two ends of pipes.
    Stdio = 101,
    /// The workspace cannot be opened.
    Workspace = 102,
    /// The runtime cannot be built.
    Runtime = 103,
    /// An argument that is none of ours.
    Arguments = 104,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let argument = arguments.next();
    let parent = match argument.as_ref().map(|argument| argument.to_str()) {
        None => Some(Parent::Guest),
        Some(Some(belljar_wire::STUB_ARGUMENT)) => Some(Parent::Stub),
        Some(Some("--version")) => return version(),
        Some(_) => None,
    };
    let started = match parent {
        Some(parent) if arguments.next().is_none() => start(parent),
        Some(_) | None => Err(Failure::Arguments),
    };
    match started {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure as u8),
    }
}

fn version() -> ExitCode {
    let version = concat!("belljar-guest ", env!("CARGO_PKG_VERSION"), "\n");
    match std::io::stdout().write_all(version.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn start(parent: Parent) -> Result<(), Failure> {
    if std::process::id() != 1 {
        return Err(Failure::NotInit);
    }
    init::harden();
    let tether = init::take_stdio().map_err(|_| Failure::Stdio)?;
    home::prepare();
    let workspace = beneath::Root::open(WORKSPACE).map_err(|_| Failure::Workspace)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|_| Failure::Runtime)?;
    let local = tokio::task::LocalSet::new();
    local
        .block_on(&runtime, link::serve(tether, workspace, parent))
        .map_err(|_| Failure::Stdio)
}
