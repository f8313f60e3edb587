//! Finding and reading the one file.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    thread,
};

use super::{ConfigError, Environment, Settings, check, raw::RawConfig};
use crate::{
    images::catalogue,
    types::{Cpus, read_at_most},
};

/// The longest configuration file, in bytes: one named by mistake, such as a disk, must not fill the memory.
pub const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Where the settings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// `--config` named a file.
    Flag(PathBuf),
    /// `BELLJAR_CONFIG` named a file.
    Variable(PathBuf),
    /// The file lies where configuration lies by default.
    Default(PathBuf),
    /// There is no file: the closed defaults hold.
    BuiltIn,
}

impl FileOrigin {
    /// The file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Flag(path) | Self::Variable(path) | Self::Default(path) => Some(path),
            Self::BuiltIn => None,
        }
    }
}

impl fmt::Display for FileOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag(_) => "--config",
            Self::Variable(_) => "BELLJAR_CONFIG",
            Self::Default(_) => "the default place",
            Self::BuiltIn => "built-in defaults",
        })
    }
}

/// The processors of this machine: the ceiling of `limits.cpus` unless the operator sets one. A remote daemon may
/// have fewer, and then refuses to start what asks for more.
#[must_use]
pub fn machine_cpus() -> Cpus {
    let count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Cpus::from_millis(u32::try_from(count).unwrap_or(1).saturating_mul(1000))
}

impl Settings {
    /// Reads the settings: from `flag` (`--config`), else the file that `BELLJAR_CONFIG` names, else the default
    /// place, else the closed defaults. A file that was named must exist.
    pub fn load(environment: &Environment, flag: Option<&Path>) -> Result<Self, ConfigError> {
        let origin = if let Some(path) = flag {
            FileOrigin::Flag(path.to_path_buf())
        } else if let Some(path) = environment.named_config()? {
            FileOrigin::Variable(path.to_path_buf())
        } else if let Some(path) = environment.default_config() {
            FileOrigin::Default(path)
        } else {
            FileOrigin::BuiltIn
        };
        let Some(path) = origin.path() else {
            return Self::defaults(machine_cpus());
        };
        match read(path)? {
            Some(text) => Self::parse(&text, origin, machine_cpus()),
            None if matches!(origin, FileOrigin::Default(_)) => Self::defaults(machine_cpus()),
            None => Err(ConfigError::Missing {
                path: path.to_path_buf(),
                origin,
            }),
        }
    }

    /// The closed defaults, on a machine with so many processors.
    pub fn defaults(machine: Cpus) -> Result<Self, ConfigError> {
        Self::parse("", FileOrigin::BuiltIn, machine)
    }

    /// Checks the text of a configuration file; `origin` names it in messages, and the paths of certificates are relative
    /// to its folder. Those are read here.
    pub fn parse(text: &str, origin: FileOrigin, machine: Cpus) -> Result<Self, ConfigError> {
        let path = || {
            origin
                .path()
                .unwrap_or(Path::new("configuration"))
                .to_path_buf()
        };
        let raw: RawConfig = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            path: path(),
            error: Box::new(error),
        })?;
        let built_in = catalogue()?.into_iter().map(|one| one.image).collect();
        let folder = origin.path().and_then(Path::parent);
        match check::checked(raw, machine, built_in, folder.unwrap_or(Path::new(""))) {
            Ok(settings) => Ok(Self { origin, ..settings }),
            Err(problem) => Err(ConfigError::Invalid {
                path: path(),
                problem,
            }),
        }
    }
}

/// The text of a file; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable {
        path: path.to_path_buf(),
        error,
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    // Asked of the open file: the one at the path may be another by now.
    // Whoever may write the file decides what the jail is.
    if is_world_writable(&file.metadata().map_err(unreadable)?) {
        return Err(ConfigError::WorldWritable {
            path: path.to_path_buf(),
        });
    }
    let bytes = read_at_most(file, MAX_CONFIG_BYTES + 1).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(ConfigError::TooLarge {
            path: path.to_path_buf(),
        });
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| ConfigError::NotUtf8 {
            path: path.to_path_buf(),
        })
}

/// Whether everybody on the machine may write the file. That a group may is borne, since many systems give each user a
/// group of their own and a umask of 002.
#[cfg(unix)]
pub(super) fn is_world_writable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS_MAY_WRITE: u32 = 0o002;
    metadata.is_file() && metadata.permissions().mode() & OTHERS_MAY_WRITE != 0
}

/// Elsewhere, rights are lists that a mode does not show.
#[cfg(not(unix))]
pub(super) fn is_world_writable(_metadata: &fs::Metadata) -> bool {
    false
}
