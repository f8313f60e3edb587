//! The base that every built-in image starts from: found, pulled, or made on this machine.
//!
//! A machine need not reach any registry: Debian's packages are enough. `mmdebstrap` makes the base of them,
//! and it is imported under the registry's name for it, so that the Dockerfiles are the same everywhere.

use std::{io, process::Stdio, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncSeekExt as _, BufReader},
    process::Command,
};

use super::{
    builder::{BuilderError, ImageBuilder},
    line::{Line, Progress},
};

/// The base's reference.
pub const BASE: &str = "debian:trixie-slim";
/// The base's release, for mmdebstrap.
const SUITE: &str = "trixie";
/// How long making the base may take: 30 s where the packages come fast.
const BOOTSTRAP_DEADLINE: Duration = Duration::from_mins(20);
/// The last lines of mmdebstrap that an error quotes.
const QUOTED_LINES: usize = 5;
/// The longest output of mmdebstrap that is read. It only stops a broken one from filling the memory.
const MAX_LOG_BYTES: u64 = 8 * 1024 * 1024;
/// The files that Debian's own slim image leaves out.
const SLIM: [&str; 5] = [
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
];

/// Why there is no base.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// The daemon failed.
    #[error(transparent)]
    Builder(#[from] BuilderError),
    /// Not there, not to be had from a registry, and nothing to make it with.
    #[error(
        "the base image {BASE} cannot be had: no registry gave it ({pull}), and mmdebstrap, which makes it of \
         Debian's packages, is not installed; on Debian or Ubuntu run \
         `sudo apt-get install mmdebstrap debian-archive-keyring`, elsewhere `docker pull {BASE}` from where a registry is reached"
    )]
    NoTool {
        /// Why the pull failed.
        pull: String,
    },
    /// mmdebstrap failed.
    #[error(
        "the base image {BASE} cannot be had: no registry gave it ({pull}), and mmdebstrap failed: {why}; \
         run this as root, or `docker pull {BASE}` from where a registry is reached"
    )]
    Tool {
        /// Why the pull failed.
        pull: String,
        /// Its last words.
        why: String,
    },
    /// What this machine makes would not run there.
    #[error(
        "the base image {BASE} cannot be had: no registry gave it ({pull}), and the daemon runs on {daemon} while \
         this machine, {here}, can make it only for itself; run `docker pull {BASE}` from where a registry is reached"
    )]
    Architecture {
        /// Why the pull failed.
        pull: String,
        /// The daemon's.
        daemon: String,
        /// This machine's.
        here: &'static str,
    },
}

/// Why the base could not be made here.
#[derive(Debug, PartialEq, Eq)]
pub enum BootstrapError {
    /// There is no mmdebstrap.
    NotInstalled,
    /// It failed, with these last words.
    Failed(String),
}

/// Whoever makes the base's root file system on this machine.
#[async_trait]
pub trait Bootstrap: Send + Sync {
    /// Its tar, to be read from the start.
    async fn debian(&self, progress: &dyn Progress) -> Result<tokio::fs::File, BootstrapError>;
}

/// Makes sure that the base is there.
pub(super) async fn ensure(
    builder: &dyn ImageBuilder,
    bootstrap: &dyn Bootstrap,
    progress: &dyn Progress,
) -> Result<(), BaseError> {
    if builder.find(BASE).await?.is_some() {
        return Ok(());
    }
    progress.begin(&format!("{BASE}: pulling"));
    let pull = match builder.pull(BASE, progress).await {
        Ok(()) => {
            progress.end("pulled");
            return Ok(());
        }
        Err(BuilderError::Unreachable { why }) => {
            return Err(BuilderError::Unreachable { why }.into());
        }
        Err(error @ (BuilderError::Timeout { .. } | BuilderError::Failed { .. })) => {
            progress.end("no registry gives it");
            error.to_string()
        }
    };
    let daemon = builder.architecture().await?;
    let here = std::env::consts::ARCH;
    if daemon != here {
        return Err(BaseError::Architecture { pull, daemon, here });
    }
    progress.begin(&format!("{BASE}: making it of Debian's packages"));
    let tar = match bootstrap.debian(progress).await {
        Ok(tar) => tar,
        Err(BootstrapError::NotInstalled) => return Err(BaseError::NoTool { pull }),
        Err(BootstrapError::Failed(why)) => return Err(BaseError::Tool { pull, why }),
    };
    builder.import(BASE, tar).await?;
    progress.end("made");
    Ok(())
}

/// `mmdebstrap`, as Debian and Ubuntu have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mmdebstrap;

#[async_trait]
impl Bootstrap for Mmdebstrap {
    async fn debian(&self, progress: &dyn Progress) -> Result<tokio::fs::File, BootstrapError> {
        match tokio::time::timeout(BOOTSTRAP_DEADLINE, run("mmdebstrap", progress)).await {
            Ok(done) => done,
            Err(_) => Err(BootstrapError::Failed(format!(
                "it did not end within {} s",
                BOOTSTRAP_DEADLINE.as_secs()
            ))),
        }
    }
}

/// Runs mmdebstrap into a file, which is used only once it has succeeded: of half a tar a daemon might make
/// half an image.
async fn run(tool: &str, progress: &dyn Progress) -> Result<tokio::fs::File, BootstrapError> {
    let failed = |error: io::Error| BootstrapError::Failed(error.to_string());
    let tar = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new(tool);
    command
        .args(["--variant=minbase", "--include=ca-certificates"])
        .args(SLIM.map(|option| format!("--dpkgopt={option}")))
        .args([SUITE, "-"])
        .stdin(Stdio::null())
        .stdout(tar.try_clone().map_err(failed)?)
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BootstrapError::NotInstalled,
        _ => failed(error),
    })?;
    let mut last = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr.take(MAX_LOG_BYTES)).split(b'\n');
        while let Some(text) = lines.next_segment().await.map_err(failed)? {
            for line in Line::split(&String::from_utf8_lossy(&text)) {
                progress.line(&line);
                if last.len() == QUOTED_LINES {
                    last.remove(0);
                }
                last.push(line.to_string());
            }
        }
    }
    let status = child.wait().await.map_err(failed)?;
    if !status.success() {
        return Err(BootstrapError::Failed(format!(
            "{status}: {}",
            last.join(" / ")
        )));
    }
    let mut tar = tokio::fs::File::from_std(tar);
    tar.rewind().await.map_err(failed)?;
    Ok(tar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::fake::Silent;

    #[tokio::test]
    async fn a_missing_tool_is_told_apart_from_one_that_fails() {
        assert_eq!(
            run("belljar-has-no-such-program", &Silent)
                .await
                .unwrap_err(),
            BootstrapError::NotInstalled
        );
        let error = run("false", &Silent).await.unwrap_err();
        assert!(matches!(error, BootstrapError::Failed(why) if why.contains("exit status: 1")));
    }

    #[tokio::test]
    async fn what_the_tool_writes_is_read_from_its_start() {
        let mut tar = run("echo", &Silent).await.unwrap();
        let mut text = String::new();
        (&mut tar)
            .take(4096)
            .read_to_string(&mut text)
            .await
            .unwrap();
        assert!(
            text.starts_with("--variant=minbase") && text.ends_with("trixie -\n"),
            "{text}"
        );
    }
}
