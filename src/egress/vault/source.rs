//! Gets secrets from where the operator keeps them: a variable, a file, a command.
//!
//! An error names the source and what is wrong with it, never a byte of what it held. No shell is involved, and a
//! command runs in the root folder: what lies in the folder that the server was started in must not change it.

use std::{io, path::Path, process::Stdio, time::Duration};

use tokio::{
    fs::OpenOptions,
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
};
use zeroize::Zeroizing;

use crate::{
    config::{Environment, SecretSource},
    types::Secret,
};

/// The shortest secret, in bytes. A shorter one would be met by chance in what has nothing to do with it, and what is
/// found that easily can be guessed that easily.
pub(super) const MIN_SECRET_BYTES: usize = 8;
/// The longest secret, in bytes: no server takes longer headers. Stops a wrong file from being sent in a header, and
/// bounds what is held back of an answer.
pub(super) const MAX_SECRET_BYTES: usize = 8 * 1024;
/// How long a command may take. Stops one that waits for an answer on a terminal that is not there.
const COMMAND_DEADLINE: Duration = Duration::from_secs(10);

/// Gets one secret, or says in words why not.
pub(super) async fn obtain(source: &SecretSource) -> Result<Secret, String> {
    match source {
        SecretSource::Env(name) => {
            let secret = Environment::secret(name).ok_or_else(|| {
                format!("the server's environment has no variable {name}, or one that is no text")
            })?;
            checked(secret.expose().as_bytes())
        }
        SecretSource::File(path) => file(path).await,
        SecretSource::Command { argv, .. } => {
            let (program, arguments) = argv
                .split_first()
                .ok_or_else(|| "there is no command".to_owned())?;
            match tokio::time::timeout(COMMAND_DEADLINE, command(program, arguments)).await {
                Ok(done) => done,
                Err(_) => Err(format!(
                    "the command {program} did not end within {} s",
                    COMMAND_DEADLINE.as_secs()
                )),
            }
        }
    }
}

async fn file(path: &Path) -> Result<Secret, String> {
    let failed = |error: io::Error| format!("the file {}: {error}", path.display());
    let mut options = OpenOptions::new();
    options.read(true);
    // Otherwise a pipe would have us wait for whoever writes to it.
    #[cfg(unix)]
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let mut file = options.open(path).await.map_err(failed)?;
    // Asked of the open file: the one at the path may be another by now.
    let metadata = file.metadata().await.map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{} is no regular file", path.display()));
    }
    refuse_open_to_all(path, &metadata)?;
    let held = read(&mut file).await.map_err(failed)?;
    one_line(&held)
}

/// What everybody on this machine can read is no secret.
#[cfg(unix)]
fn refuse_open_to_all(path: &Path, metadata: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS_MAY_READ_OR_WRITE: u32 = 0o006;
    if metadata.permissions().mode() & OTHERS_MAY_READ_OR_WRITE == 0 {
        Ok(())
    } else {
        let path = path.display();
        Err(format!(
            "everybody on this machine may read or write {path}: run `chmod o-rwx {path}`"
        ))
    }
}

/// Elsewhere, rights are lists that a mode does not show.
#[cfg(not(unix))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the same signature on every platform"
)]
fn refuse_open_to_all(_path: &Path, _metadata: &std::fs::Metadata) -> Result<(), String> {
    Ok(())
}

/// Runs a command and takes what it prints.
async fn command(program: &str, arguments: &[String]) -> Result<Secret, String> {
    let failed = |error: io::Error| format!("the command {program}: {error}");
    let path = Path::new(program);
    if path.components().count() > 1 && !path.is_absolute() {
        return Err(format!(
            "the command {program} is a relative path: name it alone, or from the root"
        ));
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.current_dir("/").process_group(0);
    let mut family = Family(command.spawn().map_err(failed)?);
    let child = &mut family.0;
    let held = match child.stdout.take() {
        Some(mut stdout) => read(&mut stdout).await.map_err(failed)?,
        None => Zeroizing::default(),
    };
    if held.len() > MOST_READ {
        return one_line(&held);
    }
    let status = child.wait().await.map_err(failed)?;
    if !status.success() {
        return Err(format!("the command {program} ended with {status}"));
    }
    one_line(&held)
}

/// A command with the processes that it started. Dropped before the command was seen to end, all of them are ended:
/// otherwise each run would leave behind what a script waits for.
struct Family(Child);

impl Drop for Family {
    fn drop(&mut self) {
        // There is no id once it was waited for: then the number may be another's, and what it left running, such as
        // an agent, it left on purpose.
        #[cfg(unix)]
        if let Some(leader) = self
            .0
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            // Whoever is gone already needs no end.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// The most that is read of a file or a command, in bytes: a secret and the end of its line.
const MOST_READ: usize = MAX_SECRET_BYTES + 2;

/// Reads to the end, or one byte more than [`MOST_READ`], into memory that is overwritten when it is dropped.
async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut held = Zeroizing::new(vec![0; MOST_READ + 1]);
    let mut length = 0;
    while length < held.len() {
        match reader.read(&mut held[length..]).await? {
            0 => break,
            more => length += more,
        }
    }
    held.truncate(length);
    Ok(held)
}

/// The secret of a file or a command: without the end of its one line.
fn one_line(held: &[u8]) -> Result<Secret, String> {
    let line = held.strip_suffix(b"\n").unwrap_or(held);
    checked(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Takes only what can stand in a header and can be found again.
fn checked(text: &[u8]) -> Result<Secret, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > MAX_SECRET_BYTES {
        return Err(format!("it is longer than {MAX_SECRET_BYTES} bytes"));
    }
    if text.contains(&b'\n') || text.contains(&b'\r') {
        return Err("it has more than one line".to_owned());
    }
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        .ok_or("it has control characters, or characters beyond ASCII")?;
    if text.trim() != text {
        return Err("it begins or ends with a space".to_owned());
    }
    if text.len() < MIN_SECRET_BYTES {
        return Err(format!(
            "it is shorter than {MIN_SECRET_BYTES} characters, too short to be found safely in what comes back"
        ));
    }
    Ok(Secret::new(text.to_owned()))
}
