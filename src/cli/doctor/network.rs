//! Profiles of the network and secrets: what is right as configuration and would fail every call all the same.
//!
//! Nothing is resolved or reached, no command is run, and nothing of a secret is shown.

use std::net::IpAddr;

use super::check::Check;
use crate::{
    config::{EgressSettings, HostPattern, Profile},
    egress::Vault,
    policy,
    types::Host,
};

const PROFILE: &str = "network";
const SECRET: &str = "secret";

/// Looks at each profile, and at each secret whose source can be looked at without a trace.
pub(super) async fn checks(settings: &EgressSettings) -> Vec<Check> {
    if settings.profiles.is_empty() {
        return vec![Check::ok(PROFILE, "no profiles: nothing goes out")];
    }
    let mut checks: Vec<Check> = settings.profiles.values().flat_map(|one| of(one)).collect();
    for secret in settings.secrets.values() {
        let name = &secret.name;
        checks.push(match Vault::look_at(secret).await {
            None => Check::ok(
                SECRET,
                format!("{name}: from a command, which is not run here"),
            ),
            Some(Ok(())) => Check::ok(SECRET, format!("{name} is there")),
            Some(Err(error)) => Check::warning(
                SECRET,
                error.to_string(),
                "until then each call that names a profile with it fails",
            ),
        });
    }
    checks
}

fn of(profile: &Profile) -> Vec<Check> {
    let name = &profile.name;
    let mut checks = Vec::new();
    let mut warn = |found: String, fix: String| checks.push(Check::warning(PROFILE, found, fix));
    if profile.callers.is_empty() {
        warn(
            format!("{name}: nobody may name it, since callers is empty"),
            "callers = [\"local\"], or without the key all may".to_owned(),
        );
    }
    let closed =
        |address: IpAddr| policy::egress::address(address, false, &profile.allow_private).is_err();
    let open = |address: IpAddr| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        format!(
            "where that is meant: allow_private = [\"{address}/{bits}\"]; those of cloud metadata stay closed"
        )
    };
    for (host, addresses) in &profile.resolve {
        let key = Host::Name(host.clone());
        if !profile.rules.iter().any(|rule| rule.hosts.covers(&key)) {
            warn(
                format!("{name}: resolve has {key}, which no rule allows"),
                "allow it, or take it out of resolve".to_owned(),
            );
        }
        for address in addresses.iter().filter(|address| closed(**address)) {
            warn(
                format!("{name}: {key} leads to {address}, which is denied"),
                open(*address),
            );
        }
    }
    for rule in &profile.rules {
        if let HostPattern::Exactly(Host::Ip(address)) = &rule.hosts
            && closed(*address)
        {
            warn(
                format!("{name}: {address} is allowed as a host and denied as an address"),
                open(*address),
            );
        }
    }
    if checks.is_empty() {
        checks.push(Check::ok(
            PROFILE,
            match profile.rules.len() {
                0 => format!("{name}: no rules, so that everything is denied"),
                1 => format!("{name}: 1 rule"),
                rules => format!("{name}: {rules} rules"),
            },
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::{super::check::Level, *};
    use crate::{
        config::{FileOrigin, Settings},
        types::Cpus,
    };

    async fn found(text: &str) -> Vec<(Level, String)> {
        let settings = Settings::parse(text, FileOrigin::BuiltIn, Cpus::from_millis(1000)).unwrap();
        let checks = checks(&settings.egress).await;
        checks
            .into_iter()
            .map(|check| (check.level, check.found))
            .collect()
    }

    #[tokio::test]
    async fn what_would_fail_every_call_is_said() {
        let found = found(
            r#"
[egress.lab]
allow = ["files.lab.test", "127.0.0.1:8080", "192.0.2.7"]
resolve = { "files.lab.test" = ["10.1.2.3"], "file.lab.test" = ["10.9.9.9"] }
allow_private = ["10.9.0.0/16"]
callers = []
secrets = ["missing"]
[egress.fine]
allow = ["files.lab.test"]
resolve = { "files.lab.test" = ["10.1.2.3"] }
allow_private = ["10.1.0.0/16"]
[secrets.missing]
from = { file = "/nowhere/at/all" }
hosts = ["files.lab.test"]
inject = { header = "Authorization" }
[secrets.minted]
from = { command = ["false"] }
hosts = ["files.lab.test"]
inject = { header = "Authorization" }
"#,
        )
        .await;
        let warned: Vec<&str> = found
            .iter()
            .filter(|(level, _)| *level == Level::Warning)
            .map(|(_, found)| found.as_str())
            .collect();
        assert_eq!(
            warned,
            [
                "lab: nobody may name it, since callers is empty",
                "lab: resolve has file.lab.test, which no rule allows",
                "lab: files.lab.test leads to 10.1.2.3, which is denied",
                "lab: 127.0.0.1 is allowed as a host and denied as an address",
                "lab: 192.0.2.7 is allowed as a host and denied as an address",
                "the secret missing is not available: the file /nowhere/at/all: No such file or directory (os error 2)",
            ]
        );
        assert!(found.contains(&(Level::Ok, "fine: 1 rule".to_owned())));
        assert!(found.contains(&(
            Level::Ok,
            "minted: from a command, which is not run here".to_owned()
        )));
    }

    #[tokio::test]
    async fn without_profiles_there_is_one_line() {
        let found = found("").await;
        assert_eq!(
            found,
            [(Level::Ok, "no profiles: nothing goes out".to_owned())]
        );
    }
}
