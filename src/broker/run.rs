//! A run, from the question to the record: decide, lease, put the inputs in, run, collect, record.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{
    Broker, Refusal,
    collect::{self, Collected},
    execute::{self, Account, Job, NotStarted},
    install::{Installation, Installed},
    outcome::{self, Cause, End},
    outlet::{Clerk, Credentials, Outlet},
    record::{Draft, Keep, keep_output},
    report::{InstallReport, RunReport, SandboxReport, StreamReport},
    stages::{Stages, Stopwatch},
};
use crate::{
    artifact::Entry,
    audit::StreamRecord,
    egress,
    engine::{
        Sandbox,
        tether::message::{Exit, InlineFile},
    },
    output::{self, CapturedStream, SHOWN_BYTES},
    policy::{Content, RunAsk, RunPlan},
    pool::Taken,
    types::{Caller, Limits, RunId, SandboxId, Sha256, WorkspacePath},
};

/// Bytes of inputs that travel with the request itself; larger ones are written before it, in bounded memory.
const INLINE_BYTES: usize = 1024 * 1024;

/// How long a used sandbox lies before its removal is begun. Nothing runs in it any more, and the daemon would take the
/// processor from the answer that is about to leave.
const ANSWER_FIRST: Duration = Duration::from_millis(20);

/// Inputs on their way into a sandbox.
#[derive(Debug, Default)]
struct Inputs {
    inline: Vec<InlineFile>,
    large: Vec<(WorkspacePath, Large)>,
}

#[derive(Debug)]
enum Large {
    Bytes(Bytes),
    Kept(Entry),
}

/// Whose run it is, what it is called, and what it does.
#[derive(Clone, Copy)]
struct Order<'a> {
    caller: &'a Caller,
    run_id: &'a RunId,
    plan: &'a RunPlan,
}

/// What a program needs when it starts.
struct Needs {
    inputs: Inputs,
    /// For its way out, where it has one.
    credentials: Option<Credentials>,
    /// For what is put in before it.
    installation: Option<Installation>,
}

/// What a program came to, or the installer before it.
struct Played {
    account: Account,
    egress: egress::Report,
    packages: Option<InstallReport>,
}

/// Where a run takes place, for its report.
struct Scene {
    image: String,
    network: String,
    session: Option<SandboxId>,
    fresh: bool,
    limits: Limits,
    /// What was reached and denied.
    egress: egress::Report,
    /// What became of the packages that were asked for.
    packages: Option<InstallReport>,
    /// Where the time went so far.
    stages: Stages,
}

impl Stages {
    /// Takes apart what lies between a sandbox and the end of a program in it.
    fn played(&mut self, whole: Duration, played: &Played) {
        let account = &played.account;
        let told = match account.end {
            End::Told(exit) => Duration::from_micros(exit.wall_us),
            End::Lost { .. } => account.duration,
        };
        self.install = played
            .packages
            .as_ref()
            .map_or(Duration::ZERO, |packages| packages.duration);
        if played.packages.as_ref().is_some_and(|it| !it.complete) {
            // There was no program.
            self.send = whole.saturating_sub(self.install);
            return;
        }
        let whole = whole.saturating_sub(self.install);
        self.start = account.start;
        self.run = told.min(account.duration);
        self.drain = account.duration.saturating_sub(self.run);
        self.send = whole.saturating_sub(account.start + account.duration);
    }
}

impl Broker {
    /// Runs a program for `caller`: in a sandbox of its own, or in the caller's session.
    pub async fn run(
        &self,
        caller: &Caller,
        session: Option<&str>,
        ask: RunAsk,
        cancelled: &CancellationToken,
    ) -> Result<RunReport, Refusal> {
        // The server's stop waits for runs to end, so that each is answered and recorded.
        let _running = self.tasks.token();
        let mut watch = Stopwatch::start();
        let mut draft = self.recorder.run(caller, &ask);
        let result = match session {
            None => {
                self.run_fresh(caller, ask, cancelled, &mut draft, &mut watch)
                    .await
            }
            Some(session) => {
                self.run_in_session(caller, session, ask, cancelled, &mut draft, &mut watch)
                    .await
            }
        };
        let mut report = self.recorder.record(draft, result)?;
        report.stages.reply = watch.lap();
        tracing::debug!(run = %report.run_id, stages = ?report.stages, "a run is over");
        Ok(report)
    }

