//! One run: its inputs, the program, its output, its end, and the files that it left.
//!
//! When the server hears that a run has ended, every process of it is dead, its own file is gone and
//! the next run may begin.

use std::cell::RefCell;
use std::future::pending;
use std::time::{Duration, Instant};

use belljar_wire::frame::{FrameError, FrameReader, Kind};
use belljar_wire::message::{
    Collect, EndedBy, EntryKind, Exit, ExitStatus, FromRun, FromWarm, GuestError, Hidden, RunId,
    RunSpec, ToRun, WarmSpec,
};
use belljar_wire::mux;
use futures_util::io::ReadHalf;
use nix::time::{ClockId, clock_gettime};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::files::{Files, MAX_REMEMBERED, changed};
use crate::oom;
use crate::prefork::{Prefork, Taken};
use crate::pump::{Writer, pump};
use crate::reap::Reaper;
use crate::spawn::{Plan, Spawned, spawn};
use crate::stub::Parent;
use crate::walk::{Filter, Walk};

/// The guest's half of a stream.
pub(crate) type Reader = FrameReader<ReadHalf<mux::Stream>>;

/// Runs programs, one at a time.
#[derive(Debug)]
pub(crate) struct Runner {
    parent: Parent,
    current: RefCell<Option<Current>>,
    pub(crate) reaper: Reaper,
    prefork: Prefork,
}

#[derive(Debug)]
struct Current {
    id: RunId,
    kill: CancellationToken,
}

/// How the main process ended.
#[derive(Clone, Copy, Debug)]
struct End {
    status: ExitStatus,
    ended_by: EndedBy,
    wall: Duration,
}

impl Runner {
    /// Of programs that are children of `parent`.
    pub(crate) fn new(parent: Parent) -> Self {
        Self {
            parent,
            current: RefCell::default(),
            reaper: Reaper::new(parent),
            prefork: Prefork::new(parent),
        }
    }

    /// Kills the run of this number, if it is going on.
    pub(crate) fn kill(&self, id: RunId) {
        if let Some(current) = &*self.current.borrow()
            && current.id == id
        {
            current.kill.cancel();
        }
    }

    /// Serves a request to have an interpreter wait.
    pub(crate) async fn warm(
        &self,
        spec: &WarmSpec,
        mut reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        let busy = self.current.borrow().is_some();
        let dropped = async {
            // Nothing follows the request, so that whatever comes is its end.
            let _ = reader.next().await;
        };
        let answer = if !busy && self.prefork.warm(spec, dropped).await {
            FromWarm::Ready
        } else {
            FromWarm::Failed
        };
        writer.send(&answer).await?;
        writer.close().await
    }

    /// Serves a request to run a program.
    pub(crate) async fn run(
        &self,
        files: &Files,
        spec: RunSpec,
        reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        if self.current.borrow().is_some() {
            writer.send(&FromRun::Failed(GuestError::Busy)).await?;
            return writer.close().await;
        }
        let kill = CancellationToken::new();
        *self.current.borrow_mut() = Some(Current {
            id: spec.id,
            kill: kill.clone(),
        });
        let result = self
            .run_program(files, &spec, reader, &mut writer, &kill)
            .await;
        if let Some(program) = &spec.program {
            files.remove(&program.path);
        }
        // Before the last word, so that a request which follows it at once is not refused.
        *self.current.borrow_mut() = None;
        match result? {
            Ok(exit) => writer.send(&FromRun::Exited(exit)).await?,
            Err(error) => writer.send(&FromRun::Failed(error)).await?,
        }
        writer.close().await
    }

