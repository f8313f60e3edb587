//! What a vault promises, rule by rule.

mod answers;
mod codings;
mod requests;
mod sources;

use std::time::Duration;

use hyper::header::HeaderName;

use super::*;
use crate::{
    config::{Budget, Uninspectable},
    types::ProfileName,
};

/// A token of the usual kind.
const TOKEN: &str = "ghp_Zx81LkQ0pTbnVuW3yRsC5dEf7GhJ2aMi9oPq";

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text, Some(443)).unwrap()
}

/// A secret that a command prints.
fn spec(name: &str, value: &str, hosts: &[&str], inject: Injection) -> SecretSpec {
    SecretSpec {
        name: name.to_owned(),
        from: printing(value),
        hosts: hosts.iter().map(|host| endpoint(host)).collect(),
        inject,
    }
}

fn printing(value: &str) -> SecretSource {
    SecretSource::Command {
        argv: ["printf", "%s\n", value].map(str::to_owned).to_vec(),
        ttl: Duration::from_mins(10),
    }
}

fn bearer() -> Injection {
    Injection::Header {
        name: "authorization".to_owned(),
        format: "Bearer {}".to_owned(),
    }
}

fn placeholder(variable: &str) -> Injection {
    Injection::Placeholder {
        variable: variable.to_owned(),
    }
}

fn profile(secrets: Vec<SecretSpec>) -> Arc<Profile> {
    Arc::new(Profile {
        name: ProfileName::parse("lab").unwrap(),
        rules: Vec::new(),
        secrets: secrets.into_iter().map(Arc::new).collect(),
        resolve: BTreeMap::new(),
        allow_private: Vec::new(),
        upstream_ca: Vec::new(),
        uninspectable: Uninspectable::Block,
        budget: Budget {
            requests: 1,
            connections: 1,
            sent_bytes: 1,
            received_bytes: 1,
            duration: Duration::from_secs(1),
        },
        callers: Vec::new(),
    })
}

async fn vault(secrets: Vec<SecretSpec>) -> Vault {
    Vault::open(&profile(secrets)).await.unwrap()
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, value.parse().unwrap())
        })
        .collect()
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .map_or("(none)", |value| value.to_str().unwrap())
}
