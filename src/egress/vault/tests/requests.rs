//! What goes into requests, and where it does not.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::*;

const API: &str = "api.lab.test";

async fn prepared(vault: &Vault, to: &str, lines: &[(&str, &str)]) -> (HeaderMap, Vec<String>) {
    let mut headers = headers(lines);
    let used = vault
        .prepare(&endpoint(to), Scheme::Https, &mut headers)
        .await
        .unwrap();
    (headers, used)
}

#[tokio::test]
async fn a_header_is_set_for_the_secret_s_own_endpoints_only() {
    let vault = vault(vec![spec(
        "one",
        TOKEN,
        &[API, "b.lab.test:8443"],
        bearer(),
    )])
    .await;
    for to in [API, "API.lab.test.", "b.lab.test:8443"] {
        let (sent, used) = prepared(&vault, to, &[]).await;
        assert_eq!(
            value(&sent, "authorization"),
            format!("Bearer {TOKEN}"),
            "{to}"
        );
        assert!(sent["authorization"].is_sensitive());
        assert_eq!(used, ["one"]);
    }
    for to in [
        "lab.test",
        "x.api.lab.test",
        "api.lab.test:8443",
        "b.lab.test",
        "127.0.0.1",
    ] {
        let (sent, used) = prepared(&vault, to, &[("authorization", "own")]).await;
        assert_eq!(value(&sent, "authorization"), "own", "{to}");
        assert!(used.is_empty());
    }
}

#[tokio::test]
async fn nothing_is_put_in_over_plain_http() {
    let vault = vault(vec![
        spec("one", TOKEN, &[API], bearer()),
        spec("two", "hunter2hunter2", &[API], placeholder("T")),
    ])
    .await;
    let stand_in = vault.env()["T"].clone();
    let mut sent = headers(&[("x-key", &stand_in)]);
    let used = vault
        .prepare(&endpoint(API), Scheme::Http, &mut sent)
        .await
        .unwrap();
    assert!(used.is_empty());
    assert_eq!(sent, headers(&[("x-key", &stand_in)]));
}

#[tokio::test]
async fn the_program_s_own_header_goes_in_every_spelling() {
    let inject = Injection::Header {
        name: "x-api-key".to_owned(),
        format: "{}".to_owned(),
    };
    let vault = vault(vec![spec("one", TOKEN, &[API], inject)]).await;
    let lines = [
        ("x-api-key", "mine"),
        ("X-API-KEY", "mine"),
        ("x_api_key", "mine"),
        ("X_Api-Key", "mine"),
        ("x.api.key", "mine"),
        ("x-api-key2", "another"),
        ("xapikey", "another"),
    ];
    let (sent, _) = prepared(&vault, API, &lines).await;
    assert_eq!(sent.len(), 3);
    assert_eq!(value(&sent, "x-api-key"), TOKEN);
    assert_eq!(value(&sent, "x-api-key2"), "another");
    assert_eq!(value(&sent, "xapikey"), "another");
}

#[tokio::test]
async fn basic_authentication_is_set_with_user_and_secret() {
    let inject = Injection::Basic {
        user: "x-access-token".to_owned(),
    };
    let vault = vault(vec![spec("git", TOKEN, &[API], inject)]).await;
    let (sent, used) = prepared(&vault, API, &[("authorization", "Basic bWluZTptaW5l")]).await;
    let pair = STANDARD.encode(format!("x-access-token:{TOKEN}"));
    assert_eq!(value(&sent, "authorization"), format!("Basic {pair}"));
    assert_eq!(sent.get_all("authorization").iter().count(), 1);
    assert_eq!(used, ["git"]);
}

#[tokio::test]
async fn a_stand_in_is_swapped_in_any_header_value_and_as_often_as_it_is_there() {
    let vault = vault(vec![
        spec("one", TOKEN, &[API], placeholder("ONE")),
        spec("two", "hunter2hunter2", &[API], placeholder("TWO")),
    ])
    .await;
    let (one, two) = (vault.env()["ONE"].clone(), vault.env()["TWO"].clone());
    assert!(one.starts_with("ghp_") && one.len() == TOKEN.len() && one != TOKEN);
    let lines = [
        ("authorization", format!("token {one}")),
        ("cookie", format!("a={one}; b={two}{one}")),
        ("accept", "*/*".to_owned()),
    ];
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let (sent, used) = prepared(&vault, API, &lines).await;
    assert_eq!(value(&sent, "authorization"), format!("token {TOKEN}"));
    assert_eq!(
        value(&sent, "cookie"),
        format!("a={TOKEN}; b=hunter2hunter2{TOKEN}")
    );
    assert!(sent["authorization"].is_sensitive() && sent["cookie"].is_sensitive());
    assert!(!sent["accept"].is_sensitive());
    assert_eq!(used, ["one", "two"]);
}

#[tokio::test]
async fn a_stand_in_is_swapped_within_basic_authentication() {
    let vault = vault(vec![spec("one", TOKEN, &[API], placeholder("T"))]).await;
    let stand_in = vault.env()["T"].clone();
    let expected = STANDARD.encode(format!("me:{TOKEN}"));
    let pair = STANDARD.encode(format!("me:{stand_in}"));
    for sent in [
        format!("Basic {pair}"),
        format!("bAsIc   {}", pair.trim_end_matches('=')),
    ] {
        let (sent, used) = prepared(&vault, API, &[("authorization", &sent)]).await;
        assert_eq!(value(&sent, "authorization"), format!("Basic {expected}"));
        assert!(sent["authorization"].is_sensitive());
        assert_eq!(used, ["one"]);
    }
}

