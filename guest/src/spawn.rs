//! Starting a program: a new session, an exact environment, limits, and nothing inherited.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
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

/// What to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) argv: &'a [String],
    pub(crate) env: &'a [(String, String)],
    pub(crate) cwd: &'a str,
    pub(crate) stdin: StdinKind,
    pub(crate) nproc: Option<u64>,
    /// Beside the standard ones.
    pub(crate) inherited: Inherited<'a>,
}

/// Descriptors that a process gets beside its standard ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inherited<'a> {
    /// None.
    None,
    /// These, as [`FIRST_INHERITED`] and the number after it.
    Two(BorrowedFd<'a>, BorrowedFd<'a>),
}

/// Number of the first descriptor after the standard ones.
const FIRST_INHERITED: i32 = 3;
/// Where descriptors wait for their place between fork and exec: above all that the standard library opens for itself
/// meanwhile, since one of its own in their place would be lost.
const PARKED: i32 = 64;

impl<'a> Plan<'a> {
    /// A program's own process.
    pub(crate) fn of(spec: &'a RunSpec) -> Self {
        Self {
            argv: &spec.argv,
            env: &spec.env,
            cwd: &spec.cwd,
            stdin: spec.stdin,
            nproc: spec.nproc,
            inherited: Inherited::None,
        }
    }
}

/// Starts a process. Its end is for the reaper to see: the handle that the standard library made
/// is dropped, which does not wait.
pub(crate) fn spawn(plan: &Plan<'_>) -> Result<Spawned, GuestError> {
    let (program, arguments) = plan.argv.split_first().ok_or(GuestError::Malformed)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .current_dir(plan.cwd)
        .stdin(match plan.stdin {
            StdinKind::Null => Stdio::null(),
            StdinKind::Stream => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let nproc = plan.nproc;
    let parked = match plan.inherited {
        Inherited::None => None,
        Inherited::Two(first, second) => Some([park(first)?, park(second)?]),
    };
    // The numbers that the two get must not be those of descriptors that the standard library opens for itself.
    let _taken = match parked {
        None => Vec::new(),
        Some(_) => take_numbers()?,
    };
    // SAFETY: between fork and exec only system calls are made: nothing allocates, locks or
    // panics. The guest has one thread, so no lock can be held by another.
    unsafe { command.pre_exec(move || in_child(nproc, parked.as_ref())) };
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

fn park(fd: BorrowedFd<'_>) -> Result<OwnedFd, GuestError> {
    let parked =
        nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(PARKED)).map_err(|errno| {
            GuestError::Spawn {
                errno: errno as i32,
            }
        })?;
    // SAFETY: `fcntl` has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(parked) })
}

/// Holds every free number up to the last inherited one.
fn take_numbers() -> Result<Vec<std::fs::File>, GuestError> {
    let mut taken = Vec::new();
    loop {
        let file = std::fs::File::open("/dev/null").map_err(|error| spawn_error(&error))?;
        if file.as_raw_fd() > FIRST_INHERITED + 1 {
            return Ok(taken);
        }
        taken.push(file);
    }
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
fn in_child(nproc: Option<u64>, inherited: Option<&[OwnedFd; 2]>) -> io::Result<()> {
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
    let mut first_closed = 3_u32;
    for fd in inherited.into_iter().flatten() {
        // SAFETY: the parked descriptor is open; what had this number in the guest is not needed in the child. A copy
        // is not closed by exec.
        let copied = unsafe { libc::dup2(fd.as_raw_fd(), first_closed.cast_signed()) };
        nix::errno::Errno::result(copied)?;
        first_closed += 1;
    }
    // SAFETY: closes nothing; marks every descriptor above those that are meant to be inherited to be closed by exec,
    // whatever opened it. A kernel without the call leaves them as they are: marked one by one.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first_closed,
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
