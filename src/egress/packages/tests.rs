//! A gateway between an installer and a registry, both in this process, over loopback.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, client::conn, server, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::{
    Gateway, Packages,
    cache::Cache,
    client::MAX_REQUESTS,
    digest::{Digest, sha256, sha512},
};
use crate::{
    config::{FileOrigin, Settings},
    egress::fixtures::Notes,
    policy::EgressDenial,
    types::{Cpus, PackageKind},
};

const WHEEL: &str = "six-1.0-py3-none-any.whl";
const INSIDE: &str = "127.0.0.1:3128";

/// What a registry answers, by path.
type Answers = Arc<Mutex<HashMap<String, (u16, Vec<u8>)>>>;

/// A registry in the clear, and what it was asked.
struct Registry {
    address: SocketAddr,
    answers: Answers,
    asked: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Registry {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answers, asked) = (Answers::default(), Arc::default());
        let (known, heard) = (Arc::clone(&answers), Arc::clone(&asked));
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (known, heard) = (Arc::clone(&known), Arc::clone(&heard));
                connections.spawn(async move {
                    let service = service_fn(|request| {
                        let answer = answer(&known, &heard, &request);
                        std::future::ready(Ok::<_, Infallible>(answer))
                    });
                    let io = TokioIo::new(stream);
                    let _ = server::conn::http1::Builder::new()
                        .serve_connection(io, service)
                        .await;
                });
            }
        });
        Self {
            address,
            answers,
            asked,
            serving,
        }
    }

    fn says(&self, path: &str, status: u16, body: impl Into<Vec<u8>>) {
        let mut answers = self.answers.lock().unwrap();
        answers.insert(path.to_owned(), (status, body.into()));
    }

    /// Offers a wheel of this content, in the place of one with this digest.
    fn offers(&self, promised: Digest, content: &[u8]) {
        let file = json!({"filename": WHEEL, "url": format!("/f/{WHEEL}"), "hashes": {"sha256": promised.to_string()}});
        self.says("/simple/six/", 200, json!({"files": [file]}).to_string());
        self.says(&format!("/f/{WHEEL}"), 200, content);
    }

    /// What it was asked since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Nobody listens any more.
    async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

fn answer(
    answers: &Answers,
    asked: &Mutex<Vec<String>>,
    request: &Request<hyper::body::Incoming>,
) -> Response<Full<Bytes>> {
    let headers: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
    let path = request.uri().to_string();
    asked
        .lock()
        .unwrap()
        .push(format!("{} {path} {}", request.method(), headers.join(" ")));
    let (status, body) = answers
        .lock()
        .unwrap()
        .get(&path)
        .cloned()
        .unwrap_or((404, Vec::new()));
    Response::builder()
        .status(status)
        .body(body.into())
        .unwrap()
}

/// Packages from `registry`, kept in a folder of their own.
struct Kit {
    packages: Packages,
    notes: Arc<Notes>,
    _folder: TempDir,
}

impl Kit {
    fn new(registry: &Registry, further: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = registry.address;
        let config = format!(
            "[packages.python]\nindex = \"http://{address}/simple\"\nallow_private = [\"127.0.0.1/32\"]\n{further}\n\
             [packages.javascript]\nregistry = \"http://{address}/npm\"\nallow_private = [\"127.0.0.1/32\"]\n"
        );
        let settings =
            Settings::parse(&config, FileOrigin::BuiltIn, Cpus::from_millis(1000)).unwrap();
        Self {
            packages: Packages::new(&settings.packages, folder.path().join("packages")),
            notes: Notes::shared(),
            _folder: folder,
        }
    }

    async fn gateway(&self, kind: PackageKind) -> Arc<Gateway> {
        let registry = self.packages.registry(kind).await.unwrap().unwrap();
        let notes = Arc::clone(&self.notes);
        Arc::new(self.packages.gateway(registry, INSIDE, notes))
    }

    /// The same with an index that is never believed for long.
    async fn forgetful(&self, kind: PackageKind) -> Arc<Gateway> {
        let registry = self.packages.registry(kind).await.unwrap().unwrap().clone();
        let notes = Arc::clone(&self.notes);
        let client = super::client::Client::new(registry.clone(), notes);
        let shared = self.packages.shared.clone();
        Arc::new(Gateway::new(
            registry,
            client,
            shared,
            Duration::ZERO,
            INSIDE,
        ))
    }

