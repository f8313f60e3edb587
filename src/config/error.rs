//! What can be wrong with a configuration. Each message names the place, what was found and what is allowed.

use std::{borrow::Cow, path::PathBuf};

use super::{EgressProblem, FileOrigin, MAX_CONFIG_BYTES, UrlError, words::Words};
use crate::images::ManifestError;

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that somebody named does not exist.
    #[error(
        "there is no configuration file at {}, named by {origin}: create it (`belljar config show` prints the defaults), or name another",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// Who named it.
        origin: FileOrigin,
    },
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Everybody on the machine could open the jail.
    #[error(
        "the configuration file {0} can be written by every user of this machine: run `chmod o-w {0}`",
        path.display()
    )]
    WorldWritable {
        /// The file.
        path: PathBuf,
    },
    /// More than a configuration can be.
    #[error("the configuration file {} is longer than {MAX_CONFIG_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Bytes that are no text.
    #[error("the configuration file {} is not UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// No TOML, a key that does not exist, or a value of the wrong kind.
    #[error("{}: {}", path.display(), Words(error))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        error: Box<toml::de::Error>,
    },
    /// A value that is not allowed.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The key and what is wrong with it.
        problem: Problem,
    },
    /// A folder given on the command line that is not allowed.
    #[error(transparent)]
    Argument(Problem),
    /// A variable that must hold an absolute path does not.
    #[error(
        "{variable} is {}: it must be an absolute path, so that it does not depend on the current directory",
        path.display()
    )]
    RelativeVariable {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        path: PathBuf,
    },
    /// Neither a variable nor a home says where state goes.
    #[error("there is no place for state: set BELLJAR_STATE_DIR to an absolute path")]
    NoStateDir,
    /// A built-in image is described wrongly: belljar itself is broken.
    #[error(transparent)]
    BuiltIn(#[from] ManifestError),
    /// The settings could not be written out.
    #[error("cannot write the settings as TOML: {0}")]
    Show(#[from] toml::ser::Error),
}

/// What is wrong with one key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A number outside its range.
    #[error("{key} is {found}: it must lie between {least} and {most}")]
    OutOfRange {
        /// The key.
        key: Cow<'static, str>,
        /// The value in the file.
        found: f64,
        /// The least value.
        least: f64,
        /// The largest value.
        most: f64,
    },
    /// A default that no call could be given.
    #[error(
        "{key} is {found}, above {ceiling_key}, which is {ceiling}: lower the one or raise the other"
    )]
    AboveCeiling {
        /// The key of the default.
        key: &'static str,
        /// The default.
        found: f64,
        /// The key of the ceiling.
        ceiling_key: &'static str,
        /// The ceiling.
        ceiling: f64,
    },
    /// Sessions could take every place and no plain run would find one.
    #[error(
        "sessions.max is {sessions}: it must be below concurrency.max_sandboxes, which is {sandboxes}, so that runs without a session find a place"
    )]
    SessionsFillAll {
        /// `sessions.max`
        sessions: u32,
        /// `concurrency.max_sandboxes`
        sandboxes: u32,
    },
    /// More sandboxes shall wait than may.
    #[error(
        "pool.min asks for {wanted} waiting sandboxes in all, with one lot for each of pool.languages; pool.max allows {max}: raise it, or lower pool.min"
    )]
    PoolFloor {
        /// `pool.min` times the number of languages.
        wanted: u64,
        /// `pool.max`
        max: u32,
    },
    /// A language that nobody knows.
    #[error("pool.languages has {found:?}, which is no language; there are {known}")]
    PoolLanguage {
        /// The name in the file.
        found: String,
        /// All names.
        known: String,
    },
    /// Not an address of a daemon that we can speak to.
    #[error(
        "docker.host is {found:?}: it must begin with unix://, npipe://, tcp:// or http://, and name something"
    )]
    DockerHost {
        /// The value in the file.
        found: String,
    },
    /// Not a runtime's name.
    #[error(
        "docker.runtime is {found:?}: it must be a runtime's name as `docker info` lists it, such as runc or runsc"
    )]
    DockerRuntime {
        /// The value in the file.
        found: String,
    },
    /// A folder that depends on the current directory, or that leads elsewhere than it says.
    #[error("{key} has {}: it must be an absolute path without `..`", found.display())]
    AllowedFolder {
        /// The key or flag.
        key: &'static str,
        /// The path found.
        found: PathBuf,
    },
    /// A name that could not be told apart from others or shown plainly.
    #[error(
        "language {language:?} has {key} {found:?}: names have 1 to 32 characters of a-z, 0-9, `+`, `#`, `.`, `_`, `-` and begin with a letter"
    )]
    LanguageName {
        /// The entry's name as found.
        language: String,
        /// `name` or `aliases`.
        key: &'static str,
        /// What was found.
        found: String,
    },
    /// Two languages answer to one name.
    #[error(
        "language {language:?} has the name or alias {found:?}, which {other:?} has already: leave it out of one of them"
    )]
    LanguageClash {
        /// The later entry.
        language: String,
        /// The name that both have.
        found: String,
        /// The earlier entry.
        other: String,
    },
    /// Not the reference of an image.
    #[error(
        "language {language:?} has image {found:?}: it must be a reference such as python:3.13-alpine or registry.example/name@sha256:…"
    )]
    LanguageImage {
        /// The entry's name.
        language: String,
        /// The value in the file.
        found: String,
    },
    /// Not the name of a hidden file.
    #[error(
        "language {language:?} has program {found:?}: it must be a hidden file name of 2 to 64 characters of A-Z, a-z, 0-9, `.`, `_`, `-`, such as .main.py"
    )]
    LanguageProgram {
        /// The entry's name.
        language: String,
        /// The value in the file.
        found: String,
    },
    /// A command that would not run the program, or would have its path twice.
    #[error(
        "language {language:?} has command {found:?}: it must be a list of 1 to 32 non-empty strings without NUL, with {{program}} in it exactly once"
    )]
    LanguageCommand {
        /// The entry's name.
        language: String,
        /// The value in the file.
        found: Vec<String>,
    },
    /// A variable that cannot or must not be set.
    #[error(
        "language {language:?} has the variable {name:?} in env: names have letters, digits and `_` and begin with no digit, values have no NUL, and variables of the loader (LD_*, GLIBC_TUNABLES) are refused"
    )]
    LanguageVariable {
        /// The entry's name.
        language: String,
        /// The variable.
        name: String,
    },
    /// Shared memory outside its range.
    #[error("language {language:?} has shm_mib {found}: it must lie between 1 and {most}")]
    LanguageShm {
        /// The entry's name.
        language: String,
        /// The value in the file.
        found: u32,
        /// The largest value.
        most: u32,
    },
    /// A profile of the network, or a secret, that is wrong.
    #[error("{key}: {problem}")]
    Egress {
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: Box<EgressProblem>,
    },
    /// A registry's address that is none. It is not shown: there may be a password in it.
    #[error("{key}: the address {error}")]
    RegistryUrl {
        /// The key.
        key: String,
        /// What is wrong with it.
        error: UrlError,
    },
    /// A registry's address with a query, which nothing could be put behind.
    #[error("{key} is {found:?}: the address of a registry has no `?` in it")]
    RegistryQuery {
        /// The key.
        key: String,
        /// The value in the file.
        found: String,
    },
}
