//! Starting a program: a new session, an exact environment, limits, and nothing inherited.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use belljar_wire::message::{GuestError, RunSpec, StdinKind};
use nix::sys::resource::{Resource, setrlimit};
use tokio::net::unix::pipe;

use crate::init::widen;

/// Capacity of the pipes that a program writes to, in bytes: a few frames.
const OUTPUT_PIPE: i32 = 256 * 1024;

/// A program that has been started.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: i32,
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

/// Starts the program. Its end is for the reaper to see: the handle that the standard library made
/// is dropped, which does not wait.
pub(crate) fn spawn(spec: &RunSpec) -> Result<Spawned, GuestError> {
    let (program, arguments) = spec.argv.split_first().ok_or(GuestError::Malformed)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.cwd)
        .stdin(match spec.stdin {
            StdinKind::Null => Stdio::null(),
            StdinKind::Stream => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let nproc = spec.nproc;
    // SAFETY: between fork and exec only system calls are made: nothing allocates, locks or
    // panics. The guest has one thread, so no lock can be held by another.
    unsafe { command.pre_exec(move || in_child(nproc)) };
    let mut child = command.spawn().map_err(|error| spawn_error(&error))?;
    let stdin = child
        .stdin
        .take()
        .map(|pipe| pipe::Sender::from_owned_fd(OwnedFd::from(pipe)));
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(GuestError::Malformed);
    };
    // A failure from here on leaves a process that the caller's `kill_all` ends.
    Ok(Spawned {
        pid: i32::try_from(child.id()).map_err(|_| GuestError::Malformed)?,
        stdin: stdin.transpose().map_err(|error| spawn_error(&error))?,
        stdout: receiver(OwnedFd::from(stdout))?,
        stderr: receiver(OwnedFd::from(stderr))?,
    })
}

fn receiver(fd: OwnedFd) -> Result<pipe::Receiver, GuestError> {
    widen(&fd, OUTPUT_PIPE);
    pipe::Receiver::from_owned_fd(fd).map_err(|error| spawn_error(&error))
}

fn spawn_error(error: &io::Error) -> GuestError {
    match error.raw_os_error() {
        Some(errno) => GuestError::Spawn { errno },
        // The standard library's own refusal: a NUL byte in an argument or a variable.
        None => GuestError::Malformed,
    }
}

/// Runs in the child before the program does. What a runtime lacks is passed over.
fn in_child(nproc: Option<u64>) -> io::Result<()> {
    nix::unistd::setsid()?;
    // The guest ignores some signals, and whatever started the daemon may have ignored others, which a program would
    // inherit. By the kernel's own call: the C library's refuses the signals that it keeps for itself.
    let default = [0_u64; 4];
    for number in 1..=64 {
        // SAFETY: zeros are the kernel's `sigaction` of the default disposition, without a handler or a mask, and the
        // buffer is at least as large as that on both architectures; nothing is written back. Signals that cannot be
        // set are refused by the kernel.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                std::ptr::null::<u64>(),
                8_usize,
            );
        }
    }
    // SAFETY: closes nothing; marks every descriptor above the standard three to be closed by exec,
    // whatever opened it. A kernel without the call leaves them as they are: marked one by one.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3_u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    if let Some(most) = nproc {
        setrlimit(Resource::RLIMIT_NPROC, most, most)?;
    }
    be_first_to_die();
    Ok(())
}

/// Makes the out-of-memory killer prefer this process to the guest. `/proc/self` belongs to root
/// while the process is not dumpable, as the guest is, so it becomes dumpable first.
fn be_first_to_die() {
    // SAFETY: no pointers; PR_SET_DUMPABLE takes one integer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    // SAFETY: the path is a C string literal; the descriptor is used below only if it is valid.
    let file = unsafe {
        libc::open(
            c"/proc/self/oom_score_adj".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        )
    };
    if file < 0 {
        return;
    }
    let score = b"1000";
    // SAFETY: `file` is open and ours alone; the buffer is live and of the length given.
    unsafe {
        libc::write(file, score.as_ptr().cast(), score.len());
        libc::close(file);
    }
}
