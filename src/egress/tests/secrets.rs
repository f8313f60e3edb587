//! Secrets go to their own host and never come back.

use std::{io::Write as _, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::StatusCode;

use super::lab::{HOST, Identity, Lab, empty, reason, whole};
use crate::{
    config::{Injection, Profile, SecretSource, SecretSpec, Uninspectable},
    types::{Endpoint, Host},
};

const SECRET: &str = "s3cr3t/t0ken+value==";

/// A file with the secret that nobody else may read.
fn source() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{SECRET}").unwrap();
    file
}

fn give(profile: &mut Profile, file: &tempfile::NamedTempFile, inject: Injection) {
    profile.secrets = vec![Arc::new(SecretSpec {
        name: "token".to_owned(),
        from: SecretSource::File(file.path().to_owned()),
        hosts: vec![Endpoint {
            host: Host::parse(HOST).unwrap(),
            port: profile.rules[0].port,
        }],
        inject,
    })];
}

fn bearer() -> Injection {
    Injection::Header {
        name: "authorization".to_owned(),
        format: "Bearer {}".to_owned(),
    }
}

async fn lab(uninspectable: Uninspectable) -> Lab {
    let file = source();
    Lab::with(Identity::OldFashioned, |profile| {
        give(profile, &file, bearer());
        profile.uninspectable = uninspectable;
    })
    .await
}

#[tokio::test]
async fn an_injected_header_takes_the_place_of_the_programs_in_every_spelling() {
    let file = source();
    let lab = Lab::with(Identity::OldFashioned, |profile| {
        give(
            profile,
            &file,
            Injection::Header {
                name: "x-api-key".to_owned(),
                format: "{}".to_owned(),
            },
        );
    })
    .await;
    let authority = lab.authority();
    let answer = lab
        .raw(&format!(
            "GET /echo HTTP/1.1\r\nHost: {authority}\r\nX-API-KEY: mine\r\nx-api-key: mine\r\n\
             X_Api_Key: mine\r\nx_api-key: mine\r\nConnection: close, X-Api-Key\r\n\r\n"
        ))
        .await;
    assert!(!answer.contains("mine"), "{answer}");
    assert!(!answer.contains(SECRET), "{answer}");
    assert_eq!(answer.matches("x-api-key: ").count(), 1, "{answer}");
    assert!(!answer.to_lowercase().contains("x_api"), "{answer}");
}

#[tokio::test]
async fn the_secret_arrives() {
    let lab = lab(Uninspectable::Pass).await;
    // What cannot be searched passes here, so that what arrived can be seen at all.
    let mut sender = lab.http1().await;
    let (_, body) = whole(sender.send_request(empty(lab.get("/length"))).await).await;
    assert_eq!(body, format!("{}", "Bearer ".len() + SECRET.len()));
}

#[tokio::test]
async fn an_echoing_server_gives_nothing_away() {
    let lab = lab(Uninspectable::Block).await;
    let forms = [
        SECRET.to_owned(),
        BASE64_STANDARD.encode(SECRET),
        BASE64_STANDARD.encode(format!("abBearer {SECRET}")),
        SECRET.bytes().map(|b| format!("%{b:02X}")).collect(),
        SECRET.bytes().map(|b| format!("\\u{b:04x}")).collect(),
    ];
    let mut first = lab.http1().await;
    let mut second = lab.http2().await;
    for path in [
        "/raw",
        "/base64",
        "/percent",
        "/json",
        "/header",
        "/gzipped-echo",
        "/echo",
    ] {
        let one = whole(first.send_request(empty(lab.get(path))).await).await;
        let two = whole(second.send_request(empty(lab.get2(path))).await).await;
        for (head, body) in [one, two] {
            assert_eq!(head.status, StatusCode::OK);
            let all = format!("{:?} {body}", head.headers);
            for form in &forms {
                assert!(!all.contains(form), "{path}: {all}");
            }
            assert!(all.contains("belljar"), "{path}: {all}");
        }
    }
}

