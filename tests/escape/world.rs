//! Where these tests run: an engine under the runtime that was asked for, and a flag that nothing inside may find.

use std::os::unix::fs::PermissionsExt as _;

use belljar::{
    engine::{Engine, EngineError, Sandbox},
    types::{LimitsRequest, SandboxId},
};
use serde_json::{Value, json};

use crate::docker::{client, engine_in, permit};

/// Names the runtime to run under; absent: the daemon's own.
const RUNTIME: &str = "BELLJAR_TEST_RUNTIME";

pub(crate) struct World {
    pub(crate) engine: Engine,
    _state: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let runtime = std::env::var(RUNTIME).ok();
        let engine = engine_in(state.path(), runtime.as_deref());
        Self {
            engine,
            _state: state,
        }
    }

    pub(crate) async fn launch(&self, image: &str) -> Sandbox {
        self.try_launch(image).await.unwrap()
    }

    pub(crate) async fn try_launch(&self, image: &str) -> Result<Sandbox, EngineError> {
        let sandbox = self
            .engine
            .launch(&permit(image, LimitsRequest::default()))
            .await?;
        if let Ok(wanted) = std::env::var(RUNTIME) {
            assert_eq!(sandbox.runtime(), wanted);
        }
        Ok(sandbox)
    }

    /// Which expectation counts, by the runtime that was asked for or is the daemon's own.
    pub(crate) async fn kernel(&self) -> Kernel {
        let info = client().info().await.unwrap();
        let runtime = std::env::var(RUNTIME).ok().or(info.default_runtime);
        if runtime.unwrap().starts_with("runsc") {
            Kernel::Gvisor
        } else {
            Kernel::Host(Cgroups::of_daemon().await)
        }
    }
}

/// What decides which expectation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The host's, with this version of control groups.
    Host(Cgroups),
    Gvisor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cgroups {
    V1,
    V2,
}

impl Cgroups {
    pub(crate) async fn of_daemon() -> Self {
        let version = client().info().await.unwrap().cgroup_version.unwrap();
        match version.to_string().as_str() {
            "1" => Self::V1,
            "2" => Self::V2,
            other => panic!("control groups of version {other}"),
        }
    }
}

/// A file of the host's that anybody on the host may read, with a text that nobody can guess.
pub(crate) struct Flag {
    pub(crate) folder: tempfile::TempDir,
    name: String,
    text: String,
}

impl Flag {
    pub(crate) fn plant() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let name = format!("belljar-flag-{}", SandboxId::random());
        let text = SandboxId::random().to_string();
        std::fs::write(folder.path().join(&name), &text).unwrap();
        Self { folder, name, text }
    }

    /// What probes are told of it: the text backwards, so that what they were told is not what they look for.
    pub(crate) fn facts(&self) -> Value {
        json!({
            "flag": self.folder.path().join(&self.name),
            // Where the daemon is another machine's this is no number of its kernel's.
            "boot": std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim(),
            "reversed": self.text.chars().rev().collect::<String>(),
        })
    }
}
