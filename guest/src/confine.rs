//! What a stub does to its own process before it starts a program: namespaces, rights, and a filter that keeps them.
//!
//! For gVisor, where PID 1 is a process like any other. Nothing here may be passed over: a program that ran without one
//! of these steps could reach the guest, so whatever fails ends the stub before there is a program.

use std::fs::OpenOptions;
use std::io::Write as _;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, getgid, getuid};

use crate::filter;

/// The namespaces that a process must be in from its first instruction. The others wait until there is somebody in
/// the user namespace: gVisor does not make a mount namespace that belongs to a user namespace of the same call.
const AT_ONCE: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWPID;
/// The last capability that Linux may ever have: the set is 64 bits wide. Asking for one that there is not fails.
const MAX_CAPABILITY: libc::c_ulong = 63;

/// Who a process was before it had a user namespace: in a new one it has no number until it is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    user: Uid,
    group: Gid,
}

impl Ids {
    /// Of this process.
    pub(crate) fn own() -> Self {
        Self {
            user: getuid(),
            group: getgid(),
        }
    }
}

/// Starts a copy of this process as PID 1 of a new pid namespace, in a new user namespace. `None` in the copy.
///
/// # Safety
/// As `fork`: the process must have one thread. The copy must never return into what the original was doing.
pub(crate) unsafe fn fork() -> nix::Result<Option<i32>> {
    // SAFETY: without `CLONE_VM` this is `fork`: the copy has memory of its own, and no stack or other pointer is
    // given. The arguments are in the order of neither architecture but zero from the second on.
    let pid = unsafe { libc::syscall(libc::SYS_clone, AT_ONCE | libc::SIGCHLD, 0, 0, 0, 0) };
    let pid = i32::try_from(Errno::result(pid)?).map_err(|_| Errno::EOVERFLOW)?;
    Ok((pid != 0).then_some(pid))
}

/// Cuts this process, which [`fork`] has made, off from the guest, and takes every right from it that it could give
/// to a program.
pub(crate) fn confine(ids: Ids) -> nix::Result<()> {
    // Files of a process that is not dumpable are root's, and two of them are written here.
    dumpable(true);
    map(ids)?;
    // System V objects end with their namespace, hence with the run.
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Over the container's own, which cannot be taken off again: it came with the old namespace.
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)?;
    let named = nix::fcntl::readlink("/proc/self").map_err(|_| Errno::ENOENT)?;
    if named != "1" {
        return Err(Errno::EXDEV);
    }
    give_up_capabilities()?;
    filter::install()?;
    dumpable(false);
    Ok(())
}

/// Keeps the numbers of user and group: files have the same owner on both sides, and a program sees its own uid.
fn map(ids: Ids) -> nix::Result<()> {
    // The kernel wants it before an unprivileged process maps a group; gVisor has no such file.
    match write("/proc/self/setgroups", "deny") {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    write("/proc/self/uid_map", &format!("{0} {0} 1", ids.user))?;
    write("/proc/self/gid_map", &format!("{0} {0} 1", ids.group))
}

fn write(path: &str, text: &str) -> nix::Result<()> {
    let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    let mut file = OpenOptions::new().write(true).open(path).map_err(errno)?;
    file.write_all(text.as_bytes()).map_err(errno)
}

fn dumpable(dumpable: bool) {
    // SAFETY: no pointers; PR_SET_DUMPABLE takes one integer.
    unsafe {
        libc::prctl(
            libc::PR_SET_DUMPABLE,
            libc::c_ulong::from(dumpable),
            0,
            0,
            0,
        )
    };
}

/// The first process of a user namespace has every capability in it, among them those that lift `RLIMIT_NPROC`.
fn give_up_capabilities() -> nix::Result<()> {
    for capability in 0..=MAX_CAPABILITY {
        // SAFETY: no pointers; PR_CAPBSET_DROP takes one integer.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match Errno::result(dropped) {
            Ok(_) => {}
            // There are no more.
            Err(Errno::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    // The kernel's `cap_user_header_t`: version 3, and the process itself.
    let header = [0x2008_0522_u32, 0];
    // Two `cap_user_data_t`: effective, permitted and inheritable.
    let none = [[0_u32; 3]; 2];
    // SAFETY: both pointers are to live locals of the sizes that version 3 has; nothing is written to them.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    Errno::result(set).map(drop)
}

/// Closes every descriptor of the guest's but the standard ones and `keep`, and puts `/dev/null` in the place of
/// standard error, which is the daemon's.
pub(crate) fn close_all_but(keep: &mut [i32]) -> nix::Result<()> {
    // The guest's standard input is `/dev/null`, for reading and writing.
    // SAFETY: no pointers; what had the number is not used in this process.
    Errno::result(unsafe { libc::dup2(0, 2) })?;
    keep.sort_unstable();
    let mut from = 3;
    for &mut kept in keep {
        if kept > from {
            close_range(from, kept - 1)?;
        }
        from = from.max(kept + 1);
    }
    close_range(from, i32::MAX)
}

fn close_range(first: i32, last: i32) -> nix::Result<()> {
    // SAFETY: no pointers. The descriptors belong to objects of the guest's, none of which is used again or dropped in
    // this process, which ends without unwinding.
    let closed = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first.cast_unsigned(),
            last.cast_unsigned(),
            0_u32,
        )
    };
    Errno::result(closed).map(drop)
}

/// Ignores every signal that can be ignored but that of the children, as the kernel does for the init of a namespace
/// where it is not gVisor.
pub(crate) fn ignore_signals() {
    for number in (1..=64).filter(|number| *number != libc::SIGCHLD) {
        dispose(number, libc::SIG_IGN);
    }
    dispose(libc::SIGCHLD, libc::SIG_DFL);
}

/// Sets a signal's disposition by the kernel's own call: the C library's refuses the signals that it keeps for itself.
/// Signals that cannot be set are refused by the kernel.
pub(crate) fn dispose(number: i32, disposition: libc::sighandler_t) {
    let action = [disposition as u64, 0, 0, 0];
    // SAFETY: this is the kernel's `sigaction` of a disposition without a handler or a mask, at least as large as that
    // on both architectures; nothing is written back.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            number,
            action.as_ptr(),
            std::ptr::null::<u64>(),
            8_usize,
        );
    }
}
