//! A server that is down, slow, wrong or cut off, and the end of the run.

use http_body_util::BodyExt as _;
use hyper::StatusCode;

use super::lab::{HOST, Identity, Lab, empty, reason, whole};
use crate::types::{Endpoint, Host};

async fn failure(lab: &Lab, path: &str) -> (StatusCode, String, String) {
    let (first, body) = whole(lab.http1().await.send_request(empty(lab.get(path))).await).await;
    let (second, again) = whole(lab.http2().await.send_request(empty(lab.get2(path))).await).await;
    assert_eq!(first.status, second.status);
    assert_eq!(reason(&body), reason(&again));
    let kind: serde_json::Value = serde_json::from_str(&body).unwrap();
    (
        first.status,
        kind["error"].as_str().unwrap().to_owned(),
        reason(&body),
    )
}

fn failed(status: StatusCode, reason: &str) -> (StatusCode, String, String) {
    (status, "egress_failed".to_owned(), reason.to_owned())
}

#[tokio::test]
async fn an_invalid_certificate_is_a_failure_of_its_own() {
    for (identity, words) in [
        (Identity::Expired, "has expired"),
        (Identity::OtherName, "is for another host"),
        (Identity::Unknown, "is signed by nobody who is trusted"),
    ] {
        let lab = Lab::with(identity, |_| {}).await;
        let expected = failed(StatusCode::BAD_GATEWAY, "upstream_certificate");
        assert_eq!(failure(&lab, "/hello").await, expected);
        let answer = lab
            .http1()
            .await
            .send_request(empty(lab.get("/hello")))
            .await;
        let (_, body) = whole(answer).await;
        assert!(body.contains(words), "{body}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to() {
    let lab = Lab::with(Identity::Plain, |profile| {
        profile.rules[0].scheme = crate::config::Scheme::Https;
    })
    .await;
    let expected = failed(StatusCode::BAD_GATEWAY, "upstream_tls");
    assert_eq!(failure(&lab, "/hello").await, expected);
}

#[tokio::test]
async fn a_server_that_is_down_is_unreachable() {
    let mut lab = Lab::new().await;
    lab.server.stop().await;
    let expected = failed(StatusCode::BAD_GATEWAY, "upstream_unreachable");
    assert_eq!(failure(&lab, "/hello").await, expected);
    // Allowed it was, twice, and the report says what became of it.
    let report = lab.relay.report();
    assert_eq!((report.allowed_count(), report.denied_count()), (2, 0));
    assert_eq!(report.failed_count(), 2);
    assert_eq!(report.failed[0].host, HOST);
    assert_eq!(report.failed[0].reason, "upstream_unreachable");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let lab = Lab::new().await;
    lab.impatient();
    let (head, body) = whole(
        lab.http1()
            .await
            .send_request(empty(lab.get("/never")))
            .await,
    )
    .await;
    assert_eq!(head.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(reason(&body), "upstream_timeout");
}

#[tokio::test]
async fn a_server_that_changes_the_protocol_unasked_is_not_followed() {
    let lab = Lab::with(Identity::OldFashioned, |_| {}).await;
    let expected = failed(StatusCode::BAD_GATEWAY, "upstream_protocol");
    assert_eq!(failure(&lab, "/switch").await, expected);
}

#[tokio::test]
async fn an_answer_that_is_cut_off_does_not_look_whole() {
    for identity in [Identity::Right, Identity::OldFashioned] {
        let lab = Lab::with(identity, |_| {}).await;
        let one = lab.http1().await.send_request(empty(lab.get("/cut"))).await;
        let two = lab
            .http2()
            .await
            .send_request(empty(lab.get2("/cut")))
            .await;
        for answer in [one, two] {
            let mut body = answer.unwrap().into_body();
            assert_eq!(
                body.frame().await.unwrap().unwrap().into_data().unwrap(),
                "half"
            );
            lab.server.cut();
            assert!(body.frame().await.unwrap().is_err());
        }
    }
}

#[tokio::test]
async fn a_download_past_the_budget_is_cut() {
    const BUDGET: u64 = 1024 * 1024;
    let lab = Lab::with(Identity::Right, |profile| {
        profile.budget.received_bytes = BUDGET;
    })
    .await;
    let answer = lab
        .http1()
        .await
        .send_request(empty(lab.get("/endless")))
        .await;
    let mut body = answer.unwrap().into_body();
    let mut received = 0;
    let error = loop {
        match body.frame().await {
            Some(Ok(frame)) => received += frame.into_data().map_or(0, |data| data.len() as u64),
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    assert!(error.is_some());
    assert!(received <= BUDGET, "{received}");
    assert!(
        lab.record()
            .iter()
            .any(|line| line.ends_with("too_much_received"))
    );

    // What is used up stays so, and the program is told.
    let (head, body) = whole(
        lab.http1()
            .await
            .send_request(empty(lab.get("/hello")))
            .await,
    )
    .await;
    assert_eq!(head.status, StatusCode::FORBIDDEN);
    assert_eq!(reason(&body), "too_much_received");
}

#[tokio::test]
async fn the_end_of_the_run_cuts_a_download() {
    let lab = Lab::new().await;
    let first = lab
        .http1()
        .await
        .send_request(empty(lab.get("/endless")))
        .await;
    let second = lab
        .http2()
        .await
        .send_request(empty(lab.get2("/endless")))
        .await;
    let mut bodies = [first.unwrap().into_body(), second.unwrap().into_body()];
    for body in &mut bodies {
        assert!(body.frame().await.unwrap().is_ok());
    }
    lab.relay.close();
    for body in bodies {
        assert!(body.collect().await.is_err());
    }
}

#[tokio::test]
async fn the_end_of_the_run_cuts_a_request_that_waits() {
    let lab = Lab::new().await;
    let mut sender = lab.http1().await;
    let waiting = sender.send_request(empty(lab.get("/never")));
    let closing = async {
        lab.server.asked().await;
        lab.relay.close();
    };
    let (answer, ()) = tokio::join!(waiting, closing);
    assert!(answer.is_err());
}

#[tokio::test]
async fn a_url_is_made_of_the_endpoint_alone() {
    use crate::{config::Scheme, egress::upstream};
    let endpoint = |host: &str, port| Endpoint {
        host: Host::parse(host).unwrap(),
        port,
    };
    for (scheme, endpoint, url) in [
        (
            Scheme::Https,
            endpoint(HOST, 443),
            "https://files.lab.test/a?b",
        ),
        (
            Scheme::Https,
            endpoint(HOST, 80),
            "https://files.lab.test:80/a?b",
        ),
        (Scheme::Http, endpoint("::1", 80), "http://[::1]/a?b"),
        (
            Scheme::Http,
            endpoint("0x7f.1", 8080),
            "http://127.0.0.1:8080/a?b",
        ),
    ] {
        let made = upstream::uri(scheme, &endpoint, "/a?b").unwrap();
        assert_eq!(made.to_string(), url);
    }
    for none in ["*", "", "a", "/a#b", "//x y"] {
        let made = upstream::uri(Scheme::Https, &endpoint(HOST, 443), none);
        assert_eq!(made, None, "{none}");
    }
}
