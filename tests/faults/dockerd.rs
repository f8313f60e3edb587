//! A Docker daemon of a test's own, which may be stopped, killed and filled.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{api, server::until};

const IMAGE: &str = "belljar/bash:latest";
/// How long a daemon may take to answer.
const START: Duration = Duration::from_mins(1);

/// The daemon. It ends, and everything of it goes, when this is dropped.
#[derive(Debug)]
pub(crate) struct Dockerd {
    process: Child,
    /// Its data, which may be a file system of its own.
    data: PathBuf,
    folder: tempfile::TempDir,
}

impl Dockerd {
    /// Starts one with its data in this folder, and gives it the image of the tests. Needs root, and says so.
    pub(crate) fn start(data: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = Self {
            process: spawn(folder.path(), data),
            data: data.to_owned(),
            folder,
        };
        daemon.until_up();
        let mut saved = Command::new("docker")
            .args(["save", IMAGE])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the docker command");
        let host = format!("unix://{}", daemon.socket().display());
        let loaded = Command::new("docker")
            .args(["-H", &host, "load", "--quiet"])
            .stdin(saved.stdout.take().unwrap())
            .output()
            .unwrap();
        assert!(saved.wait().unwrap().success());
        assert!(loaded.status.success(), "{loaded:?}");
        daemon
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// It is dead, at once.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it anew, after [`Self::kill`].
    pub(crate) fn restart(&mut self) {
        self.process = spawn(self.folder.path(), &self.data);
        self.until_up();
    }

    fn until_up(&mut self) {
        let socket = self.socket();
        let up = until(START, || {
            api::ask(&socket, "GET", "/version").is_ok_and(|(status, _)| status == 200)
        });
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(
            up,
            "this test starts a Docker daemon, and must run as root: {log}"
        );
    }
}

fn spawn(folder: &Path, data: &Path) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    // What a killed one leaves.
    let _ = std::fs::remove_file(folder.join("pid"));
    // In a network of its own, though it makes none: a daemon told to have no bridge removes the one it finds, which is
    // the machine's.
    Command::new("unshare")
        .args(["--net", "dockerd", "--data-root"])
        .arg(data)
        .arg("--exec-root")
        .arg(folder.join("exec"))
        .arg("--pidfile")
        .arg(folder.join("pid"))
        .arg("-H")
        .arg(format!("unix://{}", folder.join("docker.sock").display()))
        .args(["--bridge=none", "--iptables=false", "--ip-forward=false"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the unshare command")
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        for signal in ["CONT", "TERM"] {
            let _ = Command::new("kill").args(["-s", signal, &pid]).status();
        }
        let process = &mut self.process;
        if !until(START, || !matches!(process.try_wait(), Ok(None))) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
