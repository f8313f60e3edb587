//! The server through plain clients: what the other tests rely on.

use std::{
    io::{self, Read as _},
    net::SocketAddr,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flate2::read::{GzDecoder, ZlibDecoder};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, Version,
    body::Incoming,
    client::conn::{http1, http2},
    header::{CONTENT_ENCODING, CONTENT_LENGTH, LOCATION, SET_COOKIE},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto, pki_types::ServerName},
};

use crate::{Authority, Certificate, Options, Protocols, TcpEcho, UdpSink, Upstream, huge_byte};

const NAME: &str = "files.lab.test";

async fn upstream() -> Upstream {
    Upstream::start(Options::named(&[NAME])).await
}

async fn connect(upstream: &Upstream, alpn: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(upstream.authority.der()).unwrap();
    let provider = crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(upstream.tls()).await?;
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from(NAME).unwrap(), stream)
        .await
}

fn request(path: &str) -> hyper::http::request::Builder {
    Request::get(path).header("host", NAME)
}

/// One request over HTTP/1.1 in the clear.
async fn plain_request(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    send.send_request(request).await
}

async fn get(upstream: &Upstream, path: &str) -> Response<Incoming> {
    let request = request(path).body(Full::default()).unwrap();
    plain_request(upstream.plain(), request).await.unwrap()
}

