//! The init between the guest and a program, for gVisor.
//!
//! There PID 1 is a process like any other: a program beside the guest can kill, stop and read it. So a program gets a
//! pid namespace of its own, whose init is a copy of the guest that does nothing but this. All that a program can do to
//! it is to end its own run. It must never be taken at its word for more than a program could do by itself: a status
//! and a figure.
//!
//! # Theory of operation
//! [`start`] makes the copy, which shuts itself in ([`crate::confine`]), starts the program as ever, and says so over a
//! socket. Then it reaps, and answers two questions: how much processor time the program has used, and to end
//! everything. When the program has ended it kills what is left in its namespace, reaps until nothing is, says the
//! program's status, and exits. If it is killed instead, gVisor ends everything in its namespace with it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream as StdStream;
use std::time::{Duration, Instant};

use belljar_wire::message::{ExitStatus, GuestError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::confine::{self, Ids};
use crate::reap::{Changes, Wait, cpu_of, wait4};
use crate::spawn::{Ends, Plan};

/// Whose child a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The guest's own, where the kernel protects PID 1.
    #[default]
    Guest,
    /// A stub's.
    Stub,
}

/// What the guest asks of a stub: how much processor time the program has used.
const ASK_CPU: u8 = b'c';
/// What the guest asks of a stub: to end the program and itself.
const ASK_END: u8 = b'e';

/// How long a stub may take to say how much processor time was used. It is a figure for show; stops a stub that was
/// stopped from holding up a run.
const CPU_DEADLINE: Duration = Duration::from_millis(200);
/// How long a stub may take to start a program. Generous for a machine without time; stops a program that stops the
/// stub again and again from silencing the guest until the server gives it up.
const START_DEADLINE: Duration = Duration::from_secs(10);
/// How often a stub that says nothing is told to go on, while it starts a program: that may have stopped it already.
const START_ROUND: Duration = Duration::from_millis(100);
/// Reports that are read after the end, of the two or three that there may be. Stops whoever got hold of a stub's
/// socket from keeping the guest busy with them.
const MAX_REPORTS: usize = 4;
/// Pause between two rounds of killing, as in the guest.
const KILL_PAUSE_MS: u8 = 1;

/// What a stub says: a tag and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    Started,
    /// The program's command cannot be started; 0 where that is no error of the kernel's.
    NoProgram(i32),
    /// The stub could not shut itself in.
    NoNamespace(i32),
    /// Microseconds.
    Cpu(u64),
    Exited(i32),
    Signaled(i32),
}

/// Bytes in a report.
const REPORT: usize = 9;

impl Report {
    fn encode(self) -> [u8; REPORT] {
        let (tag, number) = match self {
            Self::Started => (b'r', 0),
            Self::NoProgram(errno) => (b'p', u64::from(errno.cast_unsigned())),
            Self::NoNamespace(errno) => (b'n', u64::from(errno.cast_unsigned())),
            Self::Cpu(micros) => (b'c', micros),
            Self::Exited(code) => (b'x', u64::from(code.cast_unsigned())),
            Self::Signaled(signal) => (b's', u64::from(signal.cast_unsigned())),
        };
        let mut bytes = [tag; REPORT];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; REPORT]) -> Option<Self> {
        let [tag, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        let small = || u32::try_from(number).ok().map(u32::cast_signed);
        Some(match tag {
            b'r' => Self::Started,
            b'p' => Self::NoProgram(small()?),
            b'n' => Self::NoNamespace(small()?),
            b'c' => Self::Cpu(number),
            b'x' => Self::Exited(small()?),
            b's' => Self::Signaled(small()?),
            _ => return None,
        })
    }
}

/// The guest's end of the connection to a stub.
#[derive(Debug)]
pub(crate) struct Stub {
    pid: i32,
    channel: UnixStream,
}

/// Starts a program behind a stub, and returns once it runs.
pub(crate) fn start(plan: &Plan<'_>, ends: Ends) -> Result<Stub, GuestError> {
    let (ours, theirs) = StdStream::pair().map_err(|error| failed(&error))?;
    let ids = Ids::own();
    // SAFETY: the guest has one thread, and the copy ends in `be` without returning or unwinding.
    match unsafe { confine::fork() } {
        Ok(None) => be(ids, plan, ends, &theirs),
        Ok(Some(pid)) => {
            drop((theirs, ends));
            hear_of_start(&ours, pid)?;
            ours.set_nonblocking(true).map_err(|error| failed(&error))?;
            let channel = UnixStream::from_std(ours).map_err(|error| failed(&error))?;
            Ok(Stub { pid, channel })
        }
        Err(errno) => Err(GuestError::Namespace {
            errno: errno as i32,
        }),
    }
}

