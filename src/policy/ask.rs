//! What callers ask for, as it came: nothing in here has been checked.

use std::collections::BTreeMap;

use crate::types::LimitsRequest;

/// A program to run, in a fresh sandbox or in a session.
#[derive(Clone, Debug, Default)]
pub struct RunAsk {
    /// A language's name or alias.
    pub language: String,
    /// The source.
    pub code: String,
    /// Text for standard input; absent: none.
    pub stdin: Option<String>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Extra variables.
    pub env: BTreeMap<String, String>,
    /// Inputs to put in the workspace before the run.
    pub files: Vec<FileAsk>,
    /// The wall time in seconds.
    pub timeout_seconds: Option<f64>,
    /// Limits; in a session, only the output's.
    pub limits: LimitsRequest,
    /// The name of an egress profile.
    pub network: Option<String>,
    /// Packages to put in before the program.
    pub packages: Vec<String>,
}

/// One input of a run.
#[derive(Clone, Debug)]
pub struct FileAsk {
    /// Where it goes, in the form in which names are shown.
    pub path: String,
    /// What it holds.
    pub source: FileSource,
}

/// What a file holds, as the caller says it.
#[derive(Clone, Debug)]
pub enum FileSource {
    /// An upload, by its id.
    Upload(String),
    /// Text.
    Text(String),
    /// Bytes in standard base64.
    Base64(String),
}

/// A session to open.
#[derive(Clone, Debug, Default)]
pub struct SessionAsk {
    /// The name or alias of the language whose image the session gets.
    pub language: String,
    /// The name of an egress profile.
    pub network: Option<String>,
    /// The lease in seconds.
    pub ttl_seconds: Option<u64>,
    /// Limits.
    pub limits: LimitsRequest,
    /// Packages to put in before the first program.
    pub packages: Vec<String>,
}

/// A file to keep or to write into a session, given inline.
#[derive(Clone, Debug)]
pub struct UploadAsk {
    /// Where it goes, in the form in which names are shown.
    pub path: String,
    /// What it holds; an upload's id is no content for another upload.
    pub source: FileSource,
}
