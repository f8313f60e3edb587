//! Why something is not allowed: a constant name for the record, and words that say what to do instead.

use std::fmt;

use super::{
    files::{MAX_FILES, MAX_INLINE_BYTES},
    packages::MAX_PACKAGES,
    program::{
        MAX_ARGS, MAX_CODE_BYTES, MAX_ENV, MAX_STDIN_BYTES, MAX_STRING_BYTES, MAX_STRINGS_BYTES,
    },
};
use crate::types::{
    LimitError, LimitField, MIB, PackageKind, PackageSpecError, PathError, visible,
};

/// The most characters of a caller's text that a message quotes: a message must not be a way to send megabytes
/// back, nor to bring a page of instructions before the model.
const MAX_QUOTED_CHARS: usize = 80;

/// A caller's text, safe to stand in a message: escaped, and cut to 80 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    /// Quotes any text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // Cut first: what is cut off need not be escaped.
        let start = text.char_indices().nth(MAX_QUOTED_CHARS);
        let start = start.map_or(text, |(at, _)| &text[..at]);
        Self::cut(
            &visible::escape_name(start.as_bytes()),
            start.len() < text.len(),
        )
    }

    /// Quotes bytes that need not be text.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let start = &bytes[..bytes.len().min(MAX_QUOTED_CHARS)];
        Self::cut(&visible::escape_name(start), start.len() < bytes.len())
    }

    fn cut(escaped: &str, shortened: bool) -> Self {
        Self(format!("\"{escaped}{}\"", if shortened { "…" } else { "" }))
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why something is not allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Denial {
    /// No language of that name.
    #[error("there is no language {asked}; there are: {known}")]
    UnknownLanguage {
        /// What was asked for.
        asked: Quoted,
        /// Those there are.
        known: String,
    },
    /// A language that the session's image does not run.
    #[error(
        "this session runs {known}, not {asked}: open a session for that language, or run without a session"
    )]
    LanguageNotInSession {
        /// What was asked for.
        asked: Quoted,
        /// What the session's image runs.
        known: String,
    },
    /// No code.
    #[error("code is empty: give the source of the program")]
    CodeEmpty,
    /// Too much code.
    #[error(
        "code has {bytes} bytes, and at most {MAX_CODE_BYTES} are allowed: put data in files instead"
    )]
    CodeTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Too much standard input.
    #[error(
        "stdin has {bytes} bytes, and at most {MAX_STDIN_BYTES} are allowed: upload a file with upload_file and name it in files instead"
    )]
    StdinTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Too many arguments.
    #[error("args has {count} entries, and at most {MAX_ARGS} are allowed")]
    TooManyArgs {
        /// How many there are.
        count: usize,
    },
    /// An argument that no program could be given.
    #[error("args[{at}] has a NUL character, which no argument can have")]
    ArgNul {
        /// Which one, from 0.
        at: usize,
    },
    /// An argument that the kernel would refuse.
    #[error("args[{at}] is longer than {MAX_STRING_BYTES} bytes: pass it in stdin or a file")]
    ArgTooLong {
        /// Which one, from 0.
        at: usize,
    },
    /// Too many arguments in bytes.
    #[error(
        "args has {bytes} bytes in all, and at most {MAX_STRINGS_BYTES} are allowed: pass data in stdin or a file"
    )]
    ArgsTooLarge {
        /// Their size.
        bytes: usize,
    },
    /// Too many variables.
    #[error("env has {count} entries, and at most {MAX_ENV} are allowed")]
    TooManyVariables {
        /// How many there are.
        count: usize,
    },
    /// Not the name of a variable.
    #[error("env has the name {name}: names have letters, digits and `_`, and begin with no digit")]
    VariableName {
        /// The name.
        name: Quoted,
    },
    /// A variable that steers the loader instead of the program.
    #[error(
        "env has {name}, which steers the program loader (LD_* and GLIBC_TUNABLES are refused): leave it out"
    )]
    VariableOfLoader {
        /// The name.
        name: Quoted,
    },
    /// A value that no program could be given.
    #[error("the value of {name} in env has a NUL character, which no variable can have")]
    VariableNul {
        /// The name.
        name: Quoted,
    },
    /// A variable that the kernel would refuse.
    #[error("{name} in env is longer than {MAX_STRING_BYTES} bytes: pass it in stdin or a file")]
    VariableTooLong {
        /// The name.
        name: Quoted,
    },
    /// Too many variables in bytes.
    #[error("env has {bytes} bytes in all, and at most {MAX_STRINGS_BYTES} are allowed")]
    VariablesTooLarge {
        /// Their size.
        bytes: usize,
    },
    /// Too many files.
    #[error(
        "files has {count} entries, and at most {MAX_FILES} are allowed: pack them into an archive and unpack it in the program"
    )]
    TooManyFiles {
        /// How many there are.
        count: usize,
    },
    /// Not a path in the workspace.
    #[error("the path {asked} is not allowed: {error}")]
    Path {
        /// What was asked for.
        asked: Quoted,
        /// What is wrong with it.
        error: PathError,
    },
    /// Two files on one path.
    #[error("files names the path {path} twice: name it once")]
    DuplicatePath {
        /// The path.
        path: Quoted,
    },
    /// A file that would have to be a folder too.
    #[error("files has {path}, and also {parent}, which would have to be a folder for it")]
    PathUnderFile {
        /// The longer path.
        path: Quoted,
        /// The shorter one.
        parent: Quoted,
    },
    /// A path that belljar itself needs.
    #[error("the path {path} is belljar's own: choose another name")]
    ReservedPath {
        /// The path.
        path: Quoted,
    },
    /// Not base64.
    #[error(
        "the base64 of {path} cannot be decoded: use the standard alphabet with padding and without line breaks"
    )]
    Base64 {
        /// The file's path.
        path: Quoted,
    },
    /// Not the id of an upload.
    #[error(
        "there is no upload {asked}, named for {path}: file_id must be one that upload_file returned"
    )]
    FileId {
        /// What was asked for.
        asked: Quoted,
        /// The file's path.
        path: Quoted,
    },
    /// An upload made from another upload.
    #[error("an upload takes text or base64, not a file_id")]
    UploadOfUpload,
    /// Too much inline.
    #[error(
        "the files given inline have {bytes} bytes in all, and at most {MAX_INLINE_BYTES} are allowed in one call: upload them one by one with upload_file"
    )]
    InlineTooLarge {
        /// Their size.
        bytes: usize,
    },
    /// More than the workspace holds.
    #[error(
        "the files have {bytes} bytes in all, and the workspace holds {} (limits.workspace_mib is {mib})",
        u64::from(*mib) * MIB
    )]
    WorkspaceTooSmall {
        /// Their size.
        bytes: usize,
        /// The workspace's size in MiB.
        mib: u32,
    },
    /// A file of this machine, for somebody who is not known to be its user.
    #[error(
        "local_path and save_to reach files of the user who started the server, and only over its standard input and output: give text or base64 instead, and read with fetch_artifact in pieces"
    )]
    LocalFileFromAfar,
    /// A limit outside its range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A limit that was fixed when the session was opened.
    #[error(
        "{field} was fixed when the session was opened; a run may choose only timeout_seconds and limits.output_kib: leave it out, or open a session with other limits"
    )]
    SessionLimit {
        /// The limit.
        field: LimitField,
    },
    /// A network other than the session's.
    #[error(
        "this session was opened with network {fixed}, not {asked}: leave network out, or open a session with it"
    )]
    SessionNetwork {
        /// What was asked for.
        asked: Quoted,
        /// What the session has.
        fixed: String,
    },
    /// No egress profile of that name.
    #[error(
        "no egress profile named {asked} is configured; there are: {known}. Leave network out to run without any"
    )]
    UnknownNetwork {
        /// What was asked for.
        asked: Quoted,
        /// Those there are.
        known: String,
    },
    /// Packages, where the operator opened none of that kind.
    #[error(
        "packages are off: the operator enables them with [packages.{kind}] in the configuration"
    )]
    PackagesOff {
        /// Whose packages.
        kind: PackageKind,
    },
    /// Packages for a caller who may not ask for any.
    #[error(
        "packages are not for this caller: packages.callers in the operator's configuration says who may ask for them"
    )]
    PackagesCaller,
    /// Packages for a language whose image has no installer.
    #[error(
        "no packages can be put in for {language}: its image says no installer. Ask for them with {known}"
    )]
    PackagesLanguage {
        /// The language's own name.
        language: String,
        /// The languages that have one.
        known: String,
    },
    /// Too many packages.
    #[error("packages has {count} entries, and at most {MAX_PACKAGES} are allowed")]
    TooManyPackages {
        /// How many there are.
        count: usize,
    },
    /// Not a package.
    #[error("packages has {asked}: {error}")]
    Package {
        /// What was asked for.
        asked: Quoted,
        /// What is wrong with it.
        error: PackageSpecError,
    },
}

