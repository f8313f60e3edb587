//! From the sections `[egress]` and `[secrets]` to checked profiles, and the rules between the two.

use std::{collections::BTreeMap, net::IpAddr, path::Path, sync::Arc};

use ipnet::IpNet;
use rustls_pki_types::CertificateDer;

use super::{
    Budget, CallerKind, EgressProblem, EgressSettings, Injection, MAX_ADDRESSES,
    MAX_ADDRESSES_OF_NAME, MAX_ENTRIES, MAX_PROFILE_SECRETS, MAX_RULES, Profile, Rule, Scheme,
    SecretSpec, Uninspectable,
    authorities::read,
    raw::{RawProfile, RawRule, RawSecret},
};
use crate::{
    config::Problem,
    types::{DnsName, Host, ProfileName},
};

/// The shortest prefixes of an open range: `10.0.0.0/8` and `fc00::/7` are the widest private ones. Stops a range that opens
/// the half of all addresses.
const SHORTEST_PREFIX_V4: u8 = 8;
const SHORTEST_PREFIX_V6: u8 = 7;

/// Addresses of names as they are written.
pub(in crate::config) type RawResolve = BTreeMap<String, Vec<String>>;

type Secrets = BTreeMap<String, Arc<SecretSpec>>;

impl EgressSettings {
    /// Checks everything; `folder` is the configuration file's, which paths of certificates are relative to.
    pub(in crate::config) fn checked(
        profiles: BTreeMap<String, RawProfile>,
        secrets: BTreeMap<String, RawSecret>,
        folder: &Path,
    ) -> Result<Self, Problem> {
        at_most(profiles.len(), MAX_ENTRIES).map_err(|problem| problem.at("egress"))?;
        at_most(secrets.len(), MAX_ENTRIES).map_err(|problem| problem.at("secrets"))?;
        let mut settings = Self::default();
        for (name, raw) in secrets {
            let secret = SecretSpec::checked(name, raw)?;
            settings
                .secrets
                .insert(secret.name.clone(), Arc::new(secret));
        }
        for (name, raw) in profiles {
            let name = ProfileName::parse(&name)
                .map_err(|error| EgressProblem::ProfileName { found: name, error }.at("egress"))?;
            if let Some(path) = &raw.upstream_ca {
                settings.upstream_ca.insert(name.clone(), path.clone());
            }
            let profile = profile(name.clone(), raw, &settings.secrets, folder)?;
            settings.profiles.insert(name, Arc::new(profile));
        }
        Ok(settings)
    }

    /// The profiles as they are written.
    pub(in crate::config) fn raw_profiles(&self) -> BTreeMap<String, RawProfile> {
        let raw = |profile: &Profile| RawProfile {
            allow: profile.rules.iter().map(Rule::raw).collect(),
            secrets: profile
                .secrets
                .iter()
                .map(|secret| secret.name.clone())
                .collect(),
            resolve: raw_resolve(&profile.resolve),
            allow_private: raw_ranges(&profile.allow_private),
            upstream_ca: self.upstream_ca.get(&profile.name).cloned(),
            uninspectable: Some(profile.uninspectable),
            callers: Some(profile.callers.clone()),
            budget: profile.budget.raw(),
        };
        self.profiles
            .iter()
            .map(|(name, profile)| (name.to_string(), raw(profile)))
            .collect()
    }

    /// The secrets as they are written.
    pub(in crate::config) fn raw_secrets(&self) -> BTreeMap<String, RawSecret> {
        self.secrets
            .iter()
            .map(|(name, secret)| (name.clone(), secret.raw()))
            .collect()
    }
}