#[tokio::test]
async fn answers_are_asked_for_in_a_form_that_can_be_searched() {
    let lab = lab(Uninspectable::Block).await;
    let mut sender = lab.http1().await;
    let request = lab
        .get("/echo")
        .header("accept-encoding", "br, gzip")
        .header("range", "bytes=0-3")
        .header("if-range", "\"x\"");
    let (_, body) = whole(sender.send_request(empty(request)).await).await;
    assert!(body.contains("accept-encoding: gzip\n"), "{body}");
    assert!(!body.contains("range"), "{body}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_searched_does_not_pass() {
    let lab = lab(Uninspectable::Block).await;
    let mut sender = lab.http1().await;
    let (head, body) = whole(sender.send_request(empty(lab.get("/brotli"))).await).await;
    assert_eq!(head.status, StatusCode::FORBIDDEN);
    assert_eq!(reason(&body), "uninspectable");
    assert!(lab.record().last().unwrap().ends_with("uninspectable"));
}

#[tokio::test]
async fn an_answer_that_cannot_be_searched_passes_where_the_operator_says_so() {
    let lab = lab(Uninspectable::Pass).await;
    let mut sender = lab.http1().await;
    let (head, body) = whole(sender.send_request(empty(lab.get("/brotli"))).await).await;
    assert_eq!(
        (head.status, body.as_str()),
        (StatusCode::OK, "not searched")
    );
}

#[tokio::test]
async fn a_stand_in_becomes_the_secret_on_its_way_and_stays_one_inside() {
    let file = source();
    let lab = Lab::with(Identity::Right, |profile| {
        let variable = "TOKEN".to_owned();
        give(profile, &file, Injection::Placeholder { variable });
    })
    .await;
    let stand_in = lab.relay.env().remove("TOKEN").unwrap();
    assert!(!stand_in.contains(SECRET));
    let mut sender = lab.http2().await;
    let request = lab.get2("/length").header("authorization", &stand_in);
    let (_, body) = whole(sender.send_request(empty(request)).await).await;
    assert_eq!(body, SECRET.len().to_string());
    let request = lab.get2("/raw").header("authorization", &stand_in);
    let (_, body) = whole(sender.send_request(empty(request)).await).await;
    assert!(!body.contains(SECRET), "{body}");
}

#[tokio::test]
async fn no_secret_is_minted_for_a_request_that_is_denied() {
    let asked = tempfile::NamedTempFile::new().unwrap();
    let command = format!(
        "echo asked >> '{}'; echo s3cr3t-t0ken-value",
        asked.path().display()
    );
    let lab = Lab::with(Identity::OldFashioned, |profile| {
        give(profile, &asked, bearer());
        let spec = Arc::get_mut(&mut profile.secrets[0]).unwrap();
        spec.from = SecretSource::Command {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), command],
            // Run out at once, so that it is asked for whenever it is needed.
            ttl: std::time::Duration::ZERO,
        };
        profile.rules[0].methods = Some(vec!["GET".to_owned()]);
    })
    .await;
    let times = || {
        std::fs::read_to_string(asked.path())
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(times(), 1);
    let mut sender = lab.http1().await;
    let (head, body) = whole(
        sender
            .send_request(empty(lab.get("/length").method("POST")))
            .await,
    )
    .await;
    assert_eq!(head.status, StatusCode::FORBIDDEN);
    assert_eq!(reason(&body), "method_not_allowed");
    assert_eq!(times(), 1);
    let (head, _) = whole(sender.send_request(empty(lab.get("/length"))).await).await;
    assert_eq!(head.status, StatusCode::OK);
    assert_eq!(times(), 2);
}

#[tokio::test]
async fn an_answer_that_has_no_body_brings_none_over_http2_either() {
    let file = source();
    let lab = Lab::with(Identity::Right, |profile| give(profile, &file, bearer())).await;
    let mut sender = lab.http2().await;
    let request = empty(lab.get2("/no-content"));
    let (head, body) = whole(sender.send_request(request).await).await;
    assert_eq!((head.status, body.as_str()), (StatusCode::NO_CONTENT, ""));
}
