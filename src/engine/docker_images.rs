//! Builds images over Docker's API: what `belljar images` needs, and nothing that a tool call reaches.
//!
//! The classic builder is used, which every daemon has and which needs no session of its own. Every call has
//! a deadline, since a registry or a package mirror that stops in the middle must not hang the command; what
//! the daemon says passes through [`Line`].
#![expect(
    clippy::disallowed_types,
    reason = "beside the engine's own adapter, the only place that speaks to Docker"
)]

use std::{collections::VecDeque, time::Duration};

use async_trait::async_trait;
use bollard::{
    Docker, body_full, body_try_stream,
    errors::Error,
    models::{BuildInfo, CreateImageInfo},
    query_parameters::{BuildImageOptions, BuilderVersion, CreateImageOptions, RemoveImageOptions},
};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::io::ReaderStream;

use crate::images::{BuildRequest, BuilderError, Cache, Found, ImageBuilder, Line, Progress};

/// Questions that the daemon answers from memory.
const QUERY: Duration = Duration::from_secs(20);
/// How soon a registry must answer. A machine without one must learn so quickly.
const FIRST_ANSWER: Duration = Duration::from_secs(20);
/// A whole pull: 30 MB over a slow line.
const PULL: Duration = Duration::from_mins(10);
/// Importing the base, 80 MB over a local socket.
const IMPORT: Duration = Duration::from_mins(10);
/// A whole build: 200 MB of packages over a slow line, unpacked on a slow disk.
const BUILD: Duration = Duration::from_hours(1);
/// Removing an image, with its layers.
const REMOVE: Duration = Duration::from_mins(5);
/// The last lines of a build that an error quotes.
const QUOTED_LINES: usize = 8;
/// Bytes read at a time from the base's tar.
const CHUNK_BYTES: usize = 256 * 1024;

/// Builds images on one daemon.
#[derive(Clone, Debug)]
pub struct DockerImages {
    docker: Docker,
}

impl DockerImages {
    /// Builds on the daemon of this connection.
    #[must_use]
    pub fn new(docker: Docker) -> Self {
        Self { docker }
    }

    /// The same connection, which waits this long for an answer to begin: an import is answered at its end.
    fn patient(&self, limit: Duration) -> Docker {
        self.docker.clone().with_timeout(limit)
    }
}

#[async_trait]
impl ImageBuilder for DockerImages {
    async fn architecture(&self) -> Result<String, BuilderError> {
        let info = within("info", QUERY, self.docker.info()).await?;
        Ok(info.architecture.unwrap_or_default())
    }

    async fn find(&self, reference: &str) -> Result<Option<Found>, BuilderError> {
        let call = "inspect image";
        match timeout(QUERY, self.docker.inspect_image(reference)).await {
            Err(_) => Err(late(call, QUERY)),
            Ok(Err(Error::DockerResponseServerError {
                status_code: 404, ..
            })) => Ok(None),
            Ok(Err(error)) => Err(failed(call, &error)),
            Ok(Ok(image)) => Ok(Some(Found {
                id: image.id.unwrap_or_default(),
                tags: image.repo_tags.unwrap_or_default(),
                labels: image
                    .config
                    .and_then(|config| config.labels)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
                bytes: image
                    .size
                    .and_then(|size| u64::try_from(size).ok())
                    .unwrap_or(0),
            })),
        }
    }

    async fn pull(&self, reference: &str, progress: &dyn Progress) -> Result<(), BuilderError> {
        let (name, tag) = split(reference);
        let options = CreateImageOptions {
            from_image: Some(name),
            tag: Some(tag),
            ..CreateImageOptions::default()
        };
        let stream = self.docker.create_image(Some(options), None, None);
        let call = Call {
            name: "pull",
            first: FIRST_ANSWER,
            whole: PULL,
        };
        watch(call, stream, progress).await
    }

    async fn import(&self, reference: &str, tar: tokio::fs::File) -> Result<(), BuilderError> {
        let (name, tag) = split(reference);
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            repo: Some(name),
            tag: Some(tag),
            ..CreateImageOptions::default()
        };
        let body = body_try_stream(ReaderStream::with_capacity(tar, CHUNK_BYTES));
        let docker = self.patient(IMPORT);
        let done = docker.create_image(Some(options), Some(body), None);
        within("import", IMPORT, done.try_for_each(|_| async { Ok(()) })).await
    }

    async fn build(
        &self,
        request: BuildRequest,
        progress: &dyn Progress,
    ) -> Result<(), BuilderError> {
        let options = BuildImageOptions {
            dockerfile: request.dockerfile,
            t: Some(request.tag),
            nocache: request.cache == Cache::Ignore,
            rm: true,
            forcerm: true,
            labels: Some(request.labels.into_iter().collect()),
            version: BuilderVersion::BuilderV1,
            ..BuildImageOptions::default()
        };
        let docker = self.patient(BUILD);
        let stream = docker.build_image(options, None, Some(body_full(request.context)));
        let call = Call {
            name: "build",
            first: BUILD,
            whole: BUILD,
        };
        watch(call, stream, progress).await
    }

    async fn remove(&self, reference: &str) -> Result<(), BuilderError> {
        let docker = self.patient(REMOVE);
        // A name may go while containers of its image are left, which then end with what they are for: those that wait
        // for a call go as soon as their server hears of it. An id may not.
        let options = RemoveImageOptions {
            force: !reference.starts_with("sha256:"),
            ..RemoveImageOptions::default()
        };
        let done = docker.remove_image(reference, Some(options), None);
        within("remove image", REMOVE, done).await.map(|_| ())
    }
}

/// A call that reports as it goes.
struct Call {
    name: &'static str,
    /// How soon the first report must come.
    first: Duration,
    /// How soon the last.
    whole: Duration,
}