async fn body(answer: Response<Incoming>) -> Bytes {
    answer.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn both_protocols_are_spoken_under_tls_and_seen_with_their_names() {
    let upstream = upstream().await;
    let stream = connect(&upstream, &[b"h2"]).await.unwrap();
    let (mut send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let asked = Request::get(format!("https://{NAME}/?two"))
        .body(Full::<Bytes>::default())
        .unwrap();
    assert_eq!(
        body(send.send_request(asked).await.unwrap()).await,
        "belljar test upstream"
    );
    let stream = connect(&upstream, &[b"http/1.1"]).await.unwrap();
    let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let asked = request("/?one")
        .header("x-kept", "yes")
        .body(Full::<Bytes>::default())
        .unwrap();
    assert_eq!(send.send_request(asked).await.unwrap().status(), 200);

    let seen = upstream.seen();
    let told: Vec<_> = seen
        .iter()
        .map(|one| (one.version, one.target.as_str(), one.authority.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            (Version::HTTP_2, "/?two", Some(NAME)),
            (Version::HTTP_11, "/?one", Some(NAME)),
        ]
    );
    assert!(
        seen.iter()
            .all(|one| one.secure && one.server_name.as_deref() == Some(NAME))
    );
    assert_eq!(seen[1].header("x-kept").collect::<Vec<_>>(), ["yes"]);
    assert_eq!(upstream.connections(), 2);
}

#[tokio::test]
async fn a_server_of_one_protocol_offers_no_other() {
    let mut options = Options::named(&[NAME]);
    options.protocols = Protocols::Http1;
    let upstream = Upstream::start(options).await;
    let stream = connect(&upstream, &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(
        stream.get_ref().1.alpn_protocol(),
        Some(b"http/1.1".as_slice())
    );
}

#[tokio::test]
async fn a_bad_certificate_is_refused_for_what_is_bad_about_it() {
    let authority = Arc::new(Authority::new());
    for (certificate, told) in [
        (Certificate::Expired, "Expired"),
        (Certificate::WrongName, "NotValidForName"),
        (Certificate::SelfSigned, "UnknownIssuer"),
    ] {
        let mut options = Options::named(&[NAME]);
        options.certificate = certificate;
        options.authority = Some(Arc::clone(&authority));
        let upstream = Upstream::start(options).await;
        assert_eq!(upstream.ca_pem(), authority.pem());
        let error = connect(&upstream, &[]).await.unwrap_err();
        assert!(
            format!("{error:?}").contains(told),
            "{certificate:?}: {error:?}"
        );
        assert!(upstream.seen().is_empty());
        assert_eq!(upstream.connections(), 1);
    }
}

#[tokio::test]
async fn an_echo_tells_the_whole_request() {
    let upstream = upstream().await;
    let asked = Request::put("/echo?a=b")
        .header("host", NAME)
        .header("authorization", "Bearer \"x\"")
        .body(Full::new(Bytes::from_static(b"sent")))
        .unwrap();
    let answer = plain_request(upstream.plain(), asked).await.unwrap();
    let told: Value = serde_json::from_slice(&body(answer).await).unwrap();
    assert_eq!(told["method"], "PUT");
    assert_eq!(told["target"], "/echo?a=b");
    assert_eq!(told["body"], "sent");
    let headers = told["headers"].as_array().unwrap();
    assert!(headers.contains(&serde_json::json!(["authorization", "Bearer \\\"x\\\""])));
}

#[tokio::test]
async fn an_echo_comes_in_every_form() {
    let upstream = upstream().await;
    let hex = |text: &[u8]| -> Vec<u8> {
        let text = String::from_utf8(text.to_vec()).unwrap();
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    };
    let without = |text: &[u8], mark: &str| {
        String::from_utf8(text.to_vec())
            .unwrap()
            .replace(mark, "")
            .replace('"', "")
            .into_bytes()
    };
    let unpacked = |bytes: &[u8]| {
        let mut all = Vec::new();
        GzDecoder::new(bytes)
            .take(1 << 20)
            .read_to_end_bounded(&mut all);
        all
    };
    for (form, label) in [
        ("raw", None),
        ("base64", None),
        ("percent", None),
        ("hex", None),
        ("json", None),
        ("gzip", Some("gzip")),
        ("gzip-twice", Some("gzip, gzip")),
        ("deflate", Some("deflate")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
    ] {
        let answer = get(&upstream, &format!("/echo?as={form}")).await;
        let found = answer.headers().get(CONTENT_ENCODING).cloned();
        assert_eq!(found.as_ref().map(|found| found.to_str().unwrap()), label);
        let bytes = body(answer).await;
        let text = match form {
            "base64" => STANDARD.decode(&bytes).unwrap(),
            "percent" => hex(&without(&bytes, "%")),
            "hex" => hex(&bytes),
            "json" => hex(&without(&bytes, "\\u00")),
            "gzip" => unpacked(&bytes),
            "gzip-twice" => unpacked(&unpacked(&bytes)),
            "deflate" => {
                let mut all = Vec::new();
                ZlibDecoder::new(&*bytes).read_to_end_bounded(&mut all);
                all
            }
            _ => bytes.to_vec(),
        };
        let told: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(told["target"], format!("/echo?as={form}"), "{form}");
    }
    assert_eq!(get(&upstream, "/echo?as=morse").await.status(), 400);
}

/// Reads what a test made itself.
trait ReadAll: io::Read + Sized {
    fn read_to_end_bounded(self, into: &mut Vec<u8>) {
        io::copy(&mut self.take(1 << 20), into).unwrap();
    }
}

impl<R: io::Read> ReadAll for R {}

#[tokio::test]
async fn an_echo_can_be_in_pieces_in_headers_and_mislabelled() {
    let upstream = upstream().await;
    let answer = get(
        &upstream,
        "/echo?piece=3&in=headers&as=hex&type=image/png&label=x",
    )
    .await;
    assert!(!answer.headers().contains_key(CONTENT_LENGTH));
    assert_eq!(
        answer.headers()["x-echo-host"],
        "66696C65732E6C61622E74657374"
    );
    assert_eq!(answer.headers()["content-type"], "image/png");
    assert_eq!(answer.headers()[CONTENT_ENCODING], "x");
    let mut frames = answer.into_body();
    let first = frames.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.len() >= 3);
}

#[tokio::test]
async fn huge_bodies_are_as_long_and_as_predictable_as_they_say() {
    let upstream = upstream().await;
    for (path, length) in [
        ("/huge?mib=3", Some("3145728")),
        ("/huge?mib=3&chunked", None),
    ] {
        let answer = get(&upstream, path).await;
        let found = answer.headers().get(CONTENT_LENGTH);
        assert_eq!(found.map(|found| found.to_str().unwrap()), length);
        let bytes = body(answer).await;
        assert_eq!(bytes.len(), 3 << 20);
        assert!((0..).zip(&bytes).all(|(at, byte)| huge_byte(at) == *byte));
    }
}

#[tokio::test]
async fn each_path_behaves_as_its_name_says() {
    let upstream = upstream().await;
    let answer = get(
        &upstream,
        "/redirect?to=https%3A%2F%2Fother.test%2F&code=308",
    )
    .await;
    assert_eq!(answer.status(), 308);
    assert_eq!(answer.headers()[LOCATION], "https://other.test/");
    assert_eq!(body(get(&upstream, "/slow?ms=1").await).await, "late");
    assert_eq!(body(get(&upstream, "/drip?n=3&ms=1").await).await, "...");
    assert_eq!(get(&upstream, "/status?code=418").await.status(), 418);
    assert_eq!(get(&upstream, "/status?code=100").await.status(), 400);
    assert_eq!(get(&upstream, "/nowhere").await.status(), 404);
    let cookies = get(&upstream, "/set-cookie").await;
    assert_eq!(cookies.headers().get_all(SET_COOKIE).iter().count(), 2);
    let many = get(&upstream, "/headers?n=20&size=9").await;
    assert_eq!(many.headers()["x-19"], "vvvvvvvvv");
    let packed = body(get(&upstream, "/gzip?mib=2").await).await;
    assert!(packed.len() < 10_000, "{}", packed.len());
    let asked = Request::post("/take")
        .header("host", NAME)
        .body(Full::new(Bytes::from(vec![0; 100_000])))
        .unwrap();
    let answer = plain_request(upstream.plain(), asked).await.unwrap();
    assert_eq!(body(answer).await, "100000");
}

#[tokio::test]
async fn trailers_come_after_the_body_and_hold_the_requests_headers() {
    let upstream = upstream().await;
    let asked = request("/trailers")
        .header("te", "trailers")
        .header("authorization", "Bearer x")
        .body(Full::default())
        .unwrap();
    let answer = plain_request(upstream.plain(), asked).await.unwrap();
    let whole = answer.into_body().collect().await.unwrap();
    let trailers = whole.trailers().unwrap();
    assert_eq!(trailers["x-checksum"], "done");
    assert_eq!(trailers["x-echo-authorization"], "Bearer x");
}

#[tokio::test]
async fn a_reset_breaks_in_the_middle_of_the_body() {
    let upstream = upstream().await;
    let plain = get(&upstream, "/reset").await;
    let stream = connect(&upstream, &[b"h2"]).await.unwrap();
    let (mut send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let asked = Request::get(format!("https://{NAME}/reset"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let secure = send.send_request(asked).await.unwrap();
    for answer in [plain, secure] {
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "the beginning");
        assert!(body.frame().await.unwrap().is_err());
    }
}

#[tokio::test]
async fn misbehaviour_comes_byte_for_byte_also_on_a_connection_that_was_used() {
    let upstream = upstream().await;
    for (path, beginning) in [
        ("/garbage", b"\x00\xff\x16".as_slice()),
        (
            "/cl-te",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Enc",
        ),
        (
            "/cl-cl",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2",
        ),
        ("/switch", b"HTTP/1.1 101 "),
        ("/answers", b"HTTP/1.1 200 OK\r\nContent-Length: 5"),
        ("/close", b""),
        ("/half-head", b"HTTP/1.1 200 OK\r\nContent-Le"),
    ] {
        let mut stream = TcpStream::connect(upstream.plain()).await.unwrap();
        let first = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(first.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"no such status") {
            head.push(stream.read_u8().await.unwrap());
        }
        let second = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(second.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let mut bounded = stream.take(4096);
        while bounded.read_buf(&mut rest).await.unwrap() > 0 {}
        assert!(
            rest.starts_with(beginning),
            "{path}: {}",
            rest.escape_ascii()
        );
        assert_eq!(rest.is_empty(), beginning.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn over_http_2_misbehaviour_is_the_end_of_the_connection() {
    let upstream = upstream().await;
    let stream = connect(&upstream, &[b"h2"]).await.unwrap();
    let (mut send, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let asked = Request::get(format!("https://{NAME}/garbage"))
        .body(Full::default())
        .unwrap();
    assert!(send.send_request(asked).await.is_err());
    // Ends by itself: nothing holds it open.
    let _ = connection.await.unwrap();
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn other_protocols_are_served_and_counted() {
    let echo = TcpEcho::start().await;
    let mut stream = TcpStream::connect(echo.address()).await.unwrap();
    stream.write_all(b"there and back").await.unwrap();
    let mut back = [0; 14];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"there and back");
    assert_eq!(echo.connections(), 1);

    let sink = UdpSink::start().await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(b"a name", sink.address()).await.unwrap();
    while sink.datagrams().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(sink.datagrams(), [b"a name"]);
}

#[tokio::test]
async fn dropping_a_server_ends_its_connections() {
    let upstream = upstream().await;
    let mut stream = TcpStream::connect(upstream.plain()).await.unwrap();
    let asked = "GET /drip?n=1000&ms=1 HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(asked.as_bytes()).await.unwrap();
    stream.read_u8().await.unwrap();
    drop(upstream);
    // Ends, or breaks; either way there is an end.
    while stream.read_u8().await.is_ok() {}
}