fn profile(
    name: ProfileName,
    raw: RawProfile,
    known: &Secrets,
    folder: &Path,
) -> Result<Profile, Problem> {
    let key = |of: &str| format!("egress.{name}.{of}");
    let rules = rules(raw.allow, &key("allow"))?;
    let secrets =
        secrets(raw.secrets, known, &rules).map_err(|problem| problem.at(key("secrets")))?;
    for (at, rule) in rules.iter().enumerate() {
        bears(rule, &secrets).map_err(|problem| problem.at(key(&format!("allow[{at}]"))))?;
    }
    let upstream_ca = authorities(raw.upstream_ca.as_deref(), folder, &key("upstream_ca"))?;
    // Where there is nothing to search for, nothing is kept back.
    let uninspectable = raw.uninspectable.unwrap_or(if secrets.is_empty() {
        Uninspectable::Pass
    } else {
        Uninspectable::Block
    });
    Ok(Profile {
        resolve: resolve(raw.resolve, &key("resolve"))?,
        allow_private: ranges(raw.allow_private, &key("allow_private"))?,
        upstream_ca,
        uninspectable,
        budget: Budget::checked(&raw.budget, &key("budget"))?,
        callers: raw
            .callers
            .unwrap_or_else(|| vec![CallerKind::Local, CallerKind::Token]),
        rules,
        secrets,
        name,
    })
}

fn at_most(found: usize, most: usize) -> Result<(), EgressProblem> {
    if found > most {
        return Err(EgressProblem::TooMany { found, most });
    }
    Ok(())
}

fn rules(raw: Vec<RawRule>, key: &str) -> Result<Vec<Rule>, Problem> {
    at_most(raw.len(), MAX_RULES).map_err(|problem| problem.at(key))?;
    let mut rules: Vec<Rule> = Vec::new();
    for (at, raw) in raw.into_iter().enumerate() {
        let key = format!("{key}[{at}]");
        let rule = Rule::checked(raw, &key)?;
        if let Some(other) = rules.iter().position(|other| other.clashes(&rule)) {
            return Err(EgressProblem::RulesClash { other }.at(key));
        }
        rules.push(rule);
    }
    Ok(rules)
}

/// The secrets of a profile: each there, each of use, and no two in one place.
fn secrets(
    names: Vec<String>,
    known: &Secrets,
    rules: &[Rule],
) -> Result<Vec<Arc<SecretSpec>>, EgressProblem> {
    at_most(names.len(), MAX_PROFILE_SECRETS)?;
    let mut secrets: Vec<Arc<SecretSpec>> = Vec::new();
    for name in names {
        let Some(secret) = known.get(&name) else {
            let known = match known.len() {
                0 => "none".to_owned(),
                _ => known.keys().cloned().collect::<Vec<_>>().join(", "),
            };
            return Err(EgressProblem::SecretUnknown { found: name, known });
        };
        for other in &secrets {
            if other.name == name {
                return Err(EgressProblem::Twice { found: name });
            }
            apart(other, secret)?;
        }
        let allowed = |rule: &Rule, host, port| rule.port == port && rule.hosts.covers(host);
        if let Some(endpoint) = secret.hosts.iter().find(|endpoint| {
            !rules
                .iter()
                .any(|rule| allowed(rule, &endpoint.host, endpoint.port))
        }) {
            return Err(EgressProblem::SecretUnreachable {
                secret: name,
                endpoint: endpoint.clone(),
            });
        }
        secrets.push(Arc::clone(secret));
    }
    Ok(secrets)
}

/// Two secrets of one profile must not need the same place.
fn apart(first: &SecretSpec, second: &SecretSpec) -> Result<(), EgressProblem> {
    let names = || (first.name.clone(), second.name.clone());
    if let (
        Injection::Placeholder { variable },
        Injection::Placeholder {
            variable: of_second,
        },
    ) = (&first.inject, &second.inject)
        && variable == of_second
    {
        let (first, second) = names();
        return Err(EgressProblem::PlaceholderTwice {
            first,
            second,
            variable: variable.clone(),
        });
    }
    let shared = first.hosts.iter().find(|host| second.hosts.contains(host));
    if let (Some(endpoint), Some(header)) = (shared, first.inject.header())
        && second.inject.header() == Some(header)
    {
        let (first, second) = names();
        return Err(EgressProblem::HeaderTwice {
            first,
            second,
            header: header.to_owned(),
            endpoint: endpoint.clone(),
        });
    }
    Ok(())
}

