//! What was allowed, in full: the values that permits carry.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{InstallPlan, Network};
use crate::{
    images::Image,
    types::{FileId, Limits, WallTime, WorkspacePath},
};

/// Where the workspace lies in every sandbox, and where programs start.
pub const WORKSPACE: &str = "/workspace";
/// The search path, unless the image says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One run of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlan {
    /// The language's own name.
    pub language: String,
    /// The command with the program's absolute path, and the program's arguments.
    pub argv: Vec<String>,
    /// How many words of `argv`, from the back, are the program's arguments.
    pub args: usize,
    /// Where the code is written before the run.
    pub program: WorkspacePath,
    /// The source.
    pub code: String,
    /// Text for standard input; absent: none.
    pub stdin: Option<String>,
    /// The inputs, on distinct paths none of which lies beneath another.
    pub files: Vec<InputFile>,
    /// The wall time.
    pub timeout: WallTime,
    /// Output that ends the run, in KiB.
    pub output_kib: u32,
    /// The caller's variables.
    pub env: BTreeMap<String, String>,
    /// The image's and the language's variables.
    pub image_env: BTreeMap<String, String>,
    /// What it may reach.
    pub network: Network,
    /// The image's variables of programs that may reach something.
    pub egress_env: BTreeMap<String, String>,
    /// Whether an interpreter that waits may run it.
    pub start: Start,
    /// What is put in before it; absent: nothing.
    pub packages: Option<InstallPlan>,
}

/// Which interpreter a program gets. What differs is only how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The one that waits, if one does, else a new one.
    Warm,
    /// A new one.
    Cold,
}

impl RunPlan {
    /// The whole environment of the program in the sandbox of user `uid`, with `egress` where it may reach something.
    /// Nothing of the server's is in it. The image's own search path counts where its description says nothing: it is
    /// hostile, and good for programs inside.
    #[must_use]
    pub fn environment(
        &self,
        uid: u32,
        image_path: Option<&str>,
        egress: &BTreeMap<String, String>,
    ) -> Vec<(String, String)> {
        environment(&[&self.image_env, egress, &self.env], uid, image_path)
    }
}

/// What every program's environment begins with, and `layers` over it, the last of which wins.
pub(super) fn environment(
    layers: &[&BTreeMap<String, String>],
    uid: u32,
    image_path: Option<&str>,
) -> Vec<(String, String)> {
    let user = format!("sandbox{uid}");
    let fixed = [
        ("PATH", image_path.unwrap_or(PATH).to_owned()),
        ("HOME", format!("{WORKSPACE}/.home")),
        ("LANG", "C.UTF-8".to_owned()),
        ("LOGNAME", user.clone()),
        ("USER", user),
    ];
    let mut all: BTreeMap<String, String> = fixed
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    for layer in layers {
        all.extend(
            layer
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
    all.into_iter().collect()
}

/// One input of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Where it goes.
    pub path: WorkspacePath,
    /// What it holds.
    pub content: Content,
}

/// What an input holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Inline(Vec<u8>),
    /// What the caller uploaded before. Whether there is such an upload is not known yet.
    Upload(FileId),
}

/// What a session was opened with. It stays so until the session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTerms {
    /// The language that the caller named, by its own name.
    pub language: String,
    /// The image, with every language that it runs.
    pub image: Arc<Image>,
    /// The limits; of these, a run may choose the output's.
    pub limits: Limits,
    /// What its programs may reach.
    pub network: Network,
    /// The whole lease.
    pub ttl: Duration,
    /// How long the session may lie idle.
    pub idle: Duration,
}

/// A file to keep or to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Where it goes.
    pub path: WorkspacePath,
    /// What it holds.
    pub bytes: Vec<u8>,
}
