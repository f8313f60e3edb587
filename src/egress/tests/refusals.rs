//! What does not go out, each denied and recorded.

use hyper::StatusCode;

use super::lab::{Identity, Lab, empty, reason, whole};

#[tokio::test]
async fn another_host_in_a_later_request_of_a_connection_is_refused() {
    let lab = Lab::new().await;
    let mut sender = lab.http1().await;
    let (head, _) = whole(sender.send_request(empty(lab.get("/hello"))).await).await;
    assert_eq!(head.status, StatusCode::OK);
    let request = hyper::Request::get("/hello").header("host", "other.lab.test");
    let (head, body) = whole(sender.send_request(empty(request)).await).await;
    assert_eq!(head.status, StatusCode::FORBIDDEN);
    assert_eq!(reason(&body), "host_mismatch");
    assert_eq!(
        lab.record(),
        ["GET /hello allowed", "GET /hello host_mismatch"]
    );
}

#[tokio::test]
async fn another_authority_or_host_over_http2_is_refused() {
    let lab = Lab::new().await;
    let mut sender = lab.http2().await;
    let port = lab.server.port;
    for request in [
        hyper::Request::get(format!("https://other.lab.test:{port}/hello")),
        hyper::Request::get("https://files.lab.test/hello"),
        lab.get2("/hello").header("host", "other.lab.test"),
    ] {
        let (head, body) = whole(sender.send_request(empty(request)).await).await;
        assert_eq!(head.status, StatusCode::FORBIDDEN);
        assert_eq!(reason(&body), "host_mismatch");
    }
    let request = hyper::Request::get(format!("http://{}/hello", lab.authority()));
    let (_, body) = whole(sender.send_request(empty(request)).await).await;
    assert_eq!(reason(&body), "scheme_not_allowed");
    assert_eq!(lab.server.connections(), 0);
}

#[tokio::test]
async fn the_denial_is_in_the_status_line_too() {
    let lab = Lab::new().await;
    let answer = lab
        .raw("GET /hello HTTP/1.1\r\nHost: other.lab.test\r\nConnection: close\r\n\r\n")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 403 belljar host_mismatch\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("content-type: application/json"),
        "{answer}"
    );
}