/// Whether a rule and the secrets bear each other, whatever the port: a secret's host is spoken to under TLS that belljar
/// ends, so that it sees where the secret goes.
fn bears(rule: &Rule, secrets: &[Arc<SecretSpec>]) -> Result<(), EgressProblem> {
    if rule.scheme == Scheme::Https && !rule.tunnel {
        return Ok(());
    }
    for secret in secrets {
        let covered = |host: &Host| rule.hosts.covers(host);
        let Some(endpoint) = secret.hosts.iter().find(|it| covered(&it.host)) else {
            continue;
        };
        let (secret, host) = (secret.name.clone(), endpoint.host.clone());
        return Err(if rule.tunnel {
            EgressProblem::TunnelWithSecret { secret, host }
        } else {
            EgressProblem::PlainWithSecret { secret, host }
        });
    }
    Ok(())
}

/// The certificates of the file that is named, if one is; `folder` is the configuration file's.
pub(in crate::config) fn authorities(
    file: Option<&Path>,
    folder: &Path,
    key: &str,
) -> Result<Vec<CertificateDer<'static>>, Problem> {
    match file {
        Some(path) => read(&folder.join(path)).map_err(|problem| problem.at(key)),
        None => Ok(Vec::new()),
    }
}

/// Addresses of names.
pub(in crate::config) fn resolve(
    raw: RawResolve,
    key: &str,
) -> Result<BTreeMap<DnsName, Vec<IpAddr>>, Problem> {
    at_most(raw.len(), MAX_ADDRESSES).map_err(|problem| problem.at(key))?;
    let mut resolved = BTreeMap::new();
    for (found, addresses) in raw {
        let Ok(Host::Name(name)) = Host::parse(&found) else {
            return Err(EgressProblem::ResolveName { found }.at(key));
        };
        let own_key = format!("{key}.{found:?}");
        if addresses.is_empty() {
            return Err(EgressProblem::EmptyList.at(own_key));
        }
        let addresses = at_most(addresses.len(), MAX_ADDRESSES_OF_NAME)
            .and_then(|()| addresses.into_iter().map(address).collect())
            .map_err(|problem| problem.at(own_key))?;
        if resolved.insert(name, addresses).is_some() {
            return Err(EgressProblem::Twice { found }.at(key));
        }
    }
    Ok(resolved)
}

/// An address as the operator writes it: in its usual form only, since any other is a slip.
fn address(found: String) -> Result<IpAddr, EgressProblem> {
    found
        .parse::<IpAddr>()
        .map(|address| address.to_canonical())
        .map_err(|_| EgressProblem::ResolveAddress { found })
}

/// The same as it is written.
pub(in crate::config) fn raw_resolve(resolve: &BTreeMap<DnsName, Vec<IpAddr>>) -> RawResolve {
    resolve
        .iter()
        .map(|(name, addresses)| {
            let addresses = addresses.iter().map(IpAddr::to_string).collect();
            (name.to_string(), addresses)
        })
        .collect()
}

/// Ranges of addresses.
pub(in crate::config) fn ranges(raw: Vec<String>, key: &str) -> Result<Vec<IpNet>, Problem> {
    at_most(raw.len(), MAX_ADDRESSES).map_err(|problem| problem.at(key))?;
    raw.into_iter()
        .enumerate()
        .map(|(at, found)| range(found).map_err(|problem| problem.at(format!("{key}[{at}]"))))
        .collect()
}

/// The same as they are written.
pub(in crate::config) fn raw_ranges(ranges: &[IpNet]) -> Vec<String> {
    ranges.iter().map(IpNet::to_string).collect()
}

/// A range of addresses. It may cover those of cloud metadata; that does not open them.
fn range(found: String) -> Result<IpNet, EgressProblem> {
    let Ok(range) = found.parse::<IpNet>() else {
        return Err(EgressProblem::Range { found });
    };
    // Addresses are compared in their canonical form, in which none is mapped.
    if range.addr().to_canonical() != range.addr() {
        return Err(EgressProblem::Range { found });
    }
    let shortest = match range {
        IpNet::V4(_) => SHORTEST_PREFIX_V4,
        IpNet::V6(_) => SHORTEST_PREFIX_V6,
    };
    if range.prefix_len() < shortest {
        return Err(EgressProblem::RangeWide { found });
    }
    let meant = range.trunc();
    if meant != range {
        return Err(EgressProblem::RangeBits {
            found,
            meant: meant.to_string(),
        });
    }
    Ok(range)
}
