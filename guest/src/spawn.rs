//! Starting a program: a new session, an exact environment, limits, and nothing inherited.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::rc::Rc;

use belljar_wire::message::{GuestError, RunSpec, StdinKind};
use nix::sys::resource::{Resource, setrlimit};
use tokio::net::unix::pipe;

use crate::confine::dispose;
use crate::init::widen;
use crate::stub::{self, Parent, Stub};

/// Capacity of the pipes that a program writes to, in bytes: a few frames.
const OUTPUT_PIPE: i32 = 256 * 1024;

/// A program that has been started.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// Of the guest's child: the program itself, or its stub.
    pub(crate) pid: i32,
    pub(crate) stub: Option<Rc<Stub>>,
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

impl Inherited<'_> {
    /// The numbers that they have now.
    pub(crate) fn numbers(self) -> Vec<RawFd> {
        match self {
            Self::None => Vec::new(),
            Self::Two(first, second) => vec![first.as_raw_fd(), second.as_raw_fd()],
        }
    }
}

/// The program's ends of its standard streams.
#[derive(Debug)]
pub(crate) struct Ends {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Ends {
    /// Their numbers.
    pub(crate) fn numbers(&self) -> Vec<RawFd> {
        let outputs = [&self.stdout, &self.stderr];
        let all = self.stdin.iter().chain(outputs);
        all.map(std::os::fd::AsRawFd::as_raw_fd).collect()
    }
}

/// Starts a process with pipes for its standard streams, as a child of `parent`.
pub(crate) fn spawn(plan: &Plan<'_>, parent: Parent) -> Result<Spawned, GuestError> {
    let pipe = || io::pipe().map_err(|error| spawn_error(&error));
    let stdin = match plan.stdin {
        StdinKind::Null => None,
        StdinKind::Stream => Some(pipe()?),
    };
    let (stdin, to_stdin) = stdin.unzip();
    let (stdout, to_stdout) = pipe()?;
    let (stderr, to_stderr) = pipe()?;
    let ends = Ends {
        stdin: stdin.map(OwnedFd::from),
        stdout: to_stdout.into(),
        stderr: to_stderr.into(),
    };
    let (pid, stub) = match parent {
        Parent::Guest => (start(plan, ends)?, None),
        Parent::Stub => {
            let stub = stub::start(plan, ends)?;
            (stub.pid(), Some(Rc::new(stub)))
        }
    };
    // A failure from here on leaves a process that the caller's `kill_all` ends.
    let to_stdin = to_stdin.map(|pipe| pipe::Sender::from_owned_fd(pipe.into()));
    Ok(Spawned {
        pid,
        stub,
        stdin: to_stdin.transpose().map_err(|error| spawn_error(&error))?,
        stdout: receiver(stdout.into())?,
        stderr: receiver(stderr.into())?,
    })
}

/// Starts a child of this process. Its end is for the reaper to see: the handle that the standard
/// library made is dropped, which does not wait.
pub(crate) fn start(plan: &Plan<'_>, ends: Ends) -> Result<i32, GuestError> {
    let (program, arguments) = plan.argv.split_first().ok_or(GuestError::Malformed)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .current_dir(plan.cwd)
        .stdin(ends.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(ends.stdout)
        .stderr(ends.stderr);
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
    let child = command.spawn().map_err(|error| spawn_error(&error))?;
    i32::try_from(child.id()).map_err(|_| GuestError::Malformed)
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
    // The guest ignores some signals, a stub all, and whatever started the daemon may have ignored others, which a
    // program would inherit.
    for number in 1..=64 {
        dispose(number, libc::SIG_DFL);
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
    // whatever opened it. A kernel without the call leaves them as they are: marked one by one. Not up to the largest
    // number of all, which gVisor refuses.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first_closed,
            i32::MAX.cast_unsigned(),
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
