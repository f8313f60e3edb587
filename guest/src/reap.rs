//! Reaping, and killing everything that is left.
//!
//! PID 1 inherits every orphan of its namespace. One run at a time is what makes "everything" mean
//! "everything of this run".

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use belljar_wire::message::ExitStatus;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::stub::{Parent, Stub};

/// Pause between two rounds of killing. A process that is being created while a round goes over the
/// process table is found by the next one.
const KILL_PAUSE: Duration = Duration::from_millis(1);

/// How long a stub may take to end everything by itself, so that what was used is counted. Then it is killed, which
/// ends everything too: a fraction of what the server grants a run beyond its deadline.
const STUB_PATIENCE: Duration = Duration::from_millis(300);

/// What has been reaped since a run began.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    parent: Parent,
    tally: RefCell<Tally>,
    changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    /// The program, or its stub.
    main: Option<i32>,
    stub: Option<Rc<Stub>>,
    status: Option<ExitStatus>,
    cpu_us: u64,
    peak_rss_bytes: u64,
}

/// What a run used, as far as its processes told the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// User and system time in microseconds.
    pub(crate) cpu_us: u64,
    /// Largest resident set of one process, in bytes.
    pub(crate) peak_rss_bytes: u64,
}

/// What one look at the children found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Children {
    Alive,
    None,
}

impl Reaper {
    /// Of processes that are children of `parent`.
    pub(crate) fn new(parent: Parent) -> Self {
        Self {
            parent,
            ..Self::default()
        }
    }

    /// Begins a run whose main process, or the stub before it, has just been started. Nothing may be reaped in between.
    pub(crate) fn begin(&self, main: i32, stub: Option<Rc<Stub>>) {
        *self.tally.borrow_mut() = Tally {
            main: Some(main),
            stub,
            ..Tally::default()
        };
    }

    /// Waits for the main process's end.
    pub(crate) async fn main_ended(&self) -> ExitStatus {
        loop {
            let changed = self.changed.notified();
            if let Some(status) = self.tally.borrow().status {
                return status;
            }
            changed.await;
        }
    }

    /// What the run has used until now.
    pub(crate) fn usage(&self) -> Usage {
        let tally = self.tally.borrow();
        Usage {
            cpu_us: tally.cpu_us,
            peak_rss_bytes: tally.peak_rss_bytes,
        }
    }

    /// Reaps until the guest ends.
    pub(crate) async fn work(&self) {
        let Ok(mut children) = signal(SignalKind::child()) else {
            return;
        };
        loop {
            self.reap();
            if child_ended(&mut children).await.is_none() {
                return;
            }
        }
    }

    /// Kills every other process of the namespace and returns when none is left.
    pub(crate) async fn kill_all(&self) {
        self.end_stub().await;
        loop {
            // -1: every process but this one. The guest runs only as PID 1, so this namespace, those below it and no
            // other are meant.
            let killed = kill(Pid::from_raw(-1), Signal::SIGKILL);
            let children = self.reap();
            let gone = match self.parent {
                Parent::Guest => true,
                // What was behind a stub that has died is not a child of the guest's, and may be dying still.
                Parent::Stub => killed == Err(Errno::ESRCH),
            };
            if children == Children::None && gone {
                return;
            }
            tokio::time::sleep(KILL_PAUSE).await;
        }
    }

    /// Has the run's stub, if it lives, end everything behind it.
    async fn end_stub(&self) {
        let stub = {
            let tally = self.tally.borrow();
            tally.stub.clone().filter(|_| tally.main.is_some())
        };
        if let Some(stub) = stub {
            stub.end();
            let _ = timeout(STUB_PATIENCE, self.main_ended()).await;
        }
    }

    fn reap(&self) -> Children {
        let changes = match self.parent {
            Parent::Guest => Changes::Ends,
            Parent::Stub => Changes::EndsAndStops,
        };
        loop {
            match wait4(changes) {
                Wait::Ended(ended) => self.count(&ended),
                // A stub that its program has stopped: it would not see the program's end.
                Wait::Stopped(pid) => {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
                }
                Wait::Alive => return Children::Alive,
                Wait::None => return Children::None,
            }
        }
    }

    fn count(&self, ended: &Ended) {
        let mut tally = self.tally.borrow_mut();
        tally.cpu_us = tally.cpu_us.saturating_add(ended.cpu_us);
        tally.peak_rss_bytes = tally.peak_rss_bytes.max(ended.peak_rss_bytes);
        if tally.main == Some(ended.pid) {
            let reported = tally.stub.take().and_then(|stub| stub.status());
            tally.main = None;
            tally.status = Some(reported.unwrap_or(ended.status));
            self.changed.notify_waiters();
        }
    }
}

/// User and system time that a process has used, in microseconds, without its children; 0 where it cannot be told.
pub(crate) fn cpu_of(pid: i32) -> u64 {
    let time =
        nix::time::clock_getcpuclockid(Pid::from_raw(pid)).and_then(nix::time::clock_gettime);
    time.map_or(0, |time| {
        u64::try_from(std::time::Duration::from(time).as_micros()).unwrap_or(u64::MAX)
    })
}

async fn child_ended(children: &mut SignalStream) -> Option<()> {
    children.recv().await
}

/// A child that has been reaped.
pub(crate) struct Ended {
    pub(crate) pid: i32,
    pub(crate) status: ExitStatus,
    cpu_us: u64,
    peak_rss_bytes: u64,
}

/// What to hear of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Ends,
    EndsAndStops,
}

/// What a child did.
pub(crate) enum Wait {
    Ended(Ended),
    /// A signal stopped this one.
    Stopped(i32),
    /// None of them anything.
    Alive,
    /// There are none.
    None,
}

/// `waitpid` that also tells what the child used: `nix` has no such call. Does not wait.
pub(crate) fn wait4(changes: Changes) -> Wait {
    let options = match changes {
        Changes::Ends => libc::WNOHANG,
        Changes::EndsAndStops => libc::WNOHANG | libc::WUNTRACED,
    };
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`, which holds integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals of the types that the call fills in.
    let pid = unsafe { libc::wait4(-1, &raw mut status, options, &raw mut usage) };
    match pid {
        0 => Wait::Alive,
        pid if pid > 0 && libc::WIFSTOPPED(status) => Wait::Stopped(pid),
        pid if pid > 0 => Wait::Ended(Ended {
            pid,
            status: decode(status),
            cpu_us: micros(usage.ru_utime).saturating_add(micros(usage.ru_stime)),
            peak_rss_bytes: u64::try_from(usage.ru_maxrss)
                .unwrap_or(0)
                .saturating_mul(1024),
        }),
        _ if Errno::last() == Errno::EINTR => Wait::Alive,
        _ => Wait::None,
    }
}

fn decode(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus::Signal(libc::WTERMSIG(status))
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    }
}

fn micros(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
}
