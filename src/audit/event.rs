//! What one line of the log says. The names of the fields are fixed: others read them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256 as Hasher};

use super::{EgressCounts, EgressRecord, LogHead};
use crate::types::{Caller, InstanceId, Limits, RunId, SandboxId, Sha256, Status};

/// The most variables, inputs and artifacts named in one line, each; the rest is counted. Without a bound one
/// run that leaves many files writes a line that no reader takes.
pub const MAX_LISTED: usize = 64;
/// The longest text in one field, in bytes; more is cut with `…`.
const MAX_TEXT_BYTES: usize = 1024;
/// The longest path or variable's name, in bytes; more is cut with `…`.
const MAX_NAME_BYTES: usize = 256;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A program is about to be run. The line of its end follows, unless the server died before it.
    BeginRun,
    /// Packages are about to be put in before a program. What became of it is told by the line of the run or session.
    InstallPackages,
    /// A program was to be run; it has come to its end, or to none.
    RunCode,
    /// A file was to be put in.
    UploadFile,
    /// A file was to be taken out.
    FetchArtifact,
    /// A session was to be opened.
    OpenSession,
    /// A session was to be closed.
    CloseSession,
    /// Files were to be listed.
    ListFiles,
    /// A resource was to be read.
    ReadResource,
    /// A program wanted to reach something.
    Egress,
    /// The server started.
    Start,
    /// The server stopped in good order; without this line it died.
    Stop,
}

impl Action {
    /// The name in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BeginRun => "begin_run",
            Self::InstallPackages => "install_packages",
            Self::RunCode => "run_code",
            Self::UploadFile => "upload_file",
            Self::FetchArtifact => "fetch_artifact",
            Self::OpenSession => "open_session",
            Self::CloseSession => "close_session",
            Self::ListFiles => "list_files",
            Self::ReadResource => "read_resource",
            Self::Egress => "egress",
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Decision {
    /// It was allowed.
    Allow {
        /// By what.
        #[serde(default)]
        reason: String,
    },
    /// It was refused.
    Deny {
        /// Why.
        reason: String,
    },
}

impl Decision {
    /// Allowed because what was asked lies within the operator's settings, which are the only thing that opens
    /// anything.
    #[must_use]
    pub fn within_settings() -> Self {
        Self::Allow {
            reason: "within_settings".to_owned(),
        }
    }
}

/// A variable by its name; its value only under a keyed digest, see [`super::Log::seal`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedVar {
    /// The name.
    pub name: String,
    /// Equal within one log where name and value are equal, and meaningless beyond it.
    pub hmac_sha256: Sha256,
}

/// A file by its path with visible escapes and its content's digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The path with visible escapes.
    pub path: String,
    /// The digest of the content; none where no copy was made.
    pub sha256: Option<Sha256>,
    /// The size.
    pub bytes: u64,
}

/// One output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// The digest of the whole stream.
    pub sha256: Sha256,
    /// Its size.
    pub bytes: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The status that the caller was told.
    pub status: Status,
    /// The exit code, where there was one.
    pub exit_code: Option<i32>,
    /// The signal, where one ended it.
    pub signal: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The limits that were in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsRecord {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Thousandths of a processor.
    pub cpus_milli: u32,
    /// Processes and threads.
    pub pids: u32,
    /// Workspace in MiB.
    pub workspace_mib: u32,
    /// Output of both streams in KiB.
    pub output_kib: u32,
}

impl From<&Limits> for LimitsRecord {
    fn from(limits: &Limits) -> Self {
        let Limits {
            memory_mib,
            cpus,
            pids,
            workspace_mib,
            output_kib,
        } = *limits;
        Self {
            memory_mib,
            cpus_milli: cpus.millis(),
            pids,
            workspace_mib,
            output_kib,
        }
    }
}

