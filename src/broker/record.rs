//! The record of what callers did: a line in the audit log for each action, and the code, arguments and output of each
//! run beside it.
//!
//! What cannot be recorded is not done: a program does not start, and no answer leaves, unless its line is written.

use std::time::Duration;

use bytes::Bytes;

use super::{Refusal, outcome::Outcome};
use crate::{
    artifact::{Entry, Kind, NewEntry, Store, StoreError},
    audit::{
        self, Action, AuditError, Decision, EgressCounts, Event, FileRecord, LimitsRecord, Log,
        StreamRecord,
    },
    egress,
    output::{CapturedStream, RawContent},
    policy::{InstallPlan, Network, RunAsk, RunPlan},
    types::{ArtifactId, Caller, Limits, ProfileName, RunId, SandboxId, Sha256, WorkspacePath},
};

/// What becomes known of an action on its way.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    event: Event,
}

/// In which way a raw output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// For the caller, who did not see all of it as it is.
    Output,
    /// For the record alone.
    Record,
}

impl Draft {
    pub(super) fn new(action: Action, caller: &Caller) -> Self {
        Self {
            event: Event::new(action, caller.clone(), Decision::within_settings()),
        }
    }

    pub(super) fn session(&mut self, id: &SandboxId) {
        self.event.session = Some(id.clone());
    }

    /// The run has a sandbox, and so an id.
    pub(super) fn run(&mut self, id: &RunId) {
        self.event.run_id = Some(id.clone());
    }

    pub(super) fn language(&mut self, name: &str) {
        self.event.language = Some(name.to_owned());
    }

    /// Within what it takes place.
    pub(super) fn bounds(&mut self, limits: &Limits, network: &Network) {
        self.event.limits = Some(LimitsRecord::from(limits));
        self.event.network = Some(network.name().to_owned());
    }

    pub(super) fn plan(&mut self, plan: &RunPlan) {
        self.language(&plan.language);
        self.event.timeout_ms = u64::try_from(plan.timeout.duration().as_millis()).ok();
        self.packages(plan.packages.as_ref());
    }

    pub(super) fn packages(&mut self, plan: Option<&InstallPlan>) {
        let packages = plan.map_or(&[][..], |plan| &plan.packages);
        self.event.packages = packages.iter().map(ToString::to_string).collect();
    }

    /// What was allowed and could not be done, where that is no refusal.
    pub(super) fn failed(&mut self, why: String) {
        self.event.error = Some(why);
    }

    pub(super) fn sandbox(&mut self, image_id: &str, runtime: &str) {
        self.event.image_id = Some(image_id.to_owned());
        self.event.runtime = Some(runtime.to_owned());
    }

    pub(super) fn input(&mut self, path: &WorkspacePath, sha256: Sha256, bytes: u64) {
        self.event.inputs.push(FileRecord {
            path: path.shown(),
            sha256: Some(sha256),
            bytes,
        });
    }

    pub(super) fn taken_out(&mut self, path: String, sha256: Option<Sha256>, bytes: u64) {
        self.event.artifacts.push(FileRecord {
            path,
            sha256,
            bytes,
        });
    }

    pub(super) fn outputs(&mut self, stdout: StreamRecord, stderr: StreamRecord) {
        self.event.stdout = Some(stdout);
        self.event.stderr = Some(stderr);
    }

    pub(super) fn egress(&mut self, report: &egress::Report) {
        self.event.egress_counts = Some(EgressCounts {
            allowed: report.allowed_count(),
            denied: report.denied_count(),
            failed: report.failed_count(),
        });
    }

    pub(super) fn outcome(&mut self, outcome: Outcome, duration: Duration, files_omitted: u64) {
        self.event.outcome = Some(audit::Outcome {
            status: outcome.status,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        });
        self.event.artifacts_omitted = files_omitted;
    }
}

/// Writes the record.
#[derive(Debug)]
pub(super) struct Recorder {
    log: Log,
    store: Store,
}

impl Recorder {
    pub(super) fn new(log: Log, store: Store) -> Self {
        Self { log, store }
    }

    /// The server starts: before anything else is done.
    pub(super) fn start(&self) -> Result<(), AuditError> {
        let (beside, beside_omitted) = self.log.beside();
        self.log.append(Event {
            beside,
            beside_omitted,
            ..Event::new(Action::Start, Caller::Local, Decision::within_settings())
        })
    }