    fn cache(&self) -> &Arc<Cache> {
        &self.packages.shared.cache
    }

    /// What was recorded: method, target, and the reason of a denial.
    fn recorded(&self) -> Vec<String> {
        let one = |decided: &crate::egress::Decided| {
            let verdict = decided
                .verdict
                .err()
                .map_or("allowed", EgressDenial::reason);
            let target = decided.target.as_deref().unwrap_or(&decided.host);
            format!("{target} {verdict}")
        };
        let all = self.notes.all();
        let asked = all
            .iter()
            .filter(|decided| decided.target.is_some() || decided.verdict.is_err());
        asked.map(one).collect()
    }
}

/// Asks as an installer does, on a connection of its own.
async fn ask(gateway: &Arc<Gateway>, method: &str, path: &str) -> (u16, Bytes) {
    let (ours, theirs) = tokio::io::duplex(4096);
    let gateway = Arc::clone(gateway);
    let served = tokio::spawn(async move { gateway.serve(theirs).await });
    let (mut sender, connection) = conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
    let spoken = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Host", INSIDE)
        .header("Authorization", "Bearer stolen")
        .header("X-Leak", "everything")
        .body(Full::<Bytes>::default());
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    drop(sender);
    let _ = spoken.await;
    served.await.unwrap();
    (status, body)
}

async fn get(gateway: &Arc<Gateway>, path: &str) -> (u16, Bytes) {
    ask(gateway, "GET", path).await
}

fn reason(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["reason"].as_str().unwrap().to_owned()
}

fn file(digest: Digest) -> String {
    format!("/python/files/{digest}/{WHEEL}")
}

#[tokio::test]
async fn a_wheel_is_fetched_once_and_served_from_the_cache_after() {
    let registry = Registry::start().await;
    let digest = sha256(b"wheel");
    registry.offers(digest, b"wheel");
    let kit = Kit::new(&registry, "");
    for expected in [2, 0] {
        let gateway = kit.gateway(PackageKind::Python).await;
        assert_eq!(gateway.index(), "http://127.0.0.1:3128/python/simple/");
        let (status, page) = get(&gateway, "/python/simple/six/").await;
        assert_eq!(status, 200);
        let page: Value = serde_json::from_slice(&page).unwrap();
        assert_eq!(
            page["files"][0]["url"],
            format!("../../files/{digest}/{WHEEL}")
        );
        assert_eq!(
            get(&gateway, &file(digest)).await,
            (200, Bytes::from("wheel"))
        );
        assert_eq!(registry.asked().len(), expected);
        // From the cache too, each is counted.
        assert_eq!(gateway.report().allowed_count(), 2);
    }
    let target = format!("/f/{WHEEL} allowed");
    let once = ["/simple/six/ allowed".to_owned(), target];
    assert_eq!(kit.recorded(), [once.clone(), once].concat());
}

