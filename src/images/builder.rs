//! What building an image needs of a daemon. The engine's `docker_images` does it over Docker's API.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;

use super::line::Progress;

/// Why a daemon did not do what was asked. What it quotes is bounded and printable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuilderError {
    /// Nothing answers.
    #[error("the Docker daemon does not answer: {why}; start it, then check with `belljar doctor`")]
    Unreachable {
        /// What went wrong.
        why: String,
    },
    /// It took too long.
    #[error("the Docker daemon did not finish `{call}` within {seconds} s")]
    Timeout {
        /// What was asked of it.
        call: &'static str,
        /// Its deadline in seconds.
        seconds: u64,
    },
    /// It refused or failed.
    #[error("the Docker daemon failed `{call}`: {why}")]
    Failed {
        /// What was asked of it.
        call: &'static str,
        /// Its words.
        why: String,
    },
}

/// An image on the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `sha256:…`
    pub id: String,
    /// Its references; none where another image has taken the only one.
    pub tags: Vec<String>,
    /// Its labels, which anybody may have written.
    pub labels: BTreeMap<String, String>,
    /// Size in bytes, what it shares with others included.
    pub bytes: u64,
}

/// Whether a build may reuse the layers of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// It may.
    Use,
    /// It may not: every package is fetched anew.
    Ignore,
}

/// One build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// What the image is called.
    pub tag: String,
    /// The build context, a tar.
    pub context: Bytes,
    /// The Dockerfile's path in it.
    pub dockerfile: String,
    /// What it is labelled with.
    pub labels: BTreeMap<String, String>,
    /// Whether earlier layers may be reused.
    pub cache: Cache,
}

/// A daemon that images are built on. Every call has a deadline of its own.
#[async_trait]
pub trait ImageBuilder: Send + Sync {
    /// The processor that the daemon's images are for, as `uname -m` says it.
    async fn architecture(&self) -> Result<String, BuilderError>;

    /// Looks an image up by its reference or its id.
    async fn find(&self, reference: &str) -> Result<Option<Found>, BuilderError>;

    /// Fetches an image from a registry. Where none answers soon, it fails soon.
    async fn pull(&self, reference: &str, progress: &dyn Progress) -> Result<(), BuilderError>;

    /// Makes an image of the tar of a whole root file system.
    async fn import(&self, reference: &str, tar: tokio::fs::File) -> Result<(), BuilderError>;

    /// Builds an image.
    async fn build(
        &self,
        request: BuildRequest,
        progress: &dyn Progress,
    ) -> Result<(), BuilderError>;

    /// Takes the reference off an image, and removes the image if it has no other; or removes an image by
    /// its id, unless a container uses it.
    async fn remove(&self, reference: &str) -> Result<(), BuilderError>;
}