    /// The server stops in good order.
    pub(super) fn stop(&self) {
        if let Err(error) = self.log.append(Event::new(
            Action::Stop,
            Caller::Local,
            Decision::within_settings(),
        )) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the end of the server could not be recorded"
            );
        }
    }

    /// What is known of a run before anything is decided.
    pub(super) fn run(&self, caller: &Caller, ask: &RunAsk) -> Draft {
        let mut draft = Draft::new(Action::RunCode, caller);
        draft.event.code_sha256 = Some(Sha256::of(ask.code.as_bytes()));
        draft.event.code_bytes = Some(ask.code.len() as u64);
        draft.event.args_sha256 = Some(audit::args_digest(&ask.args));
        draft.event.env = ask
            .env
            .iter()
            // Before anything is decided: a hundred thousand of them must not cost a hundred thousand digests.
            .take(audit::MAX_LISTED)
            .map(|(name, value)| self.log.seal(name, value))
            .collect();
        draft.event.env_omitted = ask.env.len().saturating_sub(audit::MAX_LISTED) as u64;
        draft
    }

    /// Writes a line of its own, in the middle of an action.
    pub(super) fn note(&self, event: Event) -> Result<(), AuditError> {
        self.log.append(event)
    }

    /// A program is about to run: writes the line that tells of it, with its code's digest, even if the server dies
    /// before its end.
    pub(super) fn begin(&self, draft: &Draft) -> Result<(), Refusal> {
        self.log.append(Event {
            action: Action::BeginRun,
            ..draft.event.clone()
        })?;
        Ok(())
    }

    /// Packages are about to be put in: writes the line that tells of it.
    pub(super) fn begin_install(
        &self,
        draft: &Draft,
        network: &ProfileName,
        plan: &InstallPlan,
    ) -> Result<(), Refusal> {
        self.log.append(Event {
            action: Action::InstallPackages,
            network: Some(network.to_string()),
            timeout_ms: u64::try_from(plan.timeout.duration().as_millis()).ok(),
            ..draft.event.clone()
        })?;
        Ok(())
    }

    /// Keeps what a program is: its code, arguments and standard input. Where that fails, the program must not go on,
    /// and nothing of it may be answered.
    pub(super) async fn keep_program(
        &self,
        caller: &Caller,
        run: &RunId,
        plan: &RunPlan,
    ) -> Result<(), Refusal> {
        self.keep(caller, run, "code", Bytes::from(plan.code.clone()))
            .await?;
        let args = &plan.argv[plan.argv.len() - plan.args..];
        if !args.is_empty() {
            let args = serde_json::to_vec(args).map_err(|_| Refusal::internal())?;
            self.keep(caller, run, "args.json", args.into()).await?;
        }
        if let Some(stdin) = &plan.stdin {
            self.keep(caller, run, "stdin", Bytes::from(stdin.clone()))
                .await?;
        }
        Ok(())
    }

    async fn keep(
        &self,
        caller: &Caller,
        run: &RunId,
        name: &str,
        bytes: Bytes,
    ) -> Result<Entry, StoreError> {
        self.store.put_bytes(bytes, record(caller, run, name)).await
    }

    /// Writes the line of an action that has come to its end. Its answer leaves only if the line is written.
    pub(super) fn record<T>(&self, draft: Draft, result: Result<T, Refusal>) -> Result<T, Refusal> {
        let mut event = draft.event;
        if let Err(refusal) = &result {
            if refusal.is_denial() {
                event.decision = Decision::Deny {
                    reason: refusal.reason().to_owned(),
                };
            } else {
                event.error = Some(format!("{}: {}", refusal.reason(), refusal.message()));
            }
        }
        match self.log.append(event) {
            Ok(()) => result,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "an action could not be recorded"
                );
                // What went wrong first matters more to the caller.
                result.and(Err(error.into()))
            }
        }
    }
}

/// Keeps a raw output; its id where the caller may have it. A disk that is full does not take back what the caller
/// is shown: the digest is in the log all the same.
pub(super) async fn keep_output(
    store: Store,
    caller: Caller,
    run: RunId,
    name: &'static str,
    stream: CapturedStream,
    keep: Keep,
) -> Option<ArtifactId> {
    let new = match keep {
        Keep::Output => NewEntry {
            caller,
            kind: Kind::Output { run },
            name: name.to_owned(),
        },
        Keep::Record => record(&caller, &run, name),
    };
    let kept = match stream.raw {
        RawContent::Memory(bytes) if bytes.is_empty() => return None,
        RawContent::Memory(bytes) => store.put_bytes(bytes, new).await,
        RawContent::File(file) => {
            let bytes = stream.window.bytes();
            store.put_file(file, bytes, stream.sha256, new).await
        }
        RawContent::Incomplete => return None,
    };
    match kept {
        Ok(entry) => entry.artifact_id().cloned(),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a raw output could not be kept"
            );
            None
        }
    }
}

fn record(caller: &Caller, run: &RunId, name: &str) -> NewEntry {
    NewEntry {
        caller: caller.clone(),
        kind: Kind::Record { run: run.clone() },
        name: name.to_owned(),
    }
}