#[tokio::test]
async fn heads_with_two_meanings_are_refused_inside_of_tls() {
    let lab = Lab::new().await;
    let authority = lab.authority();
    let host = format!("Host: {authority}\r\n");
    let cases = [
        (
            format!(
                "POST /a HTTP/1.1\r\n{host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            "ambiguous_length",
        ),
        (
            format!("POST /a HTTP/1.1\r\n{host}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
            "ambiguous_length",
        ),
        (
            format!("POST /a HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n"),
            "ambiguous_length",
        ),
        (
            format!("GET /a HTTP/1.1\r\n{host}X: 1\r\n folded\r\n\r\n"),
            "malformed_head",
        ),
        (
            format!("GET /a HTTP/1.1\r\n{host}Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
            "upgrade",
        ),
        (
            format!("TRACE /a HTTP/1.1\r\n{host}\r\n"),
            "forbidden_method",
        ),
        (
            format!("CONNECT {authority} HTTP/1.1\r\n{host}\r\n"),
            "forbidden_method",
        ),
    ];
    for (request, expected) in cases {
        let answer = lab.raw(&request).await;
        let line = format!("HTTP/1.1 403 belljar {expected}\r\n");
        assert!(answer.starts_with(&line), "{request}{answer}");
        let mut words = request.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(
            lab.record().last().unwrap(),
            &format!("{method} {target} {expected}")
        );
    }
    assert_eq!(lab.server.connections(), 0);
}

#[tokio::test]
async fn a_pipelined_request_with_two_meanings_does_not_spoil_the_one_before() {
    let lab = Lab::new().await;
    let authority = lab.authority();
    let answers = lab
        .raw(&format!(
            "GET /hello HTTP/1.1\r\nHost: {authority}\r\n\r\n\
             POST /a HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        ))
        .await;
    assert!(answers.starts_with("HTTP/1.1 200"), "{answers}");
    assert!(
        answers.contains("HTTP/1.1 403 belljar ambiguous_length\r\n"),
        "{answers}"
    );
    assert_eq!(lab.record()[0], "GET /hello allowed");
}

#[tokio::test]
async fn http2_in_the_clear_is_refused() {
    let lab = Lab::with(Identity::Plain, |_| {}).await;
    let answer = lab.raw_plain("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(lab.server.connections(), 0);
}

#[tokio::test]
async fn each_request_of_a_proxy_connection_is_decided_anew() {
    let lab = Lab::with(Identity::Plain, |_| {}).await;
    let authority = lab.authority();
    let answer = lab
        .raw_plain(&format!(
            "GET http://{authority}/hello HTTP/1.1\r\nHost: {authority}\r\n\r\n\
             GET http://other.lab.test/hello HTTP/1.1\r\nHost: other.lab.test\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("403 belljar host_not_allowed"), "{answer}");
    assert_eq!(
        lab.record(),
        ["GET /hello allowed", "GET /hello host_not_allowed"]
    );
}

#[tokio::test]
async fn a_proxy_request_must_not_contradict_itself() {
    let lab = Lab::with(Identity::Plain, |_| {}).await;
    let authority = lab.authority();
    for (request, expected) in [
        (
            format!(
                "GET http://{authority}/ HTTP/1.1\r\nHost: other.lab.test\r\nConnection: close\r\n\r\n"
            ),
            "host_mismatch",
        ),
        (
            format!(
                "GET http://user@{authority}/ HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
            ),
            "host_syntax",
        ),
        (
            format!(
                "GET https://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
            ),
            "scheme_not_allowed",
        ),
    ] {
        let answer = lab.raw_plain(&request).await;
        let line = format!("HTTP/1.1 403 belljar {expected}\r\n");
        assert!(answer.starts_with(&line), "{request}{answer}");
    }
    assert_eq!(lab.server.connections(), 0);
}

#[tokio::test]
async fn plain_http_to_a_host_that_is_allowed_under_tls_is_refused() {
    let lab = Lab::new().await;
    let authority = lab.authority();
    let answer = lab
        .raw_plain(&format!(
            "GET http://{authority}/hello HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(lab.server.connections(), 0);
}

#[tokio::test]
async fn paths_and_methods_are_decided_inside_of_tls() {
    use crate::config::PathPattern;
    let lab = Lab::with(Identity::Right, |profile| {
        profile.rules[0].methods = Some(vec!["GET".to_owned()]);
        profile.rules[0].paths = Some(vec![PathPattern::Exactly("/hello".to_owned())]);
    })
    .await;
    let mut sender = lab.http2().await;
    for (request, expected) in [
        (lab.get2("/echo"), "path_not_allowed"),
        (lab.get2("/hello").method("POST"), "method_not_allowed"),
        (lab.get2("/x/..%2fhello"), "path_ambiguous"),
    ] {
        let (head, body) = whole(sender.send_request(empty(request)).await).await;
        assert_eq!(head.status, StatusCode::FORBIDDEN);
        assert_eq!(reason(&body), expected);
    }
    let (head, _) = whole(sender.send_request(empty(lab.get2("/hello"))).await).await;
    assert_eq!(head.status, StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_cannot_be_recorded_is_not_sent() {
    let lab = Lab::new().await;
    let mut one = lab.http1().await;
    let mut two = lab.http2().await;
    lab.fill_record();
    let (first, body) = whole(one.send_request(empty(lab.get("/hello"))).await).await;
    let (second, again) = whole(two.send_request(empty(lab.get2("/hello"))).await).await;
    for (head, body) in [(first, body), (second, again)] {
        assert_eq!(head.status, StatusCode::FORBIDDEN);
        assert_eq!(reason(&body), "not_recorded");
    }
    assert_eq!(lab.server.connections(), 0);
}

#[tokio::test]
async fn the_budget_of_requests_holds_within_one_connection() {
    let lab = Lab::with(Identity::Right, |profile| profile.budget.requests = 2).await;
    let mut sender = lab.http1().await;
    for expected in [StatusCode::OK, StatusCode::OK, StatusCode::FORBIDDEN] {
        let (head, body) = whole(sender.send_request(empty(lab.get("/hello"))).await).await;
        assert_eq!(head.status, expected, "{body}");
        if expected == StatusCode::FORBIDDEN {
            assert_eq!(reason(&body), "too_many_requests");
        }
    }
    assert_eq!(
        lab.record(),
        [
            "GET /hello allowed",
            "GET /hello allowed",
            "GET /hello too_many_requests"
        ]
    );
}

#[tokio::test]
async fn what_is_no_target_is_refused_and_recorded_like_everything_else() {
    let tls = Lab::new().await;
    let plain = Lab::with(Identity::Plain, |_| {}).await;
    for target in [
        "http://files.lab.test:80\\@other.lab.test/",
        "http://[::1/",
        "http://a@b@c/",
        "http://",
        "/a<b>\\",
    ] {
        let head =
            |lab: &Lab| format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", lab.authority());
        for (lab, answer) in [
            (&tls, tls.raw(&head(&tls)).await),
            (&plain, plain.raw_plain(&head(&plain)).await),
        ] {
            let denied = answer.strip_prefix("HTTP/1.1 403 belljar ");
            let reason = denied.and_then(|rest| rest.split("\r\n").next());
            let recorded = lab.record().pop();
            assert!(
                reason.is_some_and(|reason| recorded.is_some_and(|line| line.ends_with(reason))),
                "{target}: {answer}"
            );
        }
    }
    assert_eq!(tls.server.connections() + plain.server.connections(), 0);
}

#[tokio::test]
async fn chunks_that_are_none_are_the_programs_doing() {
    let lab = Lab::with(Identity::Plain, |_| {}).await;
    let authority = lab.authority();
    for chunks in [
        "zz\r\nx\r\n0\r\n\r\n",
        "-1\r\nx\r\n0\r\n\r\n",
        "1\nx\n0\n\n",
    ] {
        let answer = lab
            .raw_plain(&format!(
                "POST http://{authority}/hello HTTP/1.1\r\nHost: {authority}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
            ))
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 403 belljar ambiguous_length\r\n"),
            "{chunks:?}: {answer}"
        );
    }
}