    async fn run_fresh(
        &self,
        caller: &Caller,
        ask: RunAsk,
        cancelled: &CancellationToken,
        draft: &mut Draft,
        watch: &mut Stopwatch,
    ) -> Result<RunReport, Refusal> {
        let mut stages = Stages::default();
        let (launch, plan) = self.policy.fresh_run(caller, ask)?;
        let (launched, plan) = (launch.action(), plan.action());
        draft.bounds(&launched.limits, &plan.network);
        draft.plan(plan);
        let inputs = self.inputs(caller, plan, draft).await?;
        let credentials = self.credentials(&plan.network, cancelled).await?;
        let installation = self.installation(plan.packages.as_ref()).await?;
        let place = self.gate.enter(cancelled).await?;
        stages.queue = watch.lap();
        let Taken { sandbox, origin } = self.take(&launch, cancelled).await?;
        tracing::debug!(sandbox = %sandbox.id(), origin = origin.as_str(), "a sandbox for a run");
        stages.lease = watch.lap();
        draft.sandbox(sandbox.image_id(), sandbox.runtime());
        let run_id = &RunId::of_sandbox(sandbox.id());
        draft.run(run_id);
        let order = Order {
            caller,
            run_id,
            plan,
        };
        let needs = Needs {
            inputs,
            credentials,
            installation,
        };
        let played = self.play(&sandbox, order, needs, cancelled, draft).await?;
        stages.played(watch.lap(), &played);
        let Played {
            account,
            egress,
            packages,
        } = played;
        let collected = match (account.cause, account.end) {
            // Nobody will read what a cancelled call left.
            (Some(Cause::Cancelled), _) => Collected::default(),
            (_, End::Told(_)) => {
                collect::copies(&sandbox, &self.store, caller, run_id, &account.files).await
            }
            (_, End::Lost { .. }) => Collected {
                omitted: account.files.len() as u64,
                ..Collected::default()
            },
        };
        stages.collect = watch.lap();
        let scene = Scene {
            stages,
            egress,
            packages,
            image: launched.image.clone(),
            network: plan.network.name().to_owned(),
            session: None,
            fresh: true,
            limits: launched.limits,
        };
        let report = self
            .report(&sandbox, order, &scene, account, collected, draft)
            .await;
        // In the background: nobody should wait for the daemon to clean up. The place is free once it is gone.
        self.tasks.spawn(async move {
            tokio::time::sleep(ANSWER_FIRST).await;
            if let Err(error) = sandbox.destroy().await {
                tracing::warn!(%error, "a sandbox could not be destroyed yet");
            }
            drop(place);
        });
        Ok(report)
    }

    async fn run_in_session(
        &self,
        caller: &Caller,
        session: &str,
        ask: RunAsk,
        cancelled: &CancellationToken,
        draft: &mut Draft,
        watch: &mut Stopwatch,
    ) -> Result<RunReport, Refusal> {
        let mut stages = Stages::default();
        // Decided before the session's turn is waited for: what is not allowed is refused at once.
        let terms = self.sessions.terms(caller, session)?;
        let plan = self.policy.session_run(caller, &terms, ask)?;
        let plan = plan.action();
        let limits = Limits {
            output_kib: plan.output_kib,
            ..terms.limits
        };
        draft.bounds(&limits, &terms.network);
        draft.plan(plan);
        let inputs = self.inputs(caller, plan, draft).await?;
        let run_id = &RunId::random();
        draft.run(run_id);
        let order = Order {
            caller,
            run_id,
            plan,
        };
        let installation = self.installation(plan.packages.as_ref()).await?;
        let lease = self.lease(caller, session, cancelled).await?;
        let credentials = self.credentials(&plan.network, cancelled).await?;
        stages.queue = watch.lap();
        draft.session(lease.id());
        draft.sandbox(lease.sandbox.image_id(), lease.sandbox.runtime());
        let fresh = lease.use_for_run();
        let stop = CancellationToken::new();
        let needs = Needs {
            inputs,
            credentials,
            installation,
        };
        let played = tokio::select! {
            played = self.play(&lease.sandbox, order, needs, &stop, draft) => played,
            () = async {
                tokio::select! {
                    () = cancelled.cancelled() => {}
                    () = lease.ending() => {}
                }
                stop.cancel();
                std::future::pending::<()>().await;
            } => return Err(Refusal::internal()),
        };
        let played = match played {
            Ok(played) => played,
            Err(refusal) => {
                // It may be the sandbox that is to blame.
                self.answered(lease, Ok(()))?;
                return Err(refusal);
            }
        };
        stages.played(watch.lap(), &played);
        let Played {
            account,
            egress,
            packages,
        } = played;
        let collected = match (account.cause, account.end) {
            (Some(Cause::Cancelled), _) => Collected::default(),
            (_, End::Told(_)) => {
                collect::names(&lease.sandbox, &self.store, caller, run_id, &account.files).await
            }
            (_, End::Lost { .. }) => Collected {
                omitted: account.files.len() as u64,
                ..Collected::default()
            },
        };
        let lost = match account.end {
            End::Told(_) => lease.sandbox.is_lost(),
            End::Lost { .. } => true,
        };
        stages.collect = watch.lap();
        let scene = Scene {
            stages,
            egress,
            packages,
            image: terms.image.tag.clone(),
            network: terms.network.name().to_owned(),
            session: Some(lease.id().clone()),
            fresh,
            limits,
        };
        let report = self
            .report(&lease.sandbox, order, &scene, account, collected, draft)
            .await;
        if lost && let Some(ended) = lease.lost() {
            self.bury(ended);
        }
        Ok(report)
    }

