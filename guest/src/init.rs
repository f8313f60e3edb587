//! What the guest does to its own process before anything else.
//!
//! None of it may fail hard: under gVisor some of these calls are missing, and the container around
//! the guest is the boundary.

use std::fs::File;
use std::os::fd::{AsFd, FromRawFd as _, OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{Mode, umask};

/// The two directions of the tether.
#[derive(Debug)]
pub(crate) struct Stdio {
    /// From the server.
    pub(crate) read: OwnedFd,
    /// To the server.
    pub(crate) write: OwnedFd,
}

/// Capacity of the pipes of the tether, in bytes: the most that an unprivileged process may ask for.
const TETHER_PIPE: i32 = 1024 * 1024;

/// Makes the process non-dumpable, so that programs of the same uid cannot read its memory or its
/// descriptors, and deaf to the signals that a full workspace or a closed pipe would send it.
pub(crate) fn harden() {
    // SAFETY: no pointers; PR_SET_DUMPABLE takes one integer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    for ignored in [Signal::SIGXFSZ, Signal::SIGPIPE, Signal::SIGHUP] {
        // SAFETY: ignoring a signal installs no handler of ours.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
}

/// Moves standard input and output away to descriptors that no program inherits, and puts
/// `/dev/null` in their place.
pub(crate) fn take_stdio() -> nix::Result<Stdio> {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|_| nix::errno::Errno::ENOENT)?;
    Ok(Stdio {
        read: take(0, &null)?,
        write: take(1, &null)?,
    })
}

fn take(number: i32, null: &File) -> nix::Result<OwnedFd> {
    // SAFETY: the standard descriptors are open from the start of the process and nothing else owns
    // them; this one is given back to its number below.
    let standard = unsafe { OwnedFd::from_raw_fd(number) };
    let taken = fcntl(standard.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(3));
    // SAFETY: both descriptors are open; the standard one keeps its number and stays open.
    let replaced = unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(null), number) };
    std::mem::forget(standard);
    nix::errno::Errno::result(replaced)?;
    // SAFETY: `fcntl` has just made this descriptor for us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(taken?) };
    debug_assert!(
        fcntl(fd.as_fd(), FcntlArg::F_GETFD)
            .is_ok_and(|flags| { FdFlag::from_bits_truncate(flags).contains(FdFlag::FD_CLOEXEC) })
    );
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    widen(&fd, TETHER_PIPE);
    Ok(fd)
}

/// Gives a pipe more room than the usual 64 KiB, so that output at full speed does not switch from
/// process to process for each frame. Where that is refused, it works as well, only slower.
pub(crate) fn widen(pipe: impl AsFd, capacity: i32) {
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(capacity));
}
