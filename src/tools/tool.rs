//! What a tool is, and the list of those there are. To add one: a file beside this one that implements
//! [`Tool`], a variant in [`Name`], and its line in each match below; the compiler asks for the rest.

use rmcp::model::{JsonObject, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    close_session::CloseSession,
    fetch_artifact::FetchArtifact,
    list_files::ListFiles,
    open_session::OpenSession,
    reply::Reply,
    room::{Places, Room},
    run_code::RunCode,
    schema,
    upload_file::UploadFile,
};
use crate::{
    audit::Action,
    broker::{Broker, Refusal},
    config::StructuredContent,
    types::{Caller, visible},
};

/// The longest error about arguments, in characters: they may quote a field name of any length.
const MAX_ARGUMENT_ERROR_CHARS: usize = 600;
/// The longest path of an argument in an error, in characters, for the same reason.
const MAX_ARGUMENT_PATH_CHARS: usize = 100;

/// What a call runs with.
pub(super) struct Context<'a> {
    /// The one door.
    pub(super) broker: &'a Broker,
    /// Who asks.
    pub(super) caller: &'a Caller,
    /// Whether structured results are sent; without them the text must hold everything.
    pub(super) structured: StructuredContent,
    /// Fires when the client takes the call back.
    pub(super) cancelled: CancellationToken,
    /// The places for large answers, and where the call's own is kept.
    pub(super) places: &'a Places,
    pub(super) room: Room,
}

impl Context<'_> {
    /// Waits for a place for a large answer, as the last thing before it is begun: who waits for something else meanwhile
    /// would keep the few places from everybody.
    pub(super) async fn large_answer(&self) -> Result<(), Refusal> {
        self.places.take(&self.room, &self.cancelled).await
    }

    /// Arguments that make no sense: refused, and recorded like every other decision.
    pub(super) fn refuse(&self, action: Action, message: impl Into<String>) -> Refusal {
        self.broker.refuse_arguments(self.caller, action, message)
    }
}

/// One tool.
pub(super) trait Tool {
    /// Its arguments; unknown fields are refused.
    type Arguments: DeserializeOwned + JsonSchema;
    /// Its structured result.
    type Output: JsonSchema;
    /// Title for people.
    const TITLE: &'static str;
    /// Description for the model.
    const DESCRIPTION: &'static str;
    /// What a client may assume of its effects.
    const HINTS: Hints;
    /// Its name in the record.
    const ACTION: Action;

    /// Does the work.
    async fn call(context: &Context<'_>, arguments: Self::Arguments) -> Result<Reply, Refusal>;
}

/// A tool's effects, as the protocol's annotations name them; none is left to the worst default.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the protocol\'s four annotations"
)]
pub(super) struct Hints {
    /// Changes nothing.
    pub(super) read_only: bool,
    /// May destroy something that the caller has.
    pub(super) destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub(super) idempotent: bool,
    /// Reaches things beyond the sandbox, where the operator has opened a way to them.
    pub(super) open_world: bool,
}

/// How far the programs of a caller can reach: clients are told of the tools accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing beyond their sandbox.
    Sandbox,
    /// What a profile or a registry of packages opens.
    Beyond,
}

/// The tools there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    RunCode,
    UploadFile,
    FetchArtifact,
    OpenSession,
    CloseSession,
    ListFiles,
}

impl Name {
    /// In the order in which they are listed, which is fixed.
    const ALL: [Self; 6] = [
        Self::RunCode,
        Self::UploadFile,
        Self::FetchArtifact,
        Self::OpenSession,
        Self::CloseSession,
        Self::ListFiles,
    ];

    /// The tool of that name, if there is one.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// The name that clients use.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::RunCode => "run_code",
            Self::UploadFile => "upload_file",
            Self::FetchArtifact => "fetch_artifact",
            Self::OpenSession => "open_session",
            Self::CloseSession => "close_session",
            Self::ListFiles => "list_files",
        }
    }

    fn describe(self, structured: StructuredContent, reach: Reach) -> rmcp::model::Tool {
        match self {
            Self::RunCode => describe::<RunCode>(self, structured, reach),
            Self::UploadFile => describe::<UploadFile>(self, structured, reach),
            Self::FetchArtifact => describe::<FetchArtifact>(self, structured, reach),
            Self::OpenSession => describe::<OpenSession>(self, structured, reach),
            Self::CloseSession => describe::<CloseSession>(self, structured, reach),
            Self::ListFiles => describe::<ListFiles>(self, structured, reach),
        }
    }

    /// The name in the record.
    pub(super) fn action(self) -> Action {
        match self {
            Self::RunCode => RunCode::ACTION,
            Self::UploadFile => UploadFile::ACTION,
            Self::FetchArtifact => FetchArtifact::ACTION,
            Self::OpenSession => OpenSession::ACTION,
            Self::CloseSession => CloseSession::ACTION,
            Self::ListFiles => ListFiles::ACTION,
        }
    }

    /// Parses the arguments and does the work.
    pub(super) async fn call(
        self,
        context: &Context<'_>,
        arguments: JsonObject,
    ) -> Result<Reply, Refusal> {
        match self {
            Self::RunCode => call::<RunCode>(context, arguments).await,
            Self::UploadFile => call::<UploadFile>(context, arguments).await,
            Self::FetchArtifact => call::<FetchArtifact>(context, arguments).await,
            Self::OpenSession => call::<OpenSession>(context, arguments).await,
            Self::CloseSession => call::<CloseSession>(context, arguments).await,
            Self::ListFiles => call::<ListFiles>(context, arguments).await,
        }
    }
}

/// All tools with their schemas, in a fixed order.
#[must_use]
pub fn catalogue(structured: StructuredContent, reach: Reach) -> Vec<rmcp::model::Tool> {
    Name::ALL
        .into_iter()
        .map(|name| name.describe(structured, reach))
        .collect()
}

fn describe<T: Tool>(name: Name, structured: StructuredContent, reach: Reach) -> rmcp::model::Tool {
    let annotations = ToolAnnotations::with_title(T::TITLE)
        .read_only(T::HINTS.read_only)
        .destructive(T::HINTS.destructive)
        .idempotent(T::HINTS.idempotent)
        .open_world(T::HINTS.open_world && reach == Reach::Beyond);
    let tool = rmcp::model::Tool::new(name.as_str(), T::DESCRIPTION, schema::of::<T::Arguments>())
        .with_title(T::TITLE)
        .with_annotations(annotations);
    match structured {
        StructuredContent::On => tool.with_raw_output_schema(schema::of::<T::Output>()),
        StructuredContent::Off => tool,
    }
}

/// What is wrong with which argument, short and without tricks: both may quote what the caller wrote.
fn argument_error(path: &str, why: &str) -> String {
    let cut = |text: &str, most: usize| -> String {
        let escaped = visible::escape_name(text.as_bytes());
        escaped.chars().take(most).collect()
    };
    let why = cut(why, MAX_ARGUMENT_ERROR_CHARS);
    match path {
        // The arguments as a whole: something is missing, or is not known.
        "." => why,
        path => format!("{}: {why}", cut(path, MAX_ARGUMENT_PATH_CHARS)),
    }
}

/// A tool's arguments, or what is wrong with which.
pub(super) fn parse<T: Tool>(arguments: JsonObject) -> Result<T::Arguments, String> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        argument_error(&path, &why)
    })
}

async fn call<T: Tool>(context: &Context<'_>, arguments: JsonObject) -> Result<Reply, Refusal> {
    let arguments = parse::<T>(arguments).map_err(|why| context.refuse(T::ACTION, why))?;
    T::call(context, arguments).await
}