#[tokio::test]
async fn a_package_of_javascript_is_served_the_same_way() {
    let registry = Registry::start().await;
    let digest = sha512(b"tarball");
    let dist = json!({"tarball": format!("http://{}/t/odd.tgz", registry.address), "integrity": digest.integrity()});
    let packument =
        json!({"dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"dist": dist}}});
    registry.says("/npm/@scope/odd", 200, packument.to_string());
    registry.says("/t/odd.tgz", 200, "tarball");
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::JavaScript).await;
    let (status, page) = get(&gateway, "/javascript/@scope%2fodd").await;
    assert_eq!(status, 200);
    let page: Value = serde_json::from_slice(&page).unwrap();
    let tarball = page["versions"]["1.0.0"]["dist"]["tarball"]
        .as_str()
        .unwrap();
    let path = tarball.strip_prefix("http://127.0.0.1:3128").unwrap();
    assert_eq!(get(&gateway, path).await, (200, Bytes::from("tarball")));
}

#[tokio::test]
async fn nothing_of_an_installers_request_goes_out() {
    let registry = Registry::start().await;
    registry.offers(sha256(b"wheel"), b"wheel");
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    get(&gateway, "/python/simple/six/").await;
    get(
        &gateway,
        &format!("{}?leak=everything", file(sha256(b"wheel"))),
    )
    .await;
    assert_eq!(
        registry.asked(),
        [
            "GET /simple/six/ accept user-agent host".to_owned(),
            format!("GET /f/{WHEEL} accept user-agent host"),
        ]
    );
}

#[tokio::test]
async fn a_file_that_is_not_the_promised_one_is_never_served() {
    let registry = Registry::start().await;
    let promised = sha256(b"wheel");
    registry.offers(promised, b"something else");
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    get(&gateway, "/python/simple/six/").await;
    let (status, body) = get(&gateway, &file(promised)).await;
    assert_eq!((status, reason(&body).as_str()), (502, "package_digest"));
    for digest in [promised, sha256(b"something else")] {
        assert!(kit.cache().open(digest).await.unwrap().is_none());
    }
    // Once it is the right one it is served.
    registry.offers(promised, b"wheel");
    assert_eq!(
        get(&gateway, &file(promised)).await,
        (200, Bytes::from("wheel"))
    );
}

#[tokio::test]
async fn a_file_that_no_page_named_is_denied_also_when_it_is_kept() {
    let registry = Registry::start().await;
    let digest = sha256(b"wheel");
    registry.offers(digest, b"wheel");
    let kit = Kit::new(&registry, "");
    let first = kit.gateway(PackageKind::Python).await;
    get(&first, "/python/simple/six/").await;
    get(&first, &file(digest)).await;
    let other = kit.gateway(PackageKind::Python).await;
    let (status, body) = get(&other, &file(digest)).await;
    assert_eq!((status, reason(&body).as_str()), (403, "path_not_allowed"));
    let (status, _) = get(&first, &format!("/python/files/{digest}/other.whl")).await;
    assert_eq!(status, 403);
    assert_eq!(other.report().denied_count(), 1);
    assert_eq!(other.report().denied[0].reason, "path_not_allowed");
}

#[tokio::test]
async fn everything_but_pages_and_files_is_denied_and_recorded() {
    let registry = Registry::start().await;
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    for path in [
        "/",
        "/python/simple/",
        "/python/simple/Six/",
        "/javascript/is-odd",
        "/simple/six/",
    ] {
        let (status, body) = get(&gateway, path).await;
        assert_eq!(
            (status, reason(&body).as_str()),
            (403, "path_not_allowed"),
            "{path}"
        );
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let (status, body) = ask(&gateway, method, "/python/simple/six/").await;
        assert_eq!(
            (status, reason(&body).as_str()),
            (403, "method_not_allowed"),
            "{method}"
        );
    }
    assert_eq!(kit.recorded().len(), 10);
    assert_eq!(gateway.report().denied_count(), 10);
    assert!(registry.asked().is_empty());
}

#[tokio::test]
async fn what_is_not_recorded_is_not_done() {
    let registry = Registry::start().await;
    registry.offers(sha256(b"wheel"), b"wheel");
    let kit = Kit::new(&registry, "");
    kit.notes.fail();
    let gateway = kit.gateway(PackageKind::Python).await;
    let (status, body) = get(&gateway, "/python/simple/six/").await;
    assert_eq!((status, reason(&body).as_str()), (403, "not_recorded"));
    assert!(registry.asked().is_empty());
}

#[tokio::test]
async fn a_link_to_another_host_is_followed_only_where_the_operator_lets_it() {
    let registry = Registry::start().await;
    let digest = sha256(b"wheel");
    let link = |url: &str| {
        let file = json!({"filename": WHEEL, "url": url, "hashes": {"sha256": digest.to_string()}});
        registry.says("/simple/six/", 200, json!({"files": [file]}).to_string());
    };
    for (hosts, url, files) in [
        ("hosts = []", "https://files.test/six.whl", 0),
        ("hosts = [\"files.test\"]", "https://files.test/six.whl", 1),
        ("hosts = [\"files.test\"]", "http://files.test/six.whl", 0),
        ("", "https://files.test/six.whl", 1),
        ("", "http://files.test/six.whl", 0),
    ] {
        link(url);
        let gateway = Kit::new(&registry, hosts)
            .gateway(PackageKind::Python)
            .await;
        let (_, page) = get(&gateway, "/python/simple/six/").await;
        let page: Value = serde_json::from_slice(&page).unwrap();
        assert_eq!(
            page["files"].as_array().unwrap().len(),
            files,
            "{hosts} {url}"
        );
    }
}

#[tokio::test]
async fn addresses_that_are_not_open_are_not_dialled() {
    let registry = Registry::start().await;
    let digest = sha256(b"wheel");
    let file_at = |url: &str| {
        let file = json!({"filename": WHEEL, "url": url, "hashes": {"sha256": digest.to_string()}});
        registry.says("/simple/six/", 200, json!({"files": [file]}).to_string());
    };
    file_at("https://169.254.169.254/latest/meta-data");
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    get(&gateway, "/python/simple/six/").await;
    let (status, body) = get(&gateway, &file(digest)).await;
    assert_eq!((status, reason(&body).as_str()), (403, "address_denied"));
}

#[tokio::test]
async fn an_index_that_cannot_be_asked_is_believed_a_little_longer() {
    let registry = Registry::start().await;
    let digest = sha256(b"wheel");
    registry.offers(digest, b"wheel");
    let kit = Kit::new(&registry, "");
    let gateway = kit.forgetful(PackageKind::Python).await;
    get(&gateway, "/python/simple/six/").await;
    get(&gateway, &file(digest)).await;

    // It is asked again, and what it says now counts, unless it is out of order.
    registry.says("/simple/six/", 503, "");
    assert_eq!(get(&gateway, "/python/simple/six/").await.0, 200);
    registry.says("/simple/six/", 404, "");
    let (status, body) = get(&gateway, "/python/simple/six/").await;
    assert_eq!((status, reason(&body).as_str()), (404, "package_not_found"));

    registry.stop().await;
    let gateway = kit.forgetful(PackageKind::Python).await;
    assert_eq!(get(&gateway, "/python/simple/six/").await.0, 200);
    assert_eq!(get(&gateway, &file(digest)).await.1, Bytes::from("wheel"));
    let (status, body) = get(&gateway, "/python/simple/seven/").await;
    assert_eq!(
        (status, reason(&body).as_str()),
        (502, "upstream_unreachable")
    );
    // pip tells neither from a package without versions: the report does. What an index said before is no failure.
    let failed: Vec<_> = gateway.report().failed;
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (failed[0].host.as_str(), failed[0].reason, failed[0].count),
        ("127.0.0.1", "upstream_unreachable", 1)
    );
}

