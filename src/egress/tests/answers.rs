//! What goes out arrives, and what comes back is the server's.

use http_body_util::Full;
use hyper::{Method, StatusCode};
use tokio::io::AsyncWriteExt as _;

use super::lab::{Identity, Lab, empty, read_head, whole};
use crate::{config::HostPattern, types::Host};

#[tokio::test]
async fn a_get_over_http1_is_answered_and_recorded() {
    let lab = Lab::new().await;
    let mut sender = lab.http1().await;
    let (head, body) = whole(sender.send_request(empty(lab.get("/hello?a=b"))).await).await;
    assert_eq!((head.status, body.as_str()), (StatusCode::OK, "hello"));
    assert_eq!(head.headers["content-length"], "5");
    assert_eq!(lab.record(), ["GET /hello?a=b allowed"]);
    assert_eq!(lab.dialled(), ["files.lab.test 127.0.0.1"]);
}

#[tokio::test]
async fn a_get_over_http2_is_answered_and_recorded() {
    let lab = Lab::new().await;
    let mut sender = lab.http2().await;
    let (head, body) = whole(sender.send_request(empty(lab.get2("/hello"))).await).await;
    assert_eq!((head.status, body.as_str()), (StatusCode::OK, "hello"));
    assert_eq!(lab.record(), ["GET /hello allowed"]);
}

#[tokio::test]
async fn http1_inside_may_be_http2_outside_and_the_other_way_round() {
    let modern = Lab::new().await;
    let mut sender = modern.http1().await;
    let (_, body) = whole(sender.send_request(empty(modern.get("/echo"))).await).await;
    assert!(body.starts_with("GET HTTP/2.0"), "{body}");

    let old = Lab::with(Identity::OldFashioned, |_| {}).await;
    let mut sender = old.http2().await;
    let request = old
        .get2("/echo")
        .header("cookie", "a=1")
        .header("cookie", "b=2");
    let (_, body) = whole(sender.send_request(empty(request)).await).await;
    assert!(body.starts_with("GET HTTP/1.1"), "{body}");
    assert!(
        body.contains(&format!("host: {}\n", old.authority())),
        "{body}"
    );
    assert!(body.contains("cookie: a=1; b=2\n"), "{body}");
}

#[tokio::test]
async fn a_body_goes_out_whole() {
    for identity in [Identity::Right, Identity::OldFashioned] {
        let lab = Lab::with(identity, |_| {}).await;
        let sent = "b".repeat(300_000);

        let post = lab
            .get("/echo")
            .method(Method::POST)
            .body(Full::from(sent.clone()));
        let (_, body) = whole(lab.http1().await.send_request(post.unwrap()).await).await;
        assert!(body.starts_with("POST ") && body.ends_with(&sent));
        assert!(body.contains("content-length: 300000\n"));

        let post = lab
            .get2("/echo")
            .method(Method::POST)
            .body(Full::from(sent.clone()));
        let (_, body) = whole(lab.http2().await.send_request(post.unwrap()).await).await;
        assert!(body.starts_with("POST ") && body.ends_with(&sent));
    }
}

