//! The messages in control frames.
//!
//! Plain values without behaviour. What the guest says in them is a claim, never a fact: figures,
//! names and errors are bounded by the frame and judged by the server. No message carries free text
//! from the guest.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

/// The first frame of every stream that the server opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Opens the connection; its stream stays open for [`ToHello`] and [`FromHello`].
    Hello(Hello),
    /// Runs one program. The stream then carries stdin ([`crate::frame::Kind::Data`] and
    /// [`ToRun::StdinEnd`]) one way; [`FromRun`], stdout and stderr the other. The server's dropping
    /// of the stream kills the run.
    Run(RunSpec),
    /// Starts an interpreter that waits for its program; the guest answers with [`FromWarm`]. The
    /// server's dropping of the stream before the answer ends it.
    Warm(WarmSpec),
    /// Kills the run of this number, if it still runs. On a stream of its own, since stdin that
    /// nobody reads may have filled the run's. The guest closes the stream without a word.
    Kill(RunId),
    /// Writes one file: exactly `size` bytes follow in data frames, then the guest answers with a
    /// `Result<Entry, GuestError>`.
    Write(WriteFile),
    /// Reads one file: the guest answers with `Result<Entry, GuestError>`, then sends data frames
    /// and [`ReadEnd`].
    Read(ReadFile),
    /// Lists the workspace: the guest sends [`FromList`].
    List(ListDir),
    /// Opens the way out: the guest listens on loopback for the programs' connections and opens a
    /// stream for each, at most [`crate::limits::MAX_TUNNELS`] at a time. It answers with one
    /// [`FromEgress`]; the server then sends [`ToEgress`]. The end of the stream closes the listener
    /// and cuts every connection, and then the guest closes its side. One at a time.
    Egress(EgressSpec),
}

/// The way out to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressSpec {
    /// Certificates, as PEM, that programs have to trust beside those of the image.
    pub trust: Vec<u8>,
}

/// Where the guest listens, on 127.0.0.1, unless the port is taken: then on any other.
pub const EGRESS_PORT: u16 = 3128;

/// The file with the certificates that programs have to trust: the image's own and
/// [`EgressSpec::trust`]. There while the way out is open.
pub const TRUST_FILE: &str = "/tmp/.belljar/ca.pem";

/// What the guest says on the stream of a [`Request::Egress`]; nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromEgress {
    /// It listens, and [`TRUST_FILE`] is there.
    Open {
        /// The port on 127.0.0.1.
        port: NonZeroU16,
    },
    /// It does not.
    Failed(GuestError),
}

/// What the server says on the stream of a [`Request::Egress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToEgress {
    /// This stream of the guest's, by the multiplexer's number, is over at the server's end; another
    /// may be opened in its place. The guest cannot know it otherwise: a reset has no answer, so that
    /// one that opened a new stream for each that it had cut would seem to have too many, and a stream
    /// whose one direction has ended looks the same when nobody listens to the other any more.
    Over(u32),
}

/// The server's opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
}

/// What the server says on the hello's stream afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHello {
    /// "I am still here." A guest that hears none for 30 s ends itself.
    Ping(u64),
}

/// What the guest says on the hello's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromHello {
    /// The answer to [`Hello`].
    Ready(Ready),
    /// The answer to a ping, with its number.
    Pong(u64),
}

/// The guest's answer to [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
    /// The uid that it runs as.
    pub uid: u32,
}

/// Numbers the runs of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Chosen by the server's end of the tether.
    pub id: RunId,
    /// The command; the first is looked up in the `PATH` of `env` unless it holds a slash.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Working directory, absolute.
    pub cwd: String,
    /// The program's own file: written before the run, removed after it.
    pub program: Option<InlineFile>,
    /// Inputs written before the run.
    pub files: Vec<InlineFile>,
    /// Where standard input comes from.
    pub stdin: StdinKind,
    /// Wall clock in milliseconds, from the start of the program.
    pub timeout_ms: u64,
    /// `RLIMIT_NPROC`, only under runtimes where nothing better bounds processes.
    pub nproc: Option<u64>,
    /// What to report of the files that the run left.
    pub collect: Collect,
    /// What to tell the interpreter that waits, if one does; absent: start a new one in any case.
    pub warm: Option<Handover>,
}

/// An interpreter to start before its program is known. It is the process that the program will
/// run in: its command is the language's own, and it stops in a hook of the image until it hears of
/// its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmSpec {
    /// The command, as in [`RunSpec::argv`], without arguments of a program's.
    pub argv: Vec<String>,
    /// The whole environment, with what tells the hook to wait.
    pub env: Vec<(String, String)>,
    /// Working directory, absolute.
    pub cwd: String,
    /// As in [`RunSpec::nproc`].
    pub nproc: Option<u64>,
}

/// What an interpreter that waits is told of its program, beside the environment and standard input
/// of the [`RunSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The program's arguments.
    pub args: Vec<String>,
}