    /// Looks up the inputs before a sandbox is made for them.
    async fn inputs(
        &self,
        caller: &Caller,
        plan: &RunPlan,
        draft: &mut Draft,
    ) -> Result<Inputs, Refusal> {
        let mut inputs = Inputs::default();
        let mut room = INLINE_BYTES;
        for file in &plan.files {
            let bytes = match &file.content {
                Content::Inline(bytes) => Bytes::copy_from_slice(bytes),
                Content::Upload(id) => {
                    let kept = self
                        .store
                        .upload_get(caller, id)
                        .await
                        .map_err(Refusal::upload)?;
                    draft.input(&file.path, kept.sha256, kept.bytes);
                    if kept.bytes > room as u64 {
                        inputs.large.push((file.path.clone(), Large::Kept(kept)));
                        continue;
                    }
                    self.store.read(&kept, 0, kept.bytes).await?
                }
            };
            if let Content::Inline(_) = file.content {
                draft.input(&file.path, Sha256::of(&bytes), bytes.len() as u64);
            }
            if bytes.len() > room {
                inputs.large.push((file.path.clone(), Large::Bytes(bytes)));
            } else {
                room -= bytes.len();
                inputs.inline.push(InlineFile {
                    path: file.path.as_bytes().to_vec(),
                    bytes: bytes.to_vec(),
                });
            }
        }
        Ok(inputs)
    }