#[tokio::test]
async fn a_stand_in_stays_one_where_its_secret_does_not_belong() {
    let vault = vault(vec![
        spec("one", TOKEN, &[API], placeholder("ONE")),
        spec("two", "hunter2hunter2", &["b.lab.test"], placeholder("TWO")),
    ])
    .await;
    let one = vault.env()["ONE"].clone();
    let basic = format!("Basic {}", STANDARD.encode(format!("me:{one}")));
    let lines = [("x-key", one.as_str()), ("authorization", &basic)];
    let (sent, used) = prepared(&vault, "b.lab.test", &lines).await;
    assert_eq!(sent, headers(&lines));
    assert!(used.is_empty());
    // Nor in a name of a header, nor within another header's base64.
    let lines = [("x-key", basic.as_str()), (one.as_str(), "x")];
    let (sent, used) = prepared(&vault, API, &lines).await;
    assert_eq!(sent, headers(&lines));
    assert!(used.is_empty());
}

#[tokio::test]
async fn several_secrets_go_to_one_host_and_what_one_put_in_is_not_swapped() {
    let vault = vault(vec![
        spec("one", TOKEN, &[API], bearer()),
        spec("two", "hunter2hunter2", &[API], placeholder("TWO")),
    ])
    .await;
    let two = vault.env()["TWO"].clone();
    let lines = [("x-key", two.as_str()), ("authorization", two.as_str())];
    let (sent, mut used) = prepared(&vault, API, &lines).await;
    used.sort();
    assert_eq!(value(&sent, "x-key"), "hunter2hunter2");
    assert_eq!(value(&sent, "authorization"), format!("Bearer {TOKEN}"));
    assert_eq!(used, ["one", "two"]);
}

#[tokio::test]
async fn a_header_does_not_grow_to_as_many_secrets_as_there_are_stand_ins() {
    let long = "x".repeat(8 * 1024);
    let vault = vault(vec![spec("one", &long, &[API], placeholder("T"))]).await;
    let many = vault.env()["T"].repeat(9);
    let mut sent = headers(&[("x-key", &many)]);
    let error = vault
        .prepare(&endpoint(API), Scheme::Https, &mut sent)
        .await
        .unwrap_err();
    assert_eq!(error.name, "one");
    assert!(!error.to_string().contains("xxxx"));
}

#[tokio::test]
async fn a_format_that_gives_no_header_is_an_error_without_the_secret() {
    let inject = Injection::Header {
        name: "x-key".to_owned(),
        format: "a\n{}".to_owned(),
    };
    let vault = vault(vec![spec("one", TOKEN, &[API], inject)]).await;
    let prepared = vault
        .prepare(&endpoint(API), Scheme::Https, &mut HeaderMap::new())
        .await;
    assert!(!prepared.unwrap_err().to_string().contains(TOKEN));
}

#[tokio::test]
async fn only_codings_that_can_be_searched_are_asked_for() {
    let with = vault(vec![spec("one", TOKEN, &[API], bearer())]).await;
    for (asked, left) in [
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br;q=1.0, GZIP;q=0.5, *;q=0.1", "GZIP;q=0.5"),
        ("br", "identity"),
        ("", "identity"),
        ("identity", "identity"),
    ] {
        for scheme in [Scheme::Https, Scheme::Http] {
            let mut sent = headers(&[("accept-encoding", asked)]);
            let to = endpoint("elsewhere.lab.test");
            with.prepare(&to, scheme, &mut sent).await.unwrap();
            assert_eq!(value(&sent, "accept-encoding"), left);
        }
    }
    let mut sent = headers(&[
        ("accept-encoding", "gzip"),
        ("accept-encoding", "br, deflate"),
    ]);
    with.prepare(&endpoint(API), Scheme::Https, &mut sent)
        .await
        .unwrap();
    assert_eq!(value(&sent, "accept-encoding"), "gzip, deflate");
    let (sent, _) = prepared(&vault(Vec::new()).await, API, &[("accept-encoding", "br")]).await;
    assert_eq!(value(&sent, "accept-encoding"), "br");
}

#[tokio::test]
async fn without_secrets_there_is_nothing_to_find() {
    let vault = vault(Vec::new()).await;
    assert!(vault.redactor().is_none());
    assert!(vault.env().is_empty());
}

#[tokio::test]
async fn debugging_a_vault_shows_no_secret() {
    let basic = Injection::Basic {
        user: "me".to_owned(),
    };
    let vault = vault(vec![
        spec("one", TOKEN, &[API], placeholder("T")),
        spec("two", "hunter2hunter2", &[API], basic),
    ])
    .await;
    let redactor = vault.redactor().unwrap();
    // The source of these is a command that has them in its arguments: only what is kept counts.
    let shown = format!(
        "{redactor:?} {redactor:#?} {:?} {:?}",
        vault.known, vault.kept[0].minted
    );
    let shown = format!(
        "{shown} {:?} {:?}",
        vault.kept[1].minted, vault.kept[0].stand_in
    );
    for hidden in [TOKEN, "hunter2", "bWU6aHVudGVyMmh1bnRlcjI"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
}