/// What a report prints.
trait Report {
    fn text(&self) -> Option<&str>;
}

impl Report for BuildInfo {
    fn text(&self) -> Option<&str> {
        self.stream.as_deref()
    }
}

impl Report for CreateImageInfo {
    fn text(&self) -> Option<&str> {
        self.status.as_deref()
    }
}

/// Follows a call to its end, line by line.
async fn watch<R: Report>(
    call: Call,
    stream: impl Stream<Item = Result<R, Error>>,
    progress: &dyn Progress,
) -> Result<(), BuilderError> {
    let mut stream = std::pin::pin!(stream);
    let end = Instant::now() + call.whole;
    let mut limit = call.first;
    let mut until = Instant::now() + call.first;
    let mut last = VecDeque::with_capacity(QUOTED_LINES);
    loop {
        let report = match timeout_at(until, stream.next()).await {
            Err(_) => return Err(late(call.name, limit)),
            Ok(None) => return Ok(()),
            Ok(Some(Ok(report))) => report,
            Ok(Some(Err(error))) => return Err(with_last(failed(call.name, &error), &last)),
        };
        (until, limit) = (end, call.whole);
        for line in Line::split(report.text().unwrap_or_default()) {
            progress.line(&line);
            if last.len() == QUOTED_LINES {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
}

/// Puts what was printed last beside an error: "returned a non-zero code: 100" alone helps nobody.
fn with_last(error: BuilderError, last: &VecDeque<Line>) -> BuilderError {
    match error {
        BuilderError::Failed { call, why } if !last.is_empty() => {
            let lines: Vec<&str> = last.iter().map(Line::as_str).collect();
            BuilderError::Failed {
                call,
                why: format!("{why}; the last lines were:\n  {}", lines.join("\n  ")),
            }
        }
        error => error,
    }
}

async fn within<T>(
    call: &'static str,
    limit: Duration,
    done: impl Future<Output = Result<T, Error>>,
) -> Result<T, BuilderError> {
    match timeout(limit, done).await {
        Err(_) => Err(late(call, limit)),
        Ok(done) => done.map_err(|error| failed(call, &error)),
    }
}

fn late(call: &'static str, limit: Duration) -> BuilderError {
    BuilderError::Timeout {
        call,
        seconds: limit.as_secs(),
    }
}

fn failed(call: &'static str, error: &Error) -> BuilderError {
    let why = Line::new(&error.to_string()).to_string();
    match error {
        Error::HyperResponseError { .. }
        | Error::HyperLegacyError { .. }
        | Error::SocketNotFoundError(_)
        | Error::IOError { .. } => BuilderError::Unreachable { why },
        Error::RequestTimeoutError => late(call, QUERY),
        _ => BuilderError::Failed { call, why },
    }
}

/// `name:tag`, where a colon of a registry's port is none of a tag's.
fn split(reference: &str) -> (String, String) {
    match reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name.to_owned(), tag.to_owned()),
        Some(_) | None => (reference.to_owned(), "latest".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::stream;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Progress for Kept {
        fn begin(&self, _: &str) {}
        fn line(&self, line: &Line) {
            self.0.lock().unwrap().push(line.to_string());
        }
        fn end(&self, _: &str) {}
    }

    const CALL: Call = Call {
        name: "build",
        first: Duration::from_secs(5),
        whole: Duration::from_mins(1),
    };

    fn said(text: &str) -> BuildInfo {
        BuildInfo {
            stream: Some(text.to_owned()),
            ..BuildInfo::default()
        }
    }

    #[tokio::test]
    async fn a_failed_step_is_shown_with_its_last_lines() {
        let kept = Kept::default();
        let reports = stream::iter([
            Ok(said("Step 1/2 : RUN x\n")),
            Ok(said("\u{1b}[91mE: no such package\u{1b}[0m")),
            Err(Error::DockerStreamError {
                error: "returned a non-zero code: 100\u{1b}[2J".to_owned(),
            }),
        ]);
        let error = watch(CALL, reports, &kept).await.unwrap_err().to_string();
        assert!(error.contains("non-zero code: 100\\x1b[2J"), "{error}");
        assert!(error.contains("\n  E: no such package"), "{error}");
        assert_eq!(
            *kept.0.lock().unwrap(),
            ["Step 1/2 : RUN x", "E: no such package"]
        );
    }

    #[tokio::test]
    async fn a_silent_registry_is_given_up_soon_and_a_slow_one_later() {
        let kept = Kept::default();
        let call = |first, whole| Call {
            name: "pull",
            first: Duration::from_secs(first),
            whole: Duration::from_secs(whole),
        };
        let silent = stream::pending::<Result<BuildInfo, Error>>();
        let error = watch(call(0, 600), silent, &kept).await;
        assert_eq!(error, Err(late("pull", Duration::ZERO)));
        let slow = stream::iter([Ok(said("Pulling"))]).chain(stream::pending());
        let error = watch(call(600, 0), slow, &kept).await;
        assert_eq!(error, Err(late("pull", Duration::ZERO)));
        assert_eq!(*kept.0.lock().unwrap(), ["Pulling"]);
    }

    #[test]
    fn a_reference_falls_into_name_and_tag() {
        let pair = |name: &str, tag: &str| (name.to_owned(), tag.to_owned());
        assert_eq!(split("debian:trixie-slim"), pair("debian", "trixie-slim"));
        assert_eq!(split("debian"), pair("debian", "latest"));
        assert_eq!(
            split("a.example:5000/b"),
            pair("a.example:5000/b", "latest")
        );
        assert_eq!(split("a.example:5000/b:c"), pair("a.example:5000/b", "c"));
    }
}
