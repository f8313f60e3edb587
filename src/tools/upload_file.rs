//! `upload_file`: bytes for a later run, or straight into a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    reply::Reply,
    tool::{Context, Hints, Tool},
};
use crate::{
    audit::Action,
    broker::Refusal,
    policy::{FileSource, UploadAsk},
};

/// The tool.
pub(super) struct UploadFile;

/// What `upload_file` takes: exactly one of `text`, `base64` and `local_path`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Path relative to the working directory, without `..`.
    path: String,
    /// Content as text.
    text: Option<String>,
    /// Content in base64, up to 10 MiB decoded.
    base64: Option<String>,
    /// A file on the user's machine, beneath a folder that the operator allowed (`--allow-dir`).
    local_path: Option<String>,
    /// Session to write it into. Absent: it is held and named by `file_id`.
    session: Option<String>,
}

/// What `upload_file` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Id for `run_code.files`; null when it was written into a session.
    file_id: Option<String>,
    /// Path relative to the working directory.
    path: String,
    /// Size in bytes.
    bytes: u64,
    /// SHA-256 of the content in hexadecimal.
    sha256: String,
    /// The session it was written into, or null.
    session: Option<String>,
    /// When it will be gone, RFC 3339.
    expires_at: String,
}

/// What is asked of the broker.
pub(super) enum Ask {
    /// Content that stands in the call.
    Inline(UploadAsk),
    /// A file of this machine.
    Local {
        /// Where it goes.
        path: String,
        /// Where it lies.
        local: String,
    },
}

impl Tool for UploadFile {
    type Arguments = Arguments;
    type Output = Output;
    const TITLE: &'static str = "Upload a file";
    const DESCRIPTION: &'static str = "Gives a file to the sandbox. Without `session` it is held for 24 hours by default and named by \
`file_id`, which run_code takes in `files`. With `session` it is written into that session's working directory, whole or \
not at all, replacing a file of the same path.";
    const ACTION: Action = Action::UploadFile;
    const HINTS: Hints = Hints {
        read_only: false,
        destructive: true,
        idempotent: true,
        open_world: false,
    };

    async fn call(context: &Context<'_>, arguments: Arguments) -> Result<Reply, Refusal> {
        let broker = context.broker;
        let session = arguments.session.clone();
        let session = session.as_deref();
        let asked = ask(arguments).map_err(|message| context.refuse(Self::ACTION, message))?;
        let uploaded = match asked {
            Ask::Inline(ask) => {
                broker
                    .upload(context.caller, session, ask, &context.cancelled)
                    .await?
            }
            Ask::Local { path, local } => {
                broker
                    .upload_local(context.caller, session, &path, &local, &context.cancelled)
                    .await?
            }
        };
        let output = Output {
            file_id: uploaded.file_id.as_ref().map(ToString::to_string),
            path: uploaded.path.shown(),
            bytes: uploaded.bytes,
            sha256: uploaded.sha256,
            session: uploaded.session.as_ref().map(ToString::to_string),
            expires_at: uploaded.expires_at,
        };
        let text = match (&output.file_id, &output.session) {
            (Some(id), _) => format!(
                "uploaded {} bytes as file_id {id} · expires {} · pass it to run_code in `files`",
                output.bytes, output.expires_at
            ),
            (None, Some(session)) => format!("wrote {} bytes into session {session}", output.bytes),
            (None, None) => format!("uploaded {} bytes", output.bytes),
        };
        Reply::new(text, &output)
    }
}

pub(super) fn ask(arguments: Arguments) -> Result<Ask, &'static str> {
    let path = arguments.path;
    let source = match (arguments.text, arguments.base64, arguments.local_path) {
        (Some(text), None, None) => FileSource::Text(text),
        (None, Some(base64), None) => FileSource::Base64(base64),
        (None, None, Some(local)) => return Ok(Ask::Local { path, local }),
        _ => return Err("give exactly one of `text`, `base64` and `local_path`"),
    };
    Ok(Ask::Inline(UploadAsk { path, source }))
}