/// One action. What does not apply to it is left out of its line.
///
/// Fill in what is known: `Event { run_id: Some(id), ..Event::new(action, caller, decision) }`. Lists and texts may
/// be of any length; the log bounds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What was asked for.
    pub action: Action,
    /// Who asked.
    pub caller: Caller,
    /// What was decided.
    pub decision: Decision,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SandboxId>,
    /// The language, as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The digest of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<Sha256>,
    /// The size of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_bytes: Option<u64>,
    /// The digest of the arguments, see [`args_digest`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_sha256: Option<Sha256>,
    /// The variables that the caller set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<SealedVar>,
    /// Variables beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub env_omitted: u64,
    /// The files that were put in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<FileRecord>,
    /// Inputs beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inputs_omitted: u64,
    /// The packages that were asked for, each with its versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// The limits in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsRecord>,
    /// The wall time allowed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The network profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The image, by the id that the daemon gives its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// The container runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What the run wrote to standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<StreamRecord>,
    /// What the run wrote to standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<StreamRecord>,
    /// The files that were taken out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<FileRecord>,
    /// Files beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts_omitted: u64,
    /// What a program wanted to reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressRecord>,
    /// How often a run was let out, and how often not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_counts: Option<EgressCounts>,
    /// How the other logs ended when this one began, the one first that was written to last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<LogHead>,
    /// Logs beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beside_omitted: u64,
    /// Why the action failed, where it was allowed and did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Event {
    /// An event of which nothing else is known yet.
    #[must_use]
    pub fn new(action: Action, caller: Caller, decision: Decision) -> Self {
        Self {
            action,
            caller,
            decision,
            run_id: None,
            session: None,
            language: None,
            code_sha256: None,
            code_bytes: None,
            args_sha256: None,
            env: Vec::new(),
            env_omitted: 0,
            inputs: Vec::new(),
            inputs_omitted: 0,
            packages: Vec::new(),
            limits: None,
            timeout_ms: None,
            network: None,
            image_id: None,
            runtime: None,
            outcome: None,
            stdout: None,
            stderr: None,
            artifacts: Vec::new(),
            artifacts_omitted: 0,
            egress: None,
            egress_counts: None,
            beside: Vec::new(),
            beside_omitted: 0,
            error: None,
        }
    }

    /// Cuts lists and texts to their bounds, and counts what is left out.
    pub(super) fn bound(&mut self) {
        self.env_omitted += cut_list(&mut self.env);
        self.inputs_omitted += cut_list(&mut self.inputs);
        self.artifacts_omitted += cut_list(&mut self.artifacts);
        self.beside_omitted += cut_list(&mut self.beside);
        // There are never more; see the policy's bounds.
        self.packages.truncate(MAX_LISTED);
        for package in &mut self.packages {
            cut_text(package, MAX_NAME_BYTES);
        }
        for var in &mut self.env {
            cut_text(&mut var.name, MAX_NAME_BYTES);
        }
        for head in &mut self.beside {
            cut_text(&mut head.log, MAX_NAME_BYTES);
        }
        for file in self.inputs.iter_mut().chain(&mut self.artifacts) {
            cut_text(&mut file.path, MAX_NAME_BYTES);
        }
        if let Some(egress) = &mut self.egress {
            egress.bound();
        }
        let (Decision::Allow { reason } | Decision::Deny { reason }) = &mut self.decision;
        cut_text(reason, MAX_TEXT_BYTES);
        let texts = [
            &mut self.language,
            &mut self.network,
            &mut self.image_id,
            &mut self.runtime,
            &mut self.error,
        ];
        for text in texts.into_iter().flatten() {
            cut_text(text, MAX_TEXT_BYTES);
        }
    }
}

fn cut_list<T>(list: &mut Vec<T>) -> u64 {
    let omitted = list.len().saturating_sub(MAX_LISTED);
    list.truncate(MAX_LISTED);
    omitted as u64
}

