//! Profiles for the tests of this row and those above.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    config::{Budget, HostPattern, Profile, Rule, Scheme, Uninspectable},
    types::{Endpoint, Host, ProfileName},
};

/// A profile of these rules, with a budget that no test uses up unless it means to.
pub(crate) fn profile(rules: Vec<Rule>) -> Profile {
    Profile {
        name: ProfileName::parse("test").unwrap(),
        rules,
        secrets: Vec::new(),
        resolve: BTreeMap::new(),
        allow_private: Vec::new(),
        upstream_ca: Vec::new(),
        uninspectable: Uninspectable::Pass,
        budget: Budget {
            requests: 1_000,
            connections: 16,
            sent_bytes: 1 << 30,
            received_bytes: 1 << 30,
            duration: Duration::from_mins(1),
        },
        callers: Vec::new(),
    }
}

/// A rule that allows all requests: `host:port`, `*.name:port`, or one of them behind `http://`.
pub(crate) fn rule(text: &str) -> Rule {
    let (scheme, text) = match text.strip_prefix("http://") {
        Some(text) => (Scheme::Http, text),
        None => (Scheme::Https, text),
    };
    let Endpoint { host, port } = endpoint(text.strip_prefix("*.").unwrap_or(text));
    let hosts = match host {
        Host::Name(name) if text.starts_with("*.") => HostPattern::Below(name),
        host => HostPattern::Exactly(host),
    };
    Rule {
        scheme,
        hosts,
        port,
        methods: None,
        paths: None,
        tunnel: false,
    }
}

/// An endpoint: `host:port`.
pub(crate) fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text, None).unwrap()
}