impl Denial {
    /// The constant name of the reason, for the audit log and for tests.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownLanguage { .. } => "unknown_language",
            Self::LanguageNotInSession { .. } => "language_not_in_session",
            Self::CodeEmpty => "code_empty",
            Self::CodeTooLarge { .. } => "code_too_large",
            Self::StdinTooLarge { .. } => "stdin_too_large",
            Self::TooManyArgs { .. } => "too_many_args",
            Self::ArgNul { .. } => "arg_nul",
            Self::ArgTooLong { .. } => "arg_too_long",
            Self::ArgsTooLarge { .. } => "args_too_large",
            Self::TooManyVariables { .. } => "too_many_variables",
            Self::VariableName { .. } => "variable_name",
            Self::VariableOfLoader { .. } => "variable_of_loader",
            Self::VariableNul { .. } => "variable_nul",
            Self::VariableTooLong { .. } => "variable_too_long",
            Self::VariablesTooLarge { .. } => "variables_too_large",
            Self::TooManyFiles { .. } => "too_many_files",
            Self::Path { .. } => "path",
            Self::DuplicatePath { .. } => "duplicate_path",
            Self::PathUnderFile { .. } => "path_under_file",
            Self::ReservedPath { .. } => "reserved_path",
            Self::Base64 { .. } => "base64",
            Self::FileId { .. } => "file_id",
            Self::UploadOfUpload => "upload_of_upload",
            Self::InlineTooLarge { .. } => "inline_too_large",
            Self::WorkspaceTooSmall { .. } => "workspace_too_small",
            Self::LocalFileFromAfar => "local_file_from_afar",
            Self::Limit(_) => "limit",
            Self::SessionLimit { .. } => "session_limit",
            Self::SessionNetwork { .. } => "session_network",
            Self::UnknownNetwork { .. } => "unknown_network",
            Self::PackagesOff { .. } => "packages_off",
            Self::PackagesCaller => "packages_caller",
            Self::PackagesLanguage { .. } => "packages_language",
            Self::TooManyPackages { .. } => "too_many_packages",
            Self::Package { .. } => "package",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quotation_is_short_and_shows_its_tricks() {
        assert_eq!(
            Quoted::new("py\n\u{202e}thon").to_string(),
            "\"py\\n\\u{202e}thon\""
        );
        let long = Quoted::new(&"x".repeat(1_000_000)).to_string();
        assert_eq!(long, format!("\"{}…\"", "x".repeat(MAX_QUOTED_CHARS)));
    }

    proptest! {
        #[test]
        fn no_quotation_carries_a_forbidden_character_or_much(text in any::<String>()) {
            let quoted = Quoted::new(&text).to_string();
            prop_assert!(!quoted.chars().any(|c| visible::is_forbidden(c) || c == '\n'));
            // The longest escape is `\u{10ffff}`.
            prop_assert!(quoted.chars().count() <= MAX_QUOTED_CHARS * 10 + 3);
        }
    }
}
