//! An interpreter that waits for its program.
//!
//! It is only a head start. Whatever is wrong with it, the run starts an interpreter of its own; nothing here may delay
//! or fail a run, and no waiting interpreter may live beside a run or outlive one.
//!
//! # Theory of operation
//! The process is started as a program's would be, with two descriptors more: [`CHANNEL`] a socket to the guest, and
//! the number after it a pipe that may become standard input. A hook of the image stops it early, loads what programs
//! are likely to need, writes one byte to the socket and reads it to its end. What it reads are fields, each ended by
//! a NUL: `1` if the pipe is to become standard input, else `0`; the number of the program's arguments, and these; and
//! the whole environment, a variable a field. Then the hook takes every trace of itself away and returns, and the
//! interpreter opens its program, which has been written meanwhile.
//!
//! At most one waits. A run takes it, or has it ended before it starts its own. The image is hostile: what the process
//! says or does is no more than any program's.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use belljar_wire::message::{GuestError, Handover, RunSpec, StdinKind, WarmSpec};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::reap::{Reaper, cpu_of};
use crate::spawn::{Inherited, Plan, Spawned, spawn};
use crate::stub::Parent;

/// How long a waiting interpreter has to take in what it is told. It does nothing but read; stops one that does not
/// from holding up its run, which then starts an interpreter of its own.
const HANDOVER_DEADLINE: Duration = Duration::from_secs(1);
/// What the hook says once it waits.
const READY: u8 = b'r';
/// Most that is thrown away of what was printed before the program began, a pipe: more than a pipe holds.
const MAX_CHATTER: usize = 4 * 1024 * 1024;

/// The interpreter that waits, if one does.
#[derive(Debug, Default)]
pub(crate) struct Prefork {
    parent: Parent,
    slot: RefCell<Slot>,
    /// Whether processes may be there that no run has started.
    dirty: Cell<bool>,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    /// On its way; the token ends it.
    Warming(CancellationToken),
    Waiting(Box<Waiting>),
}

/// A process that waits for its program.
#[derive(Debug)]
struct Waiting {
    spawned: Spawned,
    channel: UnixStream,
    stdin: pipe::Sender,
}

/// A program that runs in a process that waited.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) spawned: Spawned,
    /// Processor time that was not its own, in microseconds.
    pub(crate) cpu_before_us: u64,
}

impl Prefork {
    /// Of an interpreter that is a child of `parent`.
    pub(crate) fn new(parent: Parent) -> Self {
        Self {
            parent,
            ..Self::default()
        }
    }

    /// Starts a process and returns whether it waits. `dropped` resolves once nobody wants it any more.
    pub(crate) async fn warm(&self, spec: &WarmSpec, dropped: impl Future<Output = ()>) -> bool {
        if !matches!(&*self.slot.borrow(), Slot::Empty) {
            return false;
        }
        let ended = CancellationToken::new();
        *self.slot.borrow_mut() = Slot::Warming(ended.clone());
        let starting = async {
            let (mut waiting, pid) = self.start(spec)?;
            let ready = tokio::select! {
                biased;
                () = ended.cancelled() => false,
                () = dropped => false,
                word = waiting.channel.read_u8() => word.is_ok_and(|word| word == READY),
            };
            if ready {
                return Some(waiting);
            }
            if !ended.is_cancelled() {
                end(pid);
            }
            None
        };
        let waiting = starting.await;
        if ended.is_cancelled() {
            // A run has begun: the slot is no longer ours.
            return false;
        }
        let (slot, ready) = match waiting {
            Some(waiting) => (Slot::Waiting(Box::new(waiting)), true),
            None => (Slot::Empty, false),
        };
        *self.slot.borrow_mut() = slot;
        ready
    }

    fn start(&self, spec: &WarmSpec) -> Option<(Waiting, i32)> {
        let (ours, theirs) = StdStream::pair().ok()?;
        ours.set_nonblocking(true).ok()?;
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).ok()?;
        self.dirty.set(true);
        let plan = Plan {
            argv: &spec.argv,
            env: &spec.env,
            cwd: &spec.cwd,
            stdin: StdinKind::Null,
            nproc: spec.nproc,
            inherited: Inherited::Two(theirs.as_fd(), read.as_fd()),
        };
        let spawned = spawn(&plan, self.parent).ok()?;
        let pid = spawned.pid;
        let waiting = Waiting {
            spawned,
            channel: UnixStream::from_std(ours).ok()?,
            stdin: pipe::Sender::from_owned_fd(write).ok()?,
        };
        Some((waiting, pid))
    }

    /// Gives the program to the process that waits, which is from then on the run's main process for the reaper.
    /// Otherwise ends whatever waits or is on its way to, so that nothing but the guest is left.
    pub(crate) async fn take(&self, spec: &RunSpec, reaper: &Reaper) -> Option<Taken> {
        let slot = std::mem::take(&mut *self.slot.borrow_mut());
        let taken = match (slot, &spec.warm) {
            (Slot::Waiting(waiting), Some(handover)) => {
                hand_over(*waiting, spec, handover, reaper).await.ok()
            }
            (Slot::Warming(ended), _) => {
                ended.cancel();
                None
            }
            (Slot::Waiting(_), None) | (Slot::Empty, _) => None,
        };
        if self.dirty.replace(false) && taken.is_none() {
            reaper.kill_all().await;
        }
        taken
    }
}

