//! Runs one program in one sandbox to its end, whatever that is.
//!
//! Output is taken at wire speed and never waits for anybody else. The wall clock is kept twice: the guest ends the
//! program at its deadline, and this side kills the container shortly after if the guest has not said so.

use std::{collections::BTreeMap, path::Path, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::outcome::{Cause, DaemonOom, End};
use crate::{
    engine::{
        Sandbox,
        tether::{
            RunEvent, TetherError,
            message::{
                Collect, Entry, GuestError, Handover, InlineFile, RunId, RunSpec, StdinKind,
            },
        },
    },
    output::{Capture, Captured, Stream, Verdict},
    policy::{InstallPlan, RunPlan, Start, WORKSPACE},
    types::KIB,
};

/// How long the guest may take from the request to the start of the program. Stops a sandbox that accepts a
/// program and never starts it.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// How long after the request the guest is asked whether it answers at all, if it has not started the program. Stops a
/// container that was paused, or a daemon that hangs, from holding a caller for the whole of [`START_DEADLINE`].
const DOUBT: Duration = Duration::from_secs(2);
/// How much longer than the program's own time the guest has to report its end, with its last output and its
/// new files. Stops a guest that lets a program run on, or only says that it ended.
const OUTER_GRACE: Duration = Duration::from_secs(2);
/// How long the guest has to kill a program when it is told to. After that the container is killed.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// Files that one run may leave as artifacts.
pub(super) const MAX_ARTIFACTS: u32 = 64;
/// Folders of dependencies, which are never artifacts: a thousand of their files would crowd out the results.
const DEPENDENCY_FOLDERS: [&str; 3] = ["node_modules", "__pycache__", ".venv"];

/// What a run came to, before it is judged.
#[derive(Debug)]
pub(super) struct Account {
    /// Why belljar ended it, if it did.
    pub(super) cause: Option<Cause>,
    /// How the account ended.
    pub(super) end: End,
    /// What it printed.
    pub(super) captured: Captured,
    /// From the request to the guest's word that the program runs.
    pub(super) start: Duration,
    /// Wall time from the start of the program, measured here.
    pub(super) duration: Duration,
    /// New and changed files, as the guest says.
    pub(super) files: Vec<Entry>,
}

/// The program could not be started.
#[derive(Debug)]
pub(super) struct NotStarted(pub(super) GuestError);

/// A program on its way into a sandbox, and its bounds.
#[derive(Debug)]
pub(super) struct Job {
    spec: RunSpec,
    stdin: Option<Bytes>,
    timeout: Duration,
    output_kib: u32,
}

impl Job {
    /// A caller's program with `inline` inputs, and `egress` in its environment.
    pub(super) fn program(
        sandbox: &Sandbox,
        plan: &RunPlan,
        inline: Vec<InlineFile>,
        egress: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            spec: spec(sandbox, plan, inline, egress),
            stdin: plan.stdin.clone().map(Bytes::from),
            timeout: plan.timeout.duration(),
            output_kib: plan.output_kib,
        }
    }

    /// The installer of an image, which finds the gateway at `index`. What it leaves is nobody's artifact.
    pub(super) fn install(sandbox: &Sandbox, plan: &InstallPlan, index: &str) -> Self {
        let timeout = plan.timeout.duration();
        Self {
            spec: RunSpec {
                // Both are the tether's to fill in.
                id: RunId(0),
                stdin: StdinKind::Null,
                argv: plan.argv(index),
                env: plan.environment(sandbox.uid(), sandbox.image_path()),
                cwd: WORKSPACE.to_owned(),
                program: None,
                files: Vec::new(),
                timeout_ms: millis(timeout),
                nproc: None,
                collect: Collect {
                    skip_dirs: DEPENDENCY_FOLDERS.map(str::to_owned).to_vec(),
                    max_files: 0,
                },
                warm: None,
            },
            stdin: None,
            timeout,
            output_kib: plan.output_kib,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Runs a job to its end. Fires `killed` nowhere: whoever cancels does so through `cancelled`.
pub(super) async fn execute(
    sandbox: &Sandbox,
    job: Job,
    spool: &Path,
    cancelled: &CancellationToken,
) -> Result<Account, NotStarted> {
    let mut progress = Progress::new(job.output_kib, spool);
    match sandbox.run(job.spec, job.stdin).await {
        Ok(run) => {
            progress
                .follow(sandbox, run, job.timeout, cancelled)
                .await?;
        }
        Err(TetherError::Guest(error)) => return Err(NotStarted(error)),
        Err(error) => progress.lose(sandbox, &error).await,
    }
    Ok(progress.finish().await)
}

fn spec(
    sandbox: &Sandbox,
    plan: &RunPlan,
    inline: Vec<InlineFile>,
    egress: &BTreeMap<String, String>,
) -> RunSpec {
    RunSpec {
        // Both are the tether's to fill in.
        id: RunId(0),
        stdin: StdinKind::Null,
        argv: plan.argv.clone(),
        env: plan.environment(sandbox.uid(), sandbox.image_path(), egress),
        cwd: WORKSPACE.to_owned(),
        program: Some(InlineFile {
            path: plan.program.as_bytes().to_vec(),
            bytes: plan.code.clone().into_bytes(),
        }),
        files: inline,
        timeout_ms: millis(plan.timeout.duration()),
        nproc: None,
        collect: Collect {
            skip_dirs: DEPENDENCY_FOLDERS.map(str::to_owned).to_vec(),
            max_files: MAX_ARTIFACTS,
        },
        warm: match plan.start {
            Start::Warm => Some(Handover {
                args: plan.argv[plan.argv.len().saturating_sub(plan.args)..].to_vec(),
            }),
            Start::Cold => None,
        },
    }
}

/// A run under way.
struct Progress {
    capture: Capture,
    cause: Option<Cause>,
    end: Option<End>,
    asked: Instant,
    started: Option<Instant>,
    stopped: Option<Instant>,
    files: Vec<Entry>,
}

impl Progress {
    fn new(output_kib: u32, spool: &Path) -> Self {
        Self {
            capture: Capture::new(u64::from(output_kib) * KIB, spool),
            cause: None,
            end: None,
            asked: Instant::now(),
            started: None,
            stopped: None,
            files: Vec::new(),
        }
    }

    async fn follow(
        &mut self,
        sandbox: &Sandbox,
        mut run: crate::engine::tether::Run,
        timeout: Duration,
        cancelled: &CancellationToken,
    ) -> Result<(), NotStarted> {
        let mut deadline = Instant::now() + START_DEADLINE;
        let mut doubt = Instant::now() + DOUBT;
        loop {
            let stop = tokio::select! {
                event = run.next() => match event {
                    Ok(Some(event)) => match self.take(event).await {
                        Step::Continue => continue,
                        Step::Started => {
                            deadline = Instant::now() + timeout + OUTER_GRACE;
                            continue;
                        }
                        Step::TooMuch => Cause::OutputLimit,
                    },
                    Ok(None) => return Ok(()),
                    Err(TetherError::Guest(error)) if self.started.is_none() => return Err(NotStarted(error)),
                    Err(error) => {
                        self.lose(sandbox, &error).await;
                        return Ok(());
                    }
                },
                () = cancelled.cancelled(), if self.cause.is_none() => Cause::Cancelled,
                () = sleep_until(doubt), if self.started.is_none() => {
                    if sandbox.answers().await {
                        // It is only slow.
                        doubt = deadline;
                        continue;
                    }
                    self.give_up(sandbox).await;
                    return Ok(());
                }
                () = sleep_until(deadline) => {
                    self.give_up(sandbox).await;
                    return Ok(());
                }
            };
            self.cause = Some(stop);
            deadline = Instant::now() + KILL_GRACE;
            let killer = run.killer();
            // Not awaited here: output must still be taken while the guest kills.
            tokio::spawn(async move {
                if let Err(error) = killer.kill().await {
                    tracing::debug!(%error, "a sandbox could not be told to end its program");
                }
            });
        }
    }

    async fn take(&mut self, event: RunEvent) -> Step {
        let (stream, bytes) = match event {
            RunEvent::Started { warm } => {
                tracing::debug!(warm, "a program runs");
                self.started = Some(Instant::now());
                return Step::Started;
            }
            RunEvent::Stdout(bytes) => (Stream::Stdout, bytes),
            RunEvent::Stderr(bytes) => (Stream::Stderr, bytes),
            RunEvent::NewFile(entry) => {
                self.files.push(entry);
                return Step::Continue;
            }
            RunEvent::Exited(exit) => {
                self.stopped = Some(Instant::now());
                self.end = Some(End::Told(exit));
                return Step::Continue;
            }
        };
        match self.capture.push(stream, &bytes).await {
            Verdict::LimitReached if self.cause.is_none() => Step::TooMuch,
            Verdict::LimitReached | Verdict::Continue => Step::Continue,
        }
    }

    /// The guest did not do in time what it must: the container goes, whatever it is doing.
    async fn give_up(&mut self, sandbox: &Sandbox) {
        self.stopped.get_or_insert_with(Instant::now);
        if self.started.is_some() {
            self.cause.get_or_insert(Cause::Deadline);
        }
        if let Err(error) = sandbox.kill().await {
            tracing::warn!(%error, "a sandbox that does not end could not be killed yet");
        }
        self.end.get_or_insert(End::Lost {
            oom: DaemonOom::NotSeen,
        });
    }

    async fn lose(&mut self, sandbox: &Sandbox, error: &TetherError) {
        self.stopped.get_or_insert_with(Instant::now);
        tracing::warn!(%error, "a sandbox was lost");
        // A violation leaves it running: it must not stay so while the verdict is waited for.
        let violated = matches!(error, TetherError::Violation(_));
        if !violated && self.end.is_some() {
            // It had told everything before.
            return;
        }
        if violated && let Err(error) = sandbox.kill().await {
            tracing::warn!(%error, "a sandbox that broke the protocol could not be killed yet");
        }
        let oom = if !violated && self.cause.is_none() && sandbox.oom_killed_by_daemon().await {
            DaemonOom::Seen
        } else {
            DaemonOom::NotSeen
        };
        self.end = Some(End::Lost { oom });
    }

    async fn finish(self) -> Account {
        let duration = match (self.started, self.stopped) {
            (Some(started), Some(stopped)) => stopped.duration_since(started),
            _ => Duration::ZERO,
        };
        Account {
            cause: self.cause,
            end: self.end.unwrap_or(End::Lost {
                oom: DaemonOom::NotSeen,
            }),
            captured: self.capture.finish().await,
            start: self
                .started
                .map_or(Duration::ZERO, |started| started.duration_since(self.asked)),
            duration,
            files: self.files,
        }
    }
}

/// What an event asks for.
enum Step {
    Continue,
    Started,
    TooMuch,
}