    /// Puts the packages and the inputs in, records that the program is about to run, and runs it. Where the packages
    /// cannot be put in there is no program: then the account is the installer's.
    async fn play(
        &self,
        sandbox: &Sandbox,
        order: Order<'_>,
        needs: Needs,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Played, Refusal> {
        let mut packages = None;
        let mut reached = egress::Report::default();
        if let Some(installation) = &needs.installation {
            let whose = (order.caller, order.run_id);
            let installed = self
                .install(sandbox, installation, whose, cancelled, draft)
                .await?;
            let report = InstallReport::of(&installed);
            let Installed { account, egress } = installed;
            if !report.complete {
                draft.egress(&egress);
                return Ok(Played {
                    account,
                    egress,
                    packages: Some(report),
                });
            }
            reached = egress;
            packages = Some(report);
        }
        let inputs = needs.inputs;
        for (path, large) in inputs.large {
            tokio::select! {
                written = self.put(sandbox, &path, large) => written?,
                () = cancelled.cancelled() => return Err(Refusal::cancelled()),
                () = self.stopping.cancelled() => return Err(Refusal::closing()),
            }
        }
        self.recorder.begin(draft)?;
        let (mut outlet, variables) = match needs.credentials {
            None => (None, BTreeMap::new()),
            Some(credentials) => {
                let plan = order.plan;
                let recorder = Arc::clone(&self.recorder);
                let network = plan.network.name();
                let clerk = Clerk::new(recorder, order.caller, order.run_id, network);
                let (outlet, variables) =
                    Outlet::open(sandbox, credentials, &plan.egress_env, Arc::new(clerk)).await?;
                (Some(outlet), variables)
            }
        };
        let stop = cancelled.child_token();
        let job = Job::program(sandbox, order.plan, inputs.inline, &variables);
        let run = execute::execute(sandbox, job, self.store.spool_dir(), &stop);
        let stopping = async {
            self.stopping.cancelled().await;
            stop.cancel();
            std::future::pending::<()>().await;
        };
        // The disk is written while the program runs. If it cannot be, the program is dropped, which ends it.
        let kept = self
            .recorder
            .keep_program(order.caller, order.run_id, order.plan);
        // Boxed, since it would otherwise be the bulk of every call that waits.
        let run = Box::pin(async { run.await.map_err(|NotStarted(error)| error.into()) });
        let both = async { tokio::try_join!(kept, run) };
        let serving = async {
            match &mut outlet {
                Some(outlet) => outlet.serve().await,
                None => std::future::pending().await,
            }
        };
        let account = tokio::select! {
            both = both => both.map(|((), account)| account),
            () = stopping => Err(Refusal::closing()),
            never = serving => match never {},
        }?;
        let open = outlet.is_some() || packages.is_some();
        let egress = match outlet {
            None => reached,
            Some(outlet) => reached.and(outlet.close().await),
        };
        if open {
            draft.egress(&egress);
        }
        Ok(Played {
            account,
            egress,
            packages,
        })
    }

    async fn put(
        &self,
        sandbox: &Sandbox,
        path: &WorkspacePath,
        large: Large,
    ) -> Result<(), Refusal> {
        match large {
            Large::Bytes(bytes) => {
                let size = bytes.len() as u64;
                sandbox
                    .write(path.as_bytes(), size, std::io::Cursor::new(bytes))
                    .await?;
            }
            Large::Kept(kept) => {
                let blob = self.store.stream_blob(&kept).await?;
                sandbox.write(path.as_bytes(), kept.bytes, blob).await?;
            }
        }
        Ok(())
    }

    /// Judges the account, keeps the raw output, and completes the record.
    async fn report(
        &self,
        sandbox: &Sandbox,
        order: Order<'_>,
        scene: &Scene,
        account: Account,
        collected: Collected,
        draft: &mut Draft,
    ) -> RunReport {
        let outcome = outcome::judge(account.cause, account.end);
        let exit: Option<Exit> = match account.end {
            End::Told(exit) => Some(exit),
            End::Lost { .. } => None,
        };
        let captured = account.captured;
        let (out, err) = (&captured.stdout, &captured.stderr);
        draft.outputs(
            StreamRecord {
                sha256: out.sha256,
                bytes: out.window.bytes(),
            },
            StreamRecord {
                sha256: err.sha256,
                bytes: err.window.bytes(),
            },
        );
        let (stdout, stderr) = tokio::join!(
            self.stream(order, "stdout", captured.stdout),
            self.stream(order, "stderr", captured.stderr),
        );
        for artifact in &collected.artifacts {
            draft.taken_out(artifact.path.shown(), artifact.sha256, artifact.bytes);
        }
        // What an installer left is nobody's artifact.
        let exit_of_program = exit.filter(|_| scene.packages.is_none_or(|it| it.complete));
        let artifacts_omitted = collected
            .omitted
            .saturating_add(exit_of_program.map_or(0, |exit| exit.files_omitted));
        draft.outcome(outcome, account.duration, artifacts_omitted);
        RunReport {
            run_id: order.run_id.clone(),
            status: outcome.status,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            stdout,
            stderr,
            duration: account.duration,
            cpu: Duration::from_micros(exit.map_or(0, |exit| exit.cpu_us)),
            peak_memory_bytes: exit
                .map(|exit| exit.peak_rss_bytes)
                .filter(|bytes| *bytes > 0),
            artifacts: collected.artifacts,
            artifacts_omitted,
            sandbox: SandboxReport {
                runtime: sandbox.runtime().to_owned(),
                image: scene.image.clone(),
                network: scene.network.clone(),
                session: scene.session.clone(),
                fresh: scene.fresh,
            },
            language: order.plan.language.clone(),
            limits: scene.limits,
            egress: scene.egress.clone(),
            packages: scene.packages,
            stages: scene.stages,
        }
    }

    /// Shows a stream, and keeps it whole where that is not all of it as it is.
    async fn stream(
        &self,
        order: Order<'_>,
        name: &'static str,
        stream: CapturedStream,
    ) -> StreamReport {
        let shown = output::show(&stream.window, SHOWN_BYTES);
        let keep = if shown.is_faithful() {
            Keep::Record
        } else {
            Keep::Output
        };
        let (store, caller, run) = (
            self.store.clone(),
            order.caller.clone(),
            order.run_id.clone(),
        );
        let kept = keep_output(store, caller, run, name, stream, keep);
        let artifact_id = match keep {
            Keep::Output => kept.await,
            // All of it is in the answer: that need not wait for the disk. Its digest is on record before it leaves.
            Keep::Record => {
                self.tasks.spawn(kept);
                None
            }
        };
        StreamReport { shown, artifact_id }
    }
}