async fn hand_over(
    waiting: Waiting,
    spec: &RunSpec,
    handover: &Handover,
    reaper: &Reaper,
) -> io::Result<Taken> {
    let Waiting {
        mut spawned,
        mut channel,
        stdin,
    } = waiting;
    let message = message(spec, handover).map_err(|_| io::ErrorKind::InvalidInput)?;
    discard(&spawned.stdout)?;
    discard(&spawned.stderr)?;
    let cpu_before_us = match &spawned.stub {
        None => cpu_of(spawned.pid),
        Some(stub) => stub.cpu().await,
    };
    // Still there, if only to be reaped: then its end will be seen. Nothing is reaped between this and `begin`.
    kill(Pid::from_raw(spawned.pid), None)?;
    reaper.begin(spawned.pid, spawned.stub.clone());
    let telling = async {
        channel.write_all(&message).await?;
        channel.shutdown().await
    };
    timeout(HANDOVER_DEADLINE, telling)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)??;
    spawned.stdin = match spec.stdin {
        StdinKind::Null => None,
        StdinKind::Stream => Some(stdin),
    };
    Ok(Taken {
        spawned,
        cpu_before_us,
    })
}

/// What the process is told. A NUL would end a field in its middle.
fn message(spec: &RunSpec, handover: &Handover) -> Result<Vec<u8>, GuestError> {
    let stdin = match spec.stdin {
        StdinKind::Null => "0",
        StdinKind::Stream => "1",
    };
    let mut message = Vec::new();
    let mut field = |parts: &[&str]| {
        for part in parts {
            if part.contains('\0') {
                return Err(GuestError::Malformed);
            }
            message.extend_from_slice(part.as_bytes());
        }
        message.push(0);
        Ok(())
    };
    field(&[stdin])?;
    field(&[&handover.args.len().to_string()])?;
    for argument in &handover.args {
        field(&[argument])?;
    }
    for (name, value) in &spec.env {
        field(&[name, "=", value])?;
    }
    Ok(message)
}

/// Throws away what is in a pipe: it was printed before the program began.
fn discard(pipe: &pipe::Receiver) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut seen = 0;
    while seen < MAX_CHATTER {
        match nix::unistd::read(pipe.as_fd(), &mut buffer) {
            Ok(0) | Err(Errno::EAGAIN) => return Ok(()),
            Ok(count) => seen += count,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Ends a process that never was a run's, and its group. Whatever else it started ends before the next run starts.
fn end(pid: i32) {
    let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use belljar_wire::message::{Collect, RunId};

    use super::*;

    fn spec(env: &[(&str, &str)], stdin: StdinKind) -> RunSpec {
        RunSpec {
            id: RunId(1),
            argv: Vec::new(),
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            cwd: "/".to_owned(),
            program: None,
            files: Vec::new(),
            stdin,
            timeout_ms: 1,
            nproc: None,
            collect: Collect {
                skip_dirs: Vec::new(),
                max_files: 0,
            },
            warm: None,
        }
    }

    fn handover(args: &[&str]) -> Handover {
        Handover {
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_told_is_fields_that_end_with_a_nul() {
        let spec = spec(&[("A", "1"), ("B", "x=y\n")], StdinKind::Stream);
        assert_eq!(
            message(&spec, &handover(&["", "a b"])).unwrap(),
            b"1\x002\0\0a b\0A=1\0B=x=y\n\0"
        );
    }

    #[test]
    fn a_nul_inside_a_field_is_refused() {
        let plain = spec(&[], StdinKind::Null);
        assert_eq!(message(&plain, &handover(&[])).unwrap(), b"0\x000\0");
        assert!(message(&plain, &handover(&["a\0b"])).is_err());
        let env = spec(&[("A", "a\0B=2")], StdinKind::Null);
        assert!(message(&env, &handover(&[])).is_err());
    }
}