#[tokio::test]
async fn a_chunked_body_goes_out_and_ends_the_connection() {
    let lab = Lab::with(Identity::OldFashioned, |_| {}).await;
    let authority = lab.authority();
    for method in ["POST", "GET"] {
        let answer = lab
            .raw(&format!(
                "{method} /echo HTTP/1.1\r\nHost: {authority}\r\nTransfer-Encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: {authority}\r\n\r\n"
            ))
            .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(answer.ends_with("\n\nhello"), "{answer}");
    }
    assert_eq!(lab.record(), ["POST /echo allowed", "GET /echo allowed"]);
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_so_does_the_one_outside() {
    let lab = Lab::new().await;
    let mut sender = lab.http1().await;
    for _ in 0..3 {
        let (_, body) = whole(sender.send_request(empty(lab.get("/hello"))).await).await;
        assert_eq!(body, "hello");
    }
    assert_eq!(lab.record().len(), 3);
    assert_eq!(lab.server.connections(), 1);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_and_recorded_each() {
    let lab = Lab::new().await;
    let authority = lab.authority();
    let answers = lab
        .raw(&format!(
            "GET /hello HTTP/1.1\r\nHost: {authority}\r\n\r\n\
             GET /nothing HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        ))
        .await;
    let first = answers.find("hello").unwrap();
    let second = answers.find("no such page").unwrap();
    assert!(first < second, "{answers}");
    assert_eq!(lab.record(), ["GET /hello allowed", "GET /nothing allowed"]);
}

#[tokio::test]
async fn a_head_is_answered_without_a_body() {
    let lab = Lab::new().await;
    let authority = lab.authority();
    let answer = lab
        .raw(&format!(
            "HEAD /hello HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_redirect_goes_to_the_program_and_no_further() {
    let lab = Lab::new().await;
    let mut sender = lab.http1().await;
    let (head, _) = whole(sender.send_request(empty(lab.get("/redirect"))).await).await;
    assert_eq!(head.status, StatusCode::FOUND);
    assert_eq!(head.headers["location"], "https://elsewhere.lab.test/");
    assert_eq!(lab.record(), ["GET /redirect allowed"]);
}

#[tokio::test]
async fn without_secrets_a_compressed_answer_passes_as_it_is() {
    let lab = Lab::new().await;
    let mut sender = lab.http1().await;
    let request = lab.get("/gzip").header("accept-encoding", "gzip");
    let (head, _) = whole(sender.send_request(empty(request)).await).await;
    assert_eq!(head.headers["content-encoding"], "gzip");
}

#[tokio::test]
async fn what_belongs_to_one_connection_does_not_cross() {
    let lab = Lab::with(Identity::OldFashioned, |_| {}).await;
    let mut sender = lab.http1().await;
    let (head, _) = whole(sender.send_request(empty(lab.get("/hops"))).await).await;
    assert_eq!(head.headers["x-kept"], "1");
    assert!(!head.headers.contains_key("alt-svc"));
    assert!(!head.headers.contains_key("proxy-authenticate"));

    let request = lab
        .get("/echo")
        .header("connection", "x-gone, keep-alive")
        .header("x-gone", "1")
        .header("x-kept", "1")
        .header("proxy-authorization", "Basic eDp5")
        .header("te", "trailers")
        .header("keep-alive", "timeout=5");
    let (_, body) = whole(sender.send_request(empty(request)).await).await;
    assert!(body.contains("x-kept: 1\n"), "{body}");
    for gone in ["x-gone", "proxy-", "te:", "keep-alive", "connection"] {
        assert!(!body.contains(gone), "{gone} in {body}");
    }
}

#[tokio::test]
async fn a_program_that_has_said_all_still_gets_its_answer() {
    let lab = Lab::with(Identity::Plain, |_| {}).await;
    let authority = lab.authority();
    let mut stream = lab.connect();
    let request = format!("GET http://{authority}/hello HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn plain_http_goes_through_the_proxy_and_through_a_connection() {
    let lab = Lab::with(Identity::Plain, |_| {}).await;
    let authority = lab.authority();
    let answer = lab
        .raw_plain(&format!(
            "GET http://{authority}/hello HTTP/1.1\r\nHost: {authority}\r\n\r\n\
             GET http://{authority}/echo HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.contains("hello"), "{answer}");
    assert!(answer.contains("GET HTTP/1.1"), "{answer}");

    let mut stream = lab.connect();
    let connect = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(connect.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    let request = format!("GET /hello HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    assert_eq!(
        lab.record(),
        [
            "GET /hello allowed",
            "GET /echo allowed",
            "GET /hello allowed"
        ]
    );
}

#[tokio::test]
async fn many_requests_at_once_share_one_connection_of_http2() {
    let lab = Lab::new().await;
    let sender = lab.http2().await;
    let asked = (0..20).map(|_| {
        let (mut sender, request) = (sender.clone(), empty(lab.get2("/hello")));
        async move { whole(sender.send_request(request).await).await.1 }
    });
    let bodies = futures_util::future::join_all(asked).await;
    assert!(bodies.iter().all(|body| body == "hello"));
    assert_eq!(lab.record().len(), 20);
}

#[tokio::test]
async fn the_certificate_inside_is_the_runs_own() {
    let lab = Lab::new().await;
    let stream = lab.tls(&[b"h2"]).await;
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates().unwrap();
    assert_eq!(shown.len(), 1);
    assert!(!lab.server.trusted.contains(&shown[0]));
    assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
}

#[tokio::test]
async fn an_address_is_a_host_like_any_other() {
    const ADDRESS: &str = "127.0.0.1";
    let lab = Lab::with(Identity::Right, |profile| {
        profile.rules[0].hosts = HostPattern::Exactly(Host::parse(ADDRESS).unwrap());
    })
    .await;
    let mut stream = lab.tls_to(ADDRESS, &[b"http/1.1"]).await;
    let request = format!(
        "GET /hello HTTP/1.1\r\nHost: {ADDRESS}:{}\r\n\r\n",
        lab.server.port
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
}
