//! A container with the guest in it, and what its runs say.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use belljar::engine::guest_binary::Architecture;
use belljar::engine::tether::message::{
    Collect, Exit, GuestError, InlineFile, RunId, RunSpec, StdinKind,
};
use belljar::engine::tether::{Run, RunEvent, Tether, TetherError};
use tempfile::TempDir;
use tokio::process::Child;

pub(crate) const IMAGE: &str = "belljar/bash:latest";
/// For programs that bash is no language for.
pub(crate) const PYTHON: &str = "belljar/python:latest";

/// A container whose PID 1 is the guest.
pub(crate) struct Sandbox {
    pub(crate) tether: Tether,
    pub(crate) client: Child,
    pub(crate) guest: TempDir,
}

/// What a run said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) files: Vec<String>,
    pub(crate) exit: Option<Exit>,
}

impl Said {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit.unwrap_or_else(|| panic!("no exit: {self:?}"))
    }
}

pub(crate) fn guest_file(architecture: Architecture) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let path = directory.path().join("init");
    std::fs::write(&path, architecture.guest()).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o111)).unwrap();
    directory
}

pub(crate) fn daemon_architecture() -> Architecture {
    let output = Command::new("docker")
        .args(["version", "--format", "{{.Server.Arch}}"])
        .output()
        .expect("the docker client is installed");
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Architecture::parse(&name).expect("a Docker daemon answers")
}

pub(crate) fn container(guest: &TempDir) -> tokio::process::Command {
    container_of(guest, IMAGE)
}

fn container_of(guest: &TempDir, image: &str) -> tokio::process::Command {
    let mount = format!("{}:/.belljar:ro", guest.path().display());
    let mut command = tokio::process::Command::new("docker");
    command
        .args([
            "run",
            "--interactive",
            "--rm",
            "--read-only",
            "--network=none",
            "--user=54040:54040",
        ])
        .args([
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--log-driver=none",
        ])
        .args(["--memory=128m", "--memory-swap=128m", "--pids-limit=64"])
        .args([
            "--tmpfs",
            "/workspace:exec,size=16m,uid=54040,gid=54040,mode=1777",
        ])
        .args(["--tmpfs", "/tmp:size=16m,uid=54040,gid=54040,mode=1777"])
        .args(["--volume", &mount, "--entrypoint", "/.belljar/init", image])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Sandbox {
    pub(crate) async fn start() -> Self {
        Self::of(IMAGE).await
    }

    pub(crate) async fn of(image: &str) -> Self {
        let guest = guest_file(daemon_architecture());
        let mut client = container_of(&guest, image).spawn().unwrap();
        let (read, write) = (client.stdout.take().unwrap(), client.stdin.take().unwrap());
        let tether = Tether::connect(read, write)
            .await
            .expect("the guest answers");
        Self {
            tether,
            client,
            guest,
        }
    }

    pub(crate) async fn begin(&self, spec: RunSpec) -> Run {
        self.tether.run(spec, None).await.unwrap()
    }

    pub(crate) async fn run(&self, script: &str) -> Said {
        hear(&mut self.begin(spec(script)).await).await.unwrap()
    }

    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, TetherError> {
        let mut file = self.tether.read(path.as_bytes(), 0, u64::MAX).await?;
        let mut bytes = Vec::new();
        while let Some(more) = file.next().await? {
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    pub(crate) async fn refused(&self, path: &str) -> GuestError {
        guest_error(self.read(path).await.unwrap_err())
    }
}

pub(crate) fn guest_error(error: TetherError) -> GuestError {
    match error {
        TetherError::Guest(error) => error,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn spec(script: &str) -> RunSpec {
    let env = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/workspace/.home"),
    ];
    RunSpec {
        id: RunId(0),
        argv: ["bash", "/workspace/.main.sh", "argument"]
            .map(str::to_owned)
            .to_vec(),
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        cwd: "/workspace".to_owned(),
        program: Some(InlineFile {
            path: b".main.sh".to_vec(),
            bytes: script.into(),
        }),
        files: Vec::new(),
        stdin: StdinKind::Null,
        timeout_ms: 60_000,
        nproc: None,
        collect: Collect {
            skip_dirs: vec!["node_modules".to_owned()],
            max_files: 16,
        },
        warm: None,
    }
}

pub(crate) async fn hear(run: &mut Run) -> Result<Said, TetherError> {
    let mut said = Said::default();
    while let Some(event) = run.next().await? {
        match event {
            RunEvent::Started { .. } => {}
            RunEvent::Stdout(bytes) => said.stdout.extend_from_slice(&bytes),
            RunEvent::Stderr(bytes) => said.stderr.extend_from_slice(&bytes),
            RunEvent::NewFile(entry) => {
                said.files
                    .push(String::from_utf8_lossy(&entry.path).into_owned());
            }
            RunEvent::Exited(exit) => said.exit = Some(exit),
        }
    }
    said.files.sort();
    Ok(said)
}
