//! What an installer speaks to: a plain HTTP server with the pages and files of one registry, for one installation.
//!
//! The installer's requests are read as paths of a few fixed shapes; nothing else of them counts, and none of their
//! bytes goes out. Whatever may be fetched stands on a page that this registry served before, and is handed on only
//! once its digest is the promised one.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response,
    body::{Frame, Incoming},
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
};
use tokio_util::{io::ReaderStream, sync::CancellationToken};

use super::{
    cache::{Cache, KeepError, MAX_PAGE_BYTES},
    client::{Allowed, Client, Failure, MAX_REQUESTS},
    digest::Digest,
    javascript,
    page::{Link, Page},
    path::{self, Asked},
    python,
    registry::Registry,
};
use crate::{
    config::HttpUrl,
    egress::{Report, reply::Reply},
    policy::EgressDenial,
    types::{MIB, PackageKind},
};

/// The largest file, in bytes: the largest wheels there are, with room to spare.
const MAX_FILE_BYTES: u64 = 1024 * MIB;
/// The most files that one installation is told of: each is remembered until its end. A tree of a thousand packages has
/// some hundred thousand. Stops an installer that asks for ever more pages from filling the memory.
const MAX_LINKS: usize = 300_000;
/// How old a page may be that stands in for a registry that cannot be reached.
const STALEST: Duration = Duration::from_hours(7 * 24);
/// How long the head of a request may take.
const HEAD_PATIENCE: Duration = Duration::from_mins(1);
/// The largest head of a request, and the most headers.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// How much of a file is handed on at a time.
const STEP_BYTES: usize = 64 * 1024;
/// What a file is asked for as, and served as.
const ANY: &str = "*/*";
const FILE_TYPE: &str = "application/octet-stream";

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What all installations of a server share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) cache: Arc<Cache>,
    /// Places for pages that are being read.
    pub(super) pages: Arc<Semaphore>,
}

/// What one installation may reach. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Gateway {
    registry: Registry,
    client: Client,
    shared: Shared,
    index_ttl: Duration,
    /// The address at which the installer finds it, `http://127.0.0.1:<port>`.
    origin: String,
    /// What the pages that were served link to, by digest and name.
    links: Mutex<HashMap<(Digest, String), Link>>,
    pub(super) requests: AtomicU64,
    stop: CancellationToken,
}

impl Gateway {
    pub(super) fn new(
        registry: Registry,
        client: Client,
        shared: Shared,
        index_ttl: Duration,
        authority: &str,
    ) -> Self {
        Self {
            registry,
            client,
            shared,
            index_ttl,
            origin: format!("http://{authority}"),
            links: Mutex::default(),
            requests: AtomicU64::new(0),
            stop: CancellationToken::new(),
        }
    }

    /// The address of the index, as the installer is told it.
    #[must_use]
    pub fn index(&self) -> String {
        format!("{}{}", self.origin, path::index(self.registry.kind))
    }