    async fn run_program(
        &self,
        files: &Files,
        spec: &RunSpec,
        reader: Reader,
        writer: &mut Writer,
        kill: &CancellationToken,
    ) -> Result<Result<Exit, GuestError>, FrameError> {
        for file in spec.files.iter().chain(&spec.program) {
            if let Err(error) = files.write(&file.path, &file.bytes) {
                return Ok(Err(error));
            }
        }
        let oom_before = oom::kills();
        let begun = now();
        let mut started = Instant::now();
        let taken = self.prefork.take(spec, &self.reaper).await;
        let warm = taken.is_some();
        let (spawned, cpu_before_us) = if let Some(taken) = taken {
            let Taken {
                spawned,
                cpu_before_us,
            } = taken;
            (spawned, cpu_before_us)
        } else {
            started = Instant::now();
            match spawn(&Plan::of(spec), self.parent) {
                Ok(spawned) => {
                    self.reaper.begin(spawned.pid, spawned.stub.clone());
                    (spawned, 0)
                }
                Err(error) => {
                    self.reaper.kill_all().await;
                    return Ok(Err(error));
                }
            }
        };
        let Spawned {
            pid: _,
            stub: _,
            stdin,
            stdout,
            stderr,
        } = spawned;
        let dead = CancellationToken::new();
        let supervise = async {
            let end = self
                .wait(started, Duration::from_millis(spec.timeout_ms), kill)
                .await;
            self.reaper.kill_all().await;
            dead.cancel();
            // The status of a main process that had to be killed is known only now.
            End {
                status: self.reaper.main_ended().await,
                ..end
            }
        };
        let carry = async {
            let carried = async {
                writer.send(&FromRun::Started { warm }).await?;
                pump(&stdout, &stderr, writer, &dead).await
            };
            let carried = carried.await;
            if carried.is_err() {
                kill.cancel();
            }
            carried
        };
        let (end, carried) = tokio::select! {
            both = async { tokio::join!(supervise, carry) } => both,
            never = feed(reader, stdin, kill) => match never {},
        };
        carried?;
        let oom_kills = oom::kills().saturating_sub(oom_before);
        let files_omitted = collect(files, &spec.collect, begun, writer).await?;
        let usage = self.reaper.usage();
        Ok(Ok(Exit {
            status: end.status,
            ended_by: end.ended_by,
            oom_kills,
            cpu_us: usage.cpu_us.saturating_sub(cpu_before_us),
            peak_rss_bytes: usage.peak_rss_bytes,
            wall_us: u64::try_from(end.wall.as_micros()).unwrap_or(u64::MAX),
            files_omitted,
        }))
    }

    /// Waits for whatever ends the run first. The status is a placeholder unless the program ended
    /// itself.
    async fn wait(&self, started: Instant, timeout: Duration, kill: &CancellationToken) -> End {
        let left = timeout.saturating_sub(started.elapsed());
        let (status, ended_by) = tokio::select! {
            biased;
            status = self.reaper.main_ended() => (status, EndedBy::Itself),
            () = kill.cancelled() => (ExitStatus::Signal(libc::SIGKILL), EndedBy::Killed),
            () = tokio::time::sleep(left) => (ExitStatus::Signal(libc::SIGKILL), EndedBy::Deadline),
        };
        End {
            status,
            ended_by,
            wall: started.elapsed(),
        }
    }
}

/// Carries standard input to the program, and kills the run when the server has dropped it.
async fn feed(
    mut reader: Reader,
    mut stdin: Option<pipe::Sender>,
    kill: &CancellationToken,
) -> std::convert::Infallible {
    while let Ok(Some(frame)) = reader.next().await {
        match frame.kind {
            Kind::Data => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(&frame.payload).await.is_err()
                {
                    // The program reads no more; the rest is for nobody.
                    stdin = None;
                }
            }
            Kind::Control => match frame.message() {
                Ok(ToRun::StdinEnd) => stdin = None,
                Err(_) => break,
            },
            Kind::Stdout | Kind::Stderr => break,
        }
    }
    kill.cancel();
    pending().await
}

/// Reports the regular files that are new or changed since `begun`, and counts the rest.
async fn collect(
    files: &Files,
    collect: &Collect,
    begun: (i64, i64),
    writer: &mut Writer,
) -> Result<u64, FrameError> {
    Files::reclaim();
    let filter = Filter {
        hidden: Hidden::Skip,
        skip_dirs: collect.skip_dirs.clone(),
    };
    let walk = files
        .root()
        .directory(b"")
        .and_then(|root| Walk::new(root, b"", filter));
    let Ok(mut walk) = walk else { return Ok(0) };
    let mut left = collect.max_files;
    let mut omitted = 0_u64;
    // Remembered after the walk, so that a file of two names is reported under both.
    let mut reported = Vec::new();
    while let Some(found) = walk.next().await {
        let is_new = found.entry.kind == EntryKind::File
            && changed(&found.stat) >= begun
            && !files.is_known(&found.stat);
        if !is_new {
            continue;
        }
        if reported.len() < MAX_REMEMBERED {
            reported.push(found.stat);
        }
        if left == 0 {
            omitted = omitted.saturating_add(1);
            continue;
        }
        left -= 1;
        writer.send(&FromRun::NewFile(found.entry)).await?;
    }
    // The kernel's clock for files ticks every few milliseconds: without this, what one run left in its last
    // tick would be new again in a run that follows at once.
    for stat in &reported {
        files.remember(stat);
    }
    Ok(omitted.saturating_add(walk.omitted()))
}

/// The time that the file system stamps changes with: the kernel's coarse clock, which lags behind
/// the precise one, so that a file made right now would else seem older than the run.
#[expect(
    clippy::useless_conversion,
    reason = "the field's type differs between architectures"
)]
fn now() -> (i64, i64) {
    clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map_or((0, 0), |time| {
        (i64::from(time.tv_sec()), i64::from(time.tv_nsec()))
    })
}