/// The guest's answer to [`Request::Warm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromWarm {
    /// An interpreter waits. The next run takes it or ends it.
    Ready,
    /// None does: the hook did not say that it waits, or a run came first. The next run starts its
    /// own, as ever.
    Failed,
}

/// A small file inside a request. Mode 0644.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineFile {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Where standard input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdinKind {
    /// `/dev/null`.
    Null,
    /// The run's stream.
    Stream,
}

/// What to report of the files that a run left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    /// Directory names to pass over, at any depth.
    pub skip_dirs: Vec<String>,
    /// [`FromRun::NewFile`] at most this often; the rest is counted.
    pub max_files: u32,
}

/// What the server says on a run's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRun {
    /// Standard input is complete.
    StdinEnd,
}

/// What the guest says on a run's stream, in this order: `Started`, then any number of stdout and
/// stderr frames, then `NewFile`s, then `Exited`. Or `Failed` alone in place of `Started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRun {
    /// The program runs.
    Started {
        /// Whether an interpreter that waited runs it.
        warm: bool,
    },
    /// A regular file that is new or changed since the run began.
    NewFile(Entry),
    /// Every process of the run is dead and everything was said.
    Exited(Exit),
    /// The program did not start.
    Failed(GuestError),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Of the main process.
    pub status: ExitStatus,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// Processes that the kernel killed for want of memory during this run.
    pub oom_kills: u64,
    /// User and system time of the run's processes, in microseconds.
    pub cpu_us: u64,
    /// Largest resident set of any one process of the run, in bytes.
    pub peak_rss_bytes: u64,
    /// From start to end of the main process, in microseconds.
    pub wall_us: u64,
    /// New or changed files that were not reported.
    pub files_omitted: u64,
}

/// Exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Who ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndedBy {
    /// The program itself, or its own signal.
    Itself,
    /// The deadline.
    Deadline,
    /// [`Request::Kill`].
    Killed,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFile {
    /// Relative to the workspace; missing directories are made.
    pub path: Vec<u8>,
    /// Exactly this many bytes follow.
    pub size: u64,
}

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// First byte wanted.
    pub offset: u64,
    /// At most this many bytes.
    pub length: u64,
}

/// The end of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadEnd {
    /// Everything asked for, or up to the file's end.
    Complete,
    /// The file could not be read further.
    Broken(GuestError),
}

/// A directory to list, recursively.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDir {
    /// Relative to the workspace; empty for the workspace itself.
    pub path: Vec<u8>,
    /// At most this many entries; the rest is counted.
    pub max_entries: u32,
    /// Whether names that start with a dot are listed.
    pub hidden: Hidden,
}

/// What to do with names that start with a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hidden {
    /// Pass over them and what is below them.
    Skip,
    /// List them like others.
    List,
}

/// What the guest says on a listing's stream: any number of `Entry`, then one of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromList {
    /// One entry.
    Entry(Entry),
    /// The end.
    End {
        /// Entries that were not sent.
        omitted: u64,
    },
    /// The directory cannot be listed.
    Failed(GuestError),
}

/// Something in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// What it is; links are not followed.
    pub kind: EntryKind,
    /// Size of a regular file, else 0.
    pub bytes: u64,
    /// Milliseconds since 1970, by the container's clock and whatever the program set.
    pub modified_ms: i64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A device, a FIFO or a socket.
    Other,
}

/// Why the guest could not do something. Kinds only, never free text: what the guest says must not
/// reach a reader as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum GuestError {
    /// Nothing of that name.
    #[error("no such file or directory in the workspace")]
    NotFound,
    /// A link, a directory, a device, a FIFO or a socket where a regular file is needed.
    #[error("not a regular file")]
    NotRegular,
    /// A file, a link or something else where a directory is needed.
    #[error("not a directory")]
    NotDirectory,
    /// An absolute path, `..`, a NUL or an empty name, or a link on the way.
    #[error("path leads outside the workspace")]
    OutsideWorkspace,
    /// The path is too long or too deep.
    #[error("path is too long or too deep")]
    PathTooLong,
    /// The workspace is full, in bytes or in inodes.
    #[error("no space left in the workspace")]
    NoSpace,
    /// Something that cannot be replaced by a file is there already.
    #[error("something that is not a file is already there")]
    Exists,
    /// The program made it inaccessible.
    #[error("permission denied")]
    Denied,
    /// Another run is still going on.
    #[error("another program is still running")]
    Busy,
    /// The request makes no sense: no command, a NUL in an argument.
    #[error("malformed request")]
    Malformed,
    /// The command is not in the `PATH`, or not executable.
    #[error("the program's command cannot be started (error {errno})")]
    Spawn {
        /// The kernel's error number.
        errno: i32,
    },
    /// The namespaces that keep a program from the guest cannot be made.
    #[error("the program cannot be shut into namespaces of its own (error {errno})")]
    Namespace {
        /// The kernel's error number.
        errno: i32,
    },
    /// Any other error of the kernel.
    #[error("input or output failed (error {errno})")]
    Io {
        /// The kernel's error number.
        errno: i32,
    },
}