    /// Serves one connection from inside to its end, which comes with [`Self::close`] at the latest.
    pub async fn serve<T>(&self, io: T)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service =
            service_fn(|request| async move { Ok::<_, Infallible>(self.answer(&request).await) });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD_BYTES)
            .half_close(true)
            .serve_connection(TokioIo::new(io), service);
        tokio::select! {
            ended = connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection of an installer ended");
                }
            }
            () = self.stop.cancelled() => {}
        }
    }

    /// Ends every connection and lets no new one in.
    pub fn close(&self) {
        self.stop.cancel();
        self.client.close();
    }

    /// What was reached and denied so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.client.report()
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        match self.find(request).await {
            Ok(found) => found.response(request.method() == Method::HEAD),
            Err(failure) => refusal(failure),
        }
    }

    async fn find(&self, request: &Request<Incoming>) -> Result<Found, Failure> {
        let path = request.uri().path();
        if self.requests.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            return Err(self
                .client
                .refuse(path, EgressDenial::TooManyRequests)
                .into());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(self
                .client
                .refuse(path, EgressDenial::MethodNotAllowed)
                .into());
        }
        match Asked::parse(self.registry.kind, path) {
            Some(Asked::Page(name)) => self.page(&name).await,
            Some(Asked::File(digest, name)) => {
                let link = self.link(digest, name);
                let link =
                    link.ok_or_else(|| self.client.refuse(path, EgressDenial::PathNotAllowed))?;
                self.file(&link).await
            }
            None => Err(self
                .client
                .refuse(path, EgressDenial::PathNotAllowed)
                .into()),
        }
    }

    fn link(&self, digest: Digest, name: String) -> Option<Link> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&(digest, name)).cloned()
    }

    async fn page(&self, name: &str) -> Result<Found, Failure> {
        let url = self.registry.page(name).map_err(|_| Failure::Malformed)?;
        let allowed = self.client.allow(&url)?;
        let place = self.shared.pages.acquire().await;
        let _place = place.map_err(|_| EgressDenial::Closed)?;
        let page = self.current(name, &url, &allowed).await;
        let page = page.map_err(|failure| allowed.failed(failure))?;
        let files = format!("{}{}", self.origin, path::files(self.registry.kind));
        let (page, links) = page.render(&self.registry, &url, &files);
        let media_type = match self.registry.kind {
            PackageKind::Python => python::MEDIA_TYPE,
            PackageKind::JavaScript => javascript::MEDIA_TYPE,
        };
        self.remember(links)
            .map_err(|denial| self.client.refuse(url.target(), denial))?;
        Ok(Found::Page(page.to_string().into(), media_type))
    }

    fn remember(&self, new: Vec<Link>) -> Result<(), EgressDenial> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() + new.len() > MAX_LINKS {
            return Err(EgressDenial::TooManyRequests);
        }
        links.extend(
            new.into_iter()
                .map(|link| ((link.at, link.name.clone()), link)),
        );
        Ok(())
    }

    /// What the registry says of a name: from before where that is fresh, or where it cannot be asked.
    async fn current(
        &self,
        name: &str,
        url: &HttpUrl,
        allowed: &Allowed<'_>,
    ) -> Result<Page, Failure> {
        let key = url.to_string();
        let kept = self
            .shared
            .cache
            .page(key.clone())
            .await
            .map_err(of_cache)?;
        let kept = kept.and_then(|kept| {
            let page = serde_json::from_slice(&kept.bytes).ok()?;
            Some((page, kept.age))
        });
        let stale = match kept {
            Some((page, age)) if age < self.index_ttl => return Ok(page),
            Some((page, age)) if age < STALEST => Some(page),
            _ => None,
        };
        match self.fetch_page(name, key, allowed).await {
            Ok(page) => Ok(page),
            Err(failure) => match stale {
                Some(page) if failure.is_outage() => {
                    tracing::warn!(%failure, "a registry cannot be asked; what it said before stands in");
                    Ok(page)
                }
                _ => Err(failure),
            },
        }
    }

    async fn fetch_page(
        &self,
        name: &str,
        key: String,
        allowed: &Allowed<'_>,
    ) -> Result<Page, Failure> {
        let kind = self.registry.kind;
        let accept = match kind {
            PackageKind::Python => python::MEDIA_TYPE,
            PackageKind::JavaScript => javascript::ACCEPT,
        };
        let bytes = allowed.send(accept, MAX_PAGE_BYTES).await?.whole().await?;
        let name = name.to_owned();
        // Megabytes of JSON: not among those who wait for the network.
        let read = tokio::task::spawn_blocking(move || {
            let page = Page::read(kind, &name, &bytes)?;
            let kept = serde_json::to_vec(&page)?;
            Ok::<_, serde_json::Error>((page, kept))
        });
        let (page, kept) = read
            .await
            .map_err(|_| Failure::Malformed)?
            .map_err(|error| {
                tracing::debug!(%error, "a page of a registry cannot be read");
                Failure::Malformed
            })?;
        self.shared
            .cache
            .keep_page(key, kept)
            .await
            .map_err(of_cache)?;
        Ok(page)
    }

    async fn file(&self, link: &Link) -> Result<Found, Failure> {
        let allowed = self.client.allow(&link.url)?;
        let kept = self
            .shared
            .cache
            .open(link.digest)
            .await
            .map_err(of_cache)?;
        let file = match kept {
            Some(file) => Ok(file),
            None => self.fetch_file(link, &allowed).await,
        };
        let file = file.map_err(|failure| allowed.failed(failure))?;
        let bytes = file.metadata().map_err(of_cache)?.len();
        Ok(Found::File(tokio::fs::File::from_std(file), bytes))
    }

    async fn fetch_file(
        &self,
        link: &Link,
        allowed: &Allowed<'_>,
    ) -> Result<std::fs::File, Failure> {
        let mut answer = allowed.send(ANY, MAX_FILE_BYTES).await?;
        let mut incoming = self
            .shared
            .cache
            .take_in(link.digest)
            .await
            .map_err(of_cache)?;
        while let Some(piece) = answer.next().await? {
            incoming.write(&piece).await.map_err(of_cache)?;
        }
        incoming.finish().await.map_err(|error| match error {
            KeepError::Digest => {
                tracing::warn!(url = %link.url, "a file of a registry is not the one that its index promised");
                Failure::Digest
            }
            KeepError::Io(error) => of_cache(error),
        })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.close();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn of_cache(error: io::Error) -> Failure {
    tracing::error!(%error, "the cache of packages failed");
    Failure::Cache
}

/// What an installer gets.
enum Found {
    Page(Bytes, &'static str),
    File(tokio::fs::File, u64),
}

impl Found {
    fn response(self, head_only: bool) -> Response<Body> {
        let (length, media_type, body) = match self {
            Self::Page(page, media_type) => {
                let length = page.len() as u64;
                let body = Full::new(page).map_err(|never| match never {});
                (length, media_type, body.boxed_unsync())
            }
            Self::File(file, length) => {
                let pieces = ReaderStream::with_capacity(file, STEP_BYTES).map_ok(Frame::data);
                (length, FILE_TYPE, StreamBody::new(pieces).boxed_unsync())
            }
        };
        let body = if head_only { empty() } else { body };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        response
    }
}

fn empty() -> Body {
    Full::default()
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// What an installer is told instead, with the reason in the status line, which is what installers show.
fn refusal(failure: Failure) -> Response<Body> {
    let reply = match failure {
        Failure::Denied(denial) => Reply::denied(denial, None),
        Failure::Upstream(failure) => Reply::failed(failure, None),
        Failure::NotFound => own(404, failure),
        Failure::Status(_)
        | Failure::Malformed
        | Failure::TooLarge
        | Failure::Digest
        | Failure::Cache => own(502, failure),
    };
    reply
        .response()
        .map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

fn own(status: u16, failure: Failure) -> Reply {
    Reply::new(
        status,
        "package_failed",
        failure.reason(),
        &failure.to_string(),
        None,
    )
}