fn failed(error: &std::io::Error) -> GuestError {
    GuestError::Io {
        errno: error.raw_os_error().unwrap_or(0),
    }
}

/// Waits for the stub's word. A program that runs may have killed or stopped it before it could say so.
fn hear_of_start(channel: &StdStream, pid: i32) -> Result<(), GuestError> {
    channel
        .set_read_timeout(Some(START_ROUND))
        .map_err(|error| failed(&error))?;
    let begun = Instant::now();
    let mut bytes = [0; REPORT];
    loop {
        match (&mut &*channel).read_exact(&mut bytes) {
            Ok(()) => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if begun.elapsed() >= START_DEADLINE {
                    return Err(GuestError::Namespace {
                        errno: libc::ETIMEDOUT,
                    });
                }
                let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
            }
            // It is dead. How it died is the run's status.
            Err(_) => return Ok(()),
        }
    }
    match Report::decode(bytes) {
        Some(Report::Started) => Ok(()),
        Some(Report::NoProgram(0)) | None => Err(GuestError::Malformed),
        Some(Report::NoProgram(errno)) => Err(GuestError::Spawn { errno }),
        Some(Report::NoNamespace(errno)) => Err(GuestError::Namespace { errno }),
        // Of a stub that says the wrong thing.
        Some(Report::Cpu(_) | Report::Exited(_) | Report::Signaled(_)) => {
            Err(GuestError::Malformed)
        }
    }
}

impl Stub {
    /// Its number for the guest, under which its end is seen.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Asks it to end the program and itself. Where it was stopped or is gone, nobody hears.
    pub(crate) fn end(&self) {
        let _ = self.channel.try_write(&[ASK_END]);
    }

    /// User and system time that the program itself has used, in microseconds; 0 where that cannot be told.
    pub(crate) async fn cpu(&self) -> u64 {
        let asking = async {
            self.channel.try_write(&[ASK_CPU]).ok()?;
            self.channel.readable().await.ok()?;
            match self.report()? {
                Report::Cpu(micros) => Some(micros),
                _ => None,
            }
        };
        timeout(CPU_DEADLINE, asking)
            .await
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    /// How the program ended, once the stub has ended; `None` if it was killed before it could tell.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        // An answer that came too late may be before it.
        for _ in 0..MAX_REPORTS {
            match self.report()? {
                Report::Exited(code) => return Some(ExitStatus::Code(code)),
                Report::Signaled(signal) => return Some(ExitStatus::Signal(signal)),
                Report::Cpu(_)
                | Report::Started
                | Report::NoProgram(_)
                | Report::NoNamespace(_) => {}
            }
        }
        None
    }

    /// The next report, if it is there. Each is written whole, into a buffer that has room for many.
    fn report(&self) -> Option<Report> {
        let mut bytes = [0; REPORT];
        match nix::unistd::read(self.channel.as_fd(), &mut bytes) {
            Ok(REPORT) => Report::decode(bytes),
            Ok(_) | Err(_) => None,
        }
    }
}

/// The whole life of a stub. Allocates as it likes: it is the copy of a process with one thread.
fn be(ids: Ids, plan: &Plan<'_>, ends: Ends, channel: &StdStream) -> ! {
    let code = match begin(ids, plan, ends, channel) {
        Ok((main, children)) => {
            report(channel, Report::Started);
            let status = finish(main, tend(main, channel, &children), &children);
            match status {
                ExitStatus::Code(code) => {
                    report(channel, Report::Exited(code));
                    code
                }
                ExitStatus::Signal(signal) => {
                    report(channel, Report::Signaled(signal));
                    // As shells say it, for a guest that could not hear the report.
                    128 + signal
                }
            }
        }
        Err(why) => {
            report(channel, why);
            1
        }
    };
    // SAFETY: ends the process at once. Nothing of the guest's that this copy holds is dropped.
    unsafe { libc::_exit(code) }
}

fn report(mut channel: &StdStream, report: Report) {
    // A guest that is gone takes everything with it.
    let _ = channel.write_all(&report.encode());
}