pub(super) fn cut_text(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The digest of program arguments: of each its length as eight bytes, big endian, and then itself, so that no
/// two lists share one.
#[must_use]
pub fn args_digest(args: &[String]) -> Sha256 {
    let mut hasher = Hasher::new();
    for arg in args {
        hasher.update((arg.len() as u64).to_be_bytes());
        hasher.update(arg);
    }
    Sha256::from_bytes(hasher.finalize().into())
}

/// One line: an event, and its place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written: RFC 3339, UTC, milliseconds.
    #[serde(serialize_with = "with_milliseconds")]
    pub time: Timestamp,
    /// Its number in its log, from 0.
    pub seq: u64,
    /// The server that wrote it.
    pub instance: InstanceId,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// The digest of the line before, without its line feed; zeros in the first.
    pub prev: Sha256,
}

pub(super) fn with_milliseconds<S: Serializer>(
    time: &Timestamp,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_fields_are_fixed() {
        let digest = Sha256::of(b"");
        let file = FileRecord {
            path: "a".to_owned(),
            sha256: Some(digest),
            bytes: 1,
        };
        let stream = Some(StreamRecord {
            sha256: digest,
            bytes: 2,
        });
        let event = Event {
            run_id: Some(RunId::random()),
            session: Some(SandboxId::random()),
            language: Some("python".to_owned()),
            code_sha256: Some(digest),
            code_bytes: Some(3),
            args_sha256: Some(args_digest(&[])),
            env: vec![SealedVar {
                name: "A".to_owned(),
                hmac_sha256: digest,
            }],
            env_omitted: 1,
            inputs: vec![file.clone()],
            inputs_omitted: 1,
            packages: vec!["six==1.17.0".to_owned()],
            limits: Some(LimitsRecord::from(&Limits::DEFAULT)),
            timeout_ms: Some(30_000),
            network: Some("none".to_owned()),
            image_id: Some("sha256:00".to_owned()),
            runtime: Some("runc".to_owned()),
            outcome: Some(Outcome {
                status: Status::Exited,
                exit_code: Some(0),
                signal: None,
                duration_ms: 12,
            }),
            stdout: stream,
            stderr: stream,
            artifacts: vec![file],
            artifacts_omitted: 1,
            egress: Some(EgressRecord {
                method: Some("GET".to_owned()),
                scheme: Some("https".to_owned()),
                host: "a.test".to_owned(),
                port: 443,
                target: Some("/".to_owned()),
                address: Some("192.0.2.1".to_owned()),
                secrets: vec!["s".to_owned()],
            }),
            egress_counts: Some(EgressCounts {
                allowed: 1,
                denied: 2,
                failed: 1,
            }),
            beside: vec![LogHead {
                log: "l".to_owned(),
                lines: 1,
                time: "2026-01-02T03:04:05Z".parse().unwrap(),
                sha256: digest,
            }],
            beside_omitted: 1,
            error: Some("x".to_owned()),
            ..Event::new(
                Action::RunCode,
                Caller::Local,
                Decision::Deny {
                    reason: "why".to_owned(),
                },
            )
        };
        let line = Line {
            time: "2026-01-02T03:04:05.1Z".parse().unwrap(),
            seq: 7,
            instance: InstanceId::random(),
            event,
            prev: Sha256::ZERO,
        };
        let json = serde_json::to_value(&line).unwrap();
        let names: Vec<_> = json
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let fixed = "time seq instance action caller decision run_id session language \
            code_sha256 code_bytes args_sha256 env env_omitted inputs \
            inputs_omitted packages limits timeout_ms network image_id runtime outcome \
            stdout stderr artifacts artifacts_omitted egress egress_counts beside beside_omitted error prev";
        let mut expected: Vec<_> = fixed.split(' ').collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        expected.sort_unstable();
        assert_eq!(sorted, expected);
        assert_eq!(json["time"], "2026-01-02T03:04:05.100Z");
        assert_eq!(
            json["decision"],
            serde_json::json!({"verdict": "deny", "reason": "why"})
        );
        assert_eq!(json["action"], Action::RunCode.name());
        assert_eq!(serde_json::from_value::<Line>(json).unwrap(), line);
    }

    #[test]
    fn arguments_that_join_to_the_same_text_have_different_digests() {
        let digest = |args: &[&str]| {
            args_digest(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&[""]), digest(&[]));
    }
}
