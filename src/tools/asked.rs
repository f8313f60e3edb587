//! What arguments ask for, without a broker: for the tests of what any arguments come to.

use rmcp::model::JsonObject;

use super::{
    close_session::CloseSession,
    fetch_artifact::FetchArtifact,
    list_files::ListFiles,
    open_session::{self, OpenSession},
    run_code::{self, RunCode},
    tool::{Name, parse},
    upload_file::{self, UploadFile},
};
use crate::policy::{RunAsk, SessionAsk, UploadAsk};

/// What the policy is asked.
#[derive(Debug)]
pub(crate) enum Asked {
    Run(Box<RunAsk>),
    Session(SessionAsk),
    Upload(UploadAsk),
    /// Something that is only looked up: an id, a path.
    LookUp,
}

/// What these arguments of this tool ask for; an error is what the caller is told of them. None: there is no such tool.
pub(crate) fn asked(tool: &str, arguments: JsonObject) -> Option<Result<Asked, String>> {
    Some(match Name::parse(tool)? {
        Name::RunCode => parse::<RunCode>(arguments).and_then(|arguments| {
            let ask = run_code::ask(arguments)?;
            Ok(Asked::Run(Box::new(ask)))
        }),
        Name::OpenSession => {
            parse::<OpenSession>(arguments).map(|asked| Asked::Session(open_session::ask(asked)))
        }
        Name::UploadFile => parse::<UploadFile>(arguments).and_then(|arguments| {
            Ok(match upload_file::ask(arguments)? {
                upload_file::Ask::Inline(ask) => Asked::Upload(ask),
                upload_file::Ask::Local { .. } => Asked::LookUp,
            })
        }),
        Name::FetchArtifact => parse::<FetchArtifact>(arguments).map(|_| Asked::LookUp),
        Name::CloseSession => parse::<CloseSession>(arguments).map(|_| Asked::LookUp),
        Name::ListFiles => parse::<ListFiles>(arguments).map(|_| Asked::LookUp),
    })
}