/// Shuts the process in and starts the program.
fn begin(
    ids: Ids,
    plan: &Plan<'_>,
    ends: Ends,
    channel: &StdStream,
) -> Result<(i32, SignalFd), Report> {
    let refused = |errno: Errno| Report::NoNamespace(errno as i32);
    // First: the guest's handlers write to descriptors that are soon somebody else's.
    confine::ignore_signals();
    let mut keep = Vec::from([channel.as_raw_fd()]);
    keep.extend(ends.numbers());
    keep.extend(plan.inherited.numbers());
    confine::close_all_but(&mut keep).map_err(refused)?;
    nix::unistd::setsid().map_err(refused)?;
    confine::confine(ids).map_err(refused)?;
    if let Some(most) = plan.nproc {
        // As the program's, so that whoever got hold of the stub would gain nothing by it.
        setrlimit(Resource::RLIMIT_NPROC, most, most).map_err(refused)?;
    }
    let child = SigSet::from(Signal::SIGCHLD);
    // The program's mask is emptied when it is started.
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&child), None).map_err(refused)?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let children = SignalFd::with_flags(&child, flags).map_err(refused)?;
    let inherited = plan.inherited.numbers();
    let main = crate::spawn::start(plan, ends).map_err(|error| match error {
        GuestError::Spawn { errno } => Report::NoProgram(errno),
        _ => Report::NoProgram(0),
    })?;
    // The program has copies of them.
    for number in inherited {
        // SAFETY: the descriptor is not used again in this process.
        unsafe { libc::close(number) };
    }
    Ok((main, children))
}

/// Reaps and answers until the program has ended, whose status it then returns, or shall end.
fn tend(main: i32, mut channel: &StdStream, children: &SignalFd) -> Option<ExitStatus> {
    loop {
        if let Reaped::Main(status) = reap(main) {
            return Some(status);
        }
        wait(children, Some(channel), PollTimeout::NONE);
        let mut asked = [0];
        // Mostly a child has ended, and a read would wait.
        if readable(channel) {
            match channel.read(&mut asked) {
                Ok(1) if asked == [ASK_CPU] => report(channel, Report::Cpu(cpu_of(main))),
                Ok(_) | Err(_) => return None,
            }
        }
    }
}

/// Kills whatever is left in the namespace and reaps it. Returns the program's status.
fn finish(main: i32, mut status: Option<ExitStatus>, children: &SignalFd) -> ExitStatus {
    loop {
        // -1: every process but this one, which is the init of its namespace.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        match reap(main) {
            Reaped::Main(ended) => status = Some(ended),
            Reaped::Others => wait(children, None, PollTimeout::from(KILL_PAUSE_MS)),
            Reaped::Last => return status.unwrap_or(ExitStatus::Signal(libc::SIGKILL)),
        }
    }
}

enum Reaped {
    /// The program has ended so.
    Main(ExitStatus),
    /// There are children, and none of them has ended.
    Others,
    /// There are no children.
    Last,
}

fn reap(main: i32) -> Reaped {
    loop {
        match wait4(Changes::Ends) {
            Wait::Ended(ended) if ended.pid == main => return Reaped::Main(ended.status),
            Wait::Ended(_) | Wait::Stopped(_) => {}
            Wait::Alive => return Reaped::Others,
            Wait::None => return Reaped::Last,
        }
    }
}

/// Waits until a child has ended or the guest asks something.
fn wait(children: &SignalFd, channel: Option<&StdStream>, timeout: PollTimeout) {
    let mut watched = vec![PollFd::new(children.as_fd(), PollFlags::POLLIN)];
    watched.extend(channel.map(|channel| PollFd::new(channel.as_fd(), PollFlags::POLLIN)));
    let _ = poll(&mut watched, timeout);
    while let Ok(Some(_)) = children.read_signal() {}
}

fn readable(channel: &StdStream) -> bool {
    let mut watched = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_what_was_said() {
        for report in [
            Report::Started,
            Report::NoProgram(libc::ENOENT),
            Report::NoNamespace(libc::EPERM),
            Report::Cpu(u64::MAX),
            Report::Exited(255),
            Report::Signaled(libc::SIGKILL),
        ] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
    }

    #[test]
    fn what_is_no_report_is_none() {
        assert_eq!(Report::decode([0; REPORT]), None);
        let mut large = Report::Exited(1).encode();
        large[REPORT - 1] = 1;
        assert_eq!(Report::decode(large), None, "a code of more than 32 bits");
    }
}