#[tokio::test]
async fn answers_that_are_none_are_refused_with_words() {
    let registry = Registry::start().await;
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    for (status, body, expected, reason_is) in [
        (200, "<html>", 502, "registry_malformed"),
        (302, "", 502, "registry_status"),
        (401, "", 502, "registry_status"),
        (500, "", 502, "registry_status"),
        (404, "", 404, "package_not_found"),
    ] {
        registry.says("/simple/six/", status, body);
        let (found, body) = get(&gateway, "/python/simple/six/").await;
        assert_eq!((found, reason(&body).as_str()), (expected, reason_is));
    }
}

#[tokio::test]
async fn requests_of_one_installation_are_bounded() {
    let registry = Registry::start().await;
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    gateway
        .requests
        .store(MAX_REQUESTS, std::sync::atomic::Ordering::Relaxed);
    let (status, body) = get(&gateway, "/python/simple/six/").await;
    assert_eq!((status, reason(&body).as_str()), (403, "too_many_requests"));
    assert!(registry.asked().is_empty());
}

#[tokio::test]
async fn the_end_of_an_installation_cuts_its_connections() {
    let registry = Registry::start().await;
    let kit = Kit::new(&registry, "");
    let gateway = kit.gateway(PackageKind::Python).await;
    let (ours, theirs) = tokio::io::duplex(64);
    let served = {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { gateway.serve(theirs).await })
    };
    gateway.close();
    served.await.unwrap();
    drop(ours);
    // And none goes out after it.
    let (_, late) = tokio::io::duplex(64);
    gateway.serve(late).await;
}

#[tokio::test]
async fn a_kind_that_is_off_has_no_registry() {
    let settings = Settings::defaults(Cpus::from_millis(1000)).unwrap();
    let packages = Packages::new(&settings.packages, "/nowhere".into());
    assert_eq!(packages.registry(PackageKind::Python).await, Ok(None));
}
