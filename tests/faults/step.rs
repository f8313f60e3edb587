//! The steps: each call of Docker's API that the engine makes, told apart by method and path, and each phase of what
//! goes over the attach stream.

/// A call to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Version,
    Info,
    Image,
    ImportImage,
    RemoveImage,
    Events,
    List,
    Create,
    Inspect,
    Attach,
    Start,
    Update,
    Wait,
    Kill,
    Remove,
    Volume,
    CreateVolume,
    RemoveVolume,
}

impl Step {
    /// Which step a request is; none for what the engine never asks.
    pub(crate) fn of(method: &str, path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap();
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.first().is_some_and(|part| part.starts_with("v1.")) {
            parts.remove(0);
        }
        let last = *parts.last()?;
        Some(match (method, parts[0], last) {
            ("GET", "version", _) => Self::Version,
            ("GET", "info", _) => Self::Info,
            ("GET", "events", _) => Self::Events,
            ("GET", "images", "json") => Self::Image,
            ("POST", "images", "create") => Self::ImportImage,
            ("DELETE", "images", _) => Self::RemoveImage,
            ("GET", "containers", "json") if parts.len() == 2 => Self::List,
            ("GET", "containers", "json") => Self::Inspect,
            ("POST", "containers", "create") => Self::Create,
            ("POST", "containers", "attach") => Self::Attach,
            ("POST", "containers", "start") => Self::Start,
            ("POST", "containers", "update") => Self::Update,
            ("POST", "containers", "wait") => Self::Wait,
            ("POST", "containers", "kill") => Self::Kill,
            ("DELETE", "containers", _) => Self::Remove,
            ("POST", "volumes", "create") => Self::CreateVolume,
            ("GET", "volumes", _) => Self::Volume,
            ("DELETE", "volumes", _) => Self::RemoveVolume,
            _ => return None,
        })
    }

    /// Its name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Info => "info",
            Self::Image => "inspect image",
            Self::ImportImage => "import image",
            Self::RemoveImage => "remove image",
            Self::Events => "events",
            Self::List => "list",
            Self::Create => "create",
            Self::Inspect => "inspect",
            Self::Attach => "attach",
            Self::Start => "start",
            Self::Update => "update",
            Self::Wait => "wait",
            Self::Kill => "kill",
            Self::Remove => "remove",
            Self::Volume => "inspect volume",
            Self::CreateVolume => "create volume",
            Self::RemoveVolume => "remove volume",
        }
    }

    /// How long the engine waits for its answer, in seconds, as the table of deadlines in ARCHITECTURE.md says.
    pub(crate) fn deadline(self) -> u64 {
        match self {
            Self::Create | Self::Start | Self::Remove | Self::RemoveVolume | Self::RemoveImage => {
                60
            }
            Self::ImportImage => 120,
            Self::Wait => 3,
            Self::Version
            | Self::Info
            | Self::Image
            | Self::Events
            | Self::List
            | Self::Inspect
            | Self::Attach
            | Self::Update
            | Self::Kill
            | Self::Volume
            | Self::CreateVolume => 20,
        }
    }
}

/// A phase of what goes over the attach stream, told by what is seen in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The guest's first byte.
    Hello,
    /// The program's first output.
    Run,
    /// The content of an input that travels by itself.
    Upload,
    /// The content of a file that comes out.
    Collect,
    /// What a program asks through its way out.
    Ask,
    /// What the server there answers.
    Reply,
}

/// Printed by a program when it runs. Its code spells it otherwise, so that only the output has it.
pub(crate) const RUN_MARK: &str = "ITRUNS";
/// In an input.
pub(crate) const UPLOAD_MARK: &str = "GOESIN";
/// In a file that a program writes; its code spells it otherwise.
pub(crate) const COLLECT_MARK: &str = "COMESOUT";
/// In what a program asks a server.
pub(crate) const ASK_MARK: &str = "ASKSFOR";
/// In that server's answer; its own words, and in nothing that a program says.
pub(crate) const REPLY_MARK: &str = "belljar test upstream";

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Run => "run",
            Self::Upload => "upload",
            Self::Collect => "collect",
            Self::Ask => "ask",
            Self::Reply => "reply",
        }
    }

    /// What is looked for on the way to the server; nothing where the first byte is meant.
    pub(crate) fn mark_out(self) -> Option<&'static str> {
        match self {
            Self::Hello => Some(""),
            Self::Run => Some(RUN_MARK),
            Self::Collect => Some(COLLECT_MARK),
            Self::Ask => Some(ASK_MARK),
            Self::Upload | Self::Reply => None,
        }
    }

    /// What is looked for on the way to the container.
    pub(crate) fn mark_in(self) -> Option<&'static str> {
        match self {
            Self::Upload => Some(UPLOAD_MARK),
            Self::Reply => Some(REPLY_MARK),
            Self::Hello | Self::Run | Self::Collect | Self::Ask => None,
        }
    }
}

#[test]
fn steps_are_told_apart() {
    for (method, path, step) in [
        ("GET", "/version", Some(Step::Version)),
        ("GET", "/v1.41/containers/json?all=true", Some(Step::List)),
        ("GET", "/v1.41/containers/abc/json", Some(Step::Inspect)),
        (
            "POST",
            "/v1.41/containers/create?name=x",
            Some(Step::Create),
        ),
        ("DELETE", "/v1.41/containers/abc?v=1", Some(Step::Remove)),
        (
            "GET",
            "/v1.41/images/belljar/bash:latest/json",
            Some(Step::Image),
        ),
        ("POST", "/v1.41/volumes/create", Some(Step::CreateVolume)),
        ("POST", "/v1.41/containers/abc/exec", None),
    ] {
        assert_eq!(Step::of(method, path), step, "{method} {path}");
    }
}
