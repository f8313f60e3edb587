//! `open_session`: a container that outlives a run, on purpose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    reply::Reply,
    run_code,
    tool::{Context, Hints, Tool},
};
use crate::{
    audit::Action,
    broker::{NotInstalled, Opening, Refusal},
    output::{Fence, Label, Part, SHOWN_BYTES, show_bytes},
    policy::SessionAsk,
    types::{LimitsRequest, whole_seconds},
};

/// The tool.
pub(super) struct OpenSession;

/// What `open_session` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Language whose image the session runs.
    language: String,
    /// Name of an egress profile that the operator configured. Absent: no network at all.
    network: Option<String>,
    /// Longest life in seconds, default 1800. The session also ends when it is idle for `idle_seconds`.
    #[serde(default, deserialize_with = "whole_seconds")]
    #[schemars(with = "Option<u64>")]
    ttl_seconds: Option<u64>,
    /// Resource limits, fixed for the session.
    limits: Option<LimitsRequest>,
    /// Packages of the language to install first, where the operator allows it: as in `run_code`.
    packages: Option<Vec<String>>,
}

/// What `open_session` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Id for the `session` argument of the other tools.
    session: String,
    /// When the lease is over, RFC 3339.
    expires_at: String,
    /// Seconds without use after which the session ends earlier.
    idle_seconds: u64,
    /// Languages that `run_code` can run in it.
    languages: Vec<String>,
    /// The image's reference.
    image: String,
    /// The container runtime.
    runtime: String,
    /// The egress profile, or none.
    network: String,
}

impl Tool for OpenSession {
    type Arguments = Arguments;
    type Output = Output;
    const TITLE: &'static str = "Open a session";
    const DESCRIPTION: &'static str = "Starts a container that keeps its files between runs. It ends, and everything in it is deleted, at \
close_session, after `idle_seconds` without use, when `ttl_seconds` are over, or when the server stops. Processes never outlive \
the run that started them. One run at a time; network and limits are fixed here.";
    const ACTION: Action = Action::OpenSession;
    const HINTS: Hints = Hints {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: true,
    };

    async fn call(context: &Context<'_>, arguments: Arguments) -> Result<Reply, Refusal> {
        let ask = ask(arguments);
        let opened = context
            .broker
            .open_session(context.caller, &ask, &context.cancelled)
            .await?;
        let opened = match opened {
            Opening::Opened(opened) => opened,
            Opening::NotInstalled(failed) => return Ok(Reply::failure(not_installed(&failed))),
        };
        let text = format!(
            "session {} · until {} or {} s idle · network {}",
            opened.session, opened.expires_at, opened.idle_seconds, opened.network
        );
        let output = Output {
            session: opened.session.to_string(),
            expires_at: opened.expires_at,
            idle_seconds: opened.idle_seconds,
            languages: opened.languages,
            image: opened.image,
            runtime: opened.runtime,
            network: opened.network,
        };
        Reply::new(text, &output)
    }
}

/// What is asked of the broker.
pub(super) fn ask(arguments: Arguments) -> SessionAsk {
    SessionAsk {
        language: arguments.language,
        network: arguments.network,
        ttl_seconds: arguments.ttl_seconds,
        limits: arguments.limits.unwrap_or_default(),
        packages: arguments.packages.unwrap_or_default(),
    }
}

/// belljar's own account, then what the installer said, fenced.
fn not_installed(failed: &NotInstalled) -> String {
    let mut lines = vec![format!(
        "packages not installed, and no session opened: the installer ended as {}{} after {} ms",
        failed.status.name(),
        failed
            .exit_code
            .map_or_else(String::new, |code| format!(" with exit code {code}")),
        failed.duration.as_millis()
    )];
    let denied = show_bytes(run_code::denied(&failed.egress).as_bytes(), SHOWN_BYTES);
    let unanswered = show_bytes(run_code::failed(&failed.egress).as_bytes(), SHOWN_BYTES);
    let parts = [
        (Label::Stdout, &failed.stdout),
        (Label::Stderr, &failed.stderr),
        (Label::Denied, &denied),
        (Label::Failed, &unanswered),
    ]
    .map(|(label, shown)| Part { label, shown });
    lines.extend(Fence::new(&parts).map(|fence| fence.text().to_owned()));
    lines.extend(run_code::remarks(&failed.egress));
    lines.join("\n")
}
