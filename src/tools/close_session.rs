//! `close_session`: destroys a session and everything in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    reply::Reply,
    tool::{Context, Hints, Tool},
};
use crate::{audit::Action, broker::Refusal};

/// The tool.
pub(super) struct CloseSession;

/// What `close_session` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Id from `open_session`.
    session: String,
}

/// What `close_session` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The session that is no more.
    session: String,
    /// Always true.
    closed: bool,
}

impl Tool for CloseSession {
    type Arguments = Arguments;
    type Output = Output;
    const TITLE: &'static str = "Close a session";
    const DESCRIPTION: &'static str = "Ends a session: its container and every file in it are deleted, a run in it is stopped. Artifacts \
that were fetched before stay.";
    const ACTION: Action = Action::CloseSession;
    const HINTS: Hints = Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
        open_world: false,
    };

    async fn call(context: &Context<'_>, arguments: Arguments) -> Result<Reply, Refusal> {
        let session = context
            .broker
            .close_session(context.caller, &arguments.session)
            .await?;
        let text = format!("session {session} is closed");
        Reply::new(
            text,
            &Output {
                session: session.to_string(),
                closed: true,
            },
        )
    }
}
