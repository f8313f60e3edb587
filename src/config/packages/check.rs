//! From the section `[packages]` to checked registries, and back.

use std::{path::Path, path::PathBuf, sync::Arc, time::Duration};

use super::{
    PackageSettings, RegistrySettings,
    raw::{RawJavaScript, RawPackages, RawPython},
};
use crate::{
    config::{CallerKind, EgressProblem, HttpUrl, Problem, check::whole, egress},
    types::{Endpoint, MAX_TIMEOUT_SECONDS},
};

/// How much is kept by default, in MiB.
const DEFAULT_CACHE_MIB: u64 = 4096;
/// The least room, in MiB: one large file and what belongs to it.
const LEAST_CACHE_MIB: u64 = 64;
/// The most room, in MiB: 16 TiB.
const HIGHEST_CACHE_MIB: u64 = 16 * 1024 * 1024;
/// How long an index is believed by default, in seconds.
const DEFAULT_INDEX_TTL_SECONDS: u64 = 3600;
/// The longest that an index may be believed, in seconds: thirty days.
const HIGHEST_INDEX_TTL_SECONDS: u64 = 30 * 86_400;
/// How long an installer may run by default, in seconds.
const DEFAULT_TIMEOUT_SECONDS: u64 = 120;
/// The most hosts of a registry.
const MAX_HOSTS: usize = 64;

/// What both kinds of registries have, as it is written.
struct Common {
    url: Option<String>,
    url_key: String,
    hosts: Option<Vec<String>>,
    code: bool,
    resolve: egress::RawResolve,
    allow_private: Vec<String>,
    upstream_ca: Option<PathBuf>,
}

impl PackageSettings {
    /// Checks everything; `folder` is the configuration file's, which paths of certificates are relative to.
    pub(in crate::config) fn checked(raw: RawPackages, folder: &Path) -> Result<Self, Problem> {
        let python = raw.python.map(|raw| {
            let common = Common {
                url: raw.index,
                url_key: "packages.python.index".to_owned(),
                hosts: raw.hosts,
                code: raw.builds,
                resolve: raw.resolve,
                allow_private: raw.allow_private,
                upstream_ca: raw.upstream_ca,
            };
            registry(common, "packages.python", folder)
        });
        let javascript = raw.javascript.map(|raw| {
            let common = Common {
                url: raw.registry,
                url_key: "packages.javascript.registry".to_owned(),
                hosts: raw.hosts,
                code: raw.scripts,
                resolve: raw.resolve,
                allow_private: raw.allow_private,
                upstream_ca: raw.upstream_ca,
            };
            registry(common, "packages.javascript", folder)
        });
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number of seconds, a day's"
        )]
        let longest = MAX_TIMEOUT_SECONDS as u64;
        Ok(Self {
            python: python.transpose()?.map(Arc::new),
            javascript: javascript.transpose()?.map(Arc::new),
            cache_mib: whole(
                "packages.cache_mib",
                raw.cache_mib,
                DEFAULT_CACHE_MIB,
                LEAST_CACHE_MIB,
                HIGHEST_CACHE_MIB,
            )?,
            index_ttl: Duration::from_secs(whole(
                "packages.index_ttl_seconds",
                raw.index_ttl_seconds,
                DEFAULT_INDEX_TTL_SECONDS,
                0,
                HIGHEST_INDEX_TTL_SECONDS,
            )?),
            timeout: Duration::from_secs(whole(
                "packages.timeout_seconds",
                raw.timeout_seconds,
                DEFAULT_TIMEOUT_SECONDS,
                1,
                longest,
            )?),
            callers: raw
                .callers
                .unwrap_or_else(|| vec![CallerKind::Local, CallerKind::Token]),
        })
    }

    /// The section as it is written.
    pub(in crate::config) fn raw(&self) -> RawPackages {
        RawPackages {
            cache_mib: Some(self.cache_mib),
            index_ttl_seconds: Some(self.index_ttl.as_secs()),
            timeout_seconds: Some(self.timeout.as_secs()),
            callers: Some(self.callers.clone()),
            python: self.python.as_deref().map(|registry| RawPython {
                index: registry.raw_url(),
                hosts: registry.raw_hosts(),
                builds: registry.code,
                resolve: egress::raw_resolve(&registry.resolve),
                allow_private: egress::raw_ranges(&registry.allow_private),
                upstream_ca: registry.upstream_ca_file.clone(),
            }),
            javascript: self.javascript.as_deref().map(|registry| RawJavaScript {
                registry: registry.raw_url(),
                hosts: registry.raw_hosts(),
                scripts: registry.code,
                resolve: egress::raw_resolve(&registry.resolve),
                allow_private: egress::raw_ranges(&registry.allow_private),
                upstream_ca: registry.upstream_ca_file.clone(),
            }),
        }
    }
}

impl RegistrySettings {
    fn raw_url(&self) -> Option<String> {
        self.url.as_ref().map(ToString::to_string)
    }

    fn raw_hosts(&self) -> Option<Vec<String>> {
        let hosts = self.hosts.as_ref()?;
        Some(hosts.iter().map(ToString::to_string).collect())
    }
}

fn registry(raw: Common, section: &str, folder: &Path) -> Result<RegistrySettings, Problem> {
    let key = |of: &str| format!("{section}.{of}");
    Ok(RegistrySettings {
        url: raw.url.map(|found| url(found, raw.url_key)).transpose()?,
        hosts: raw.hosts.map(|raw| hosts(raw, &key("hosts"))).transpose()?,
        code: raw.code,
        resolve: egress::resolve(raw.resolve, &key("resolve"))?,
        allow_private: egress::ranges(raw.allow_private, &key("allow_private"))?,
        upstream_ca: egress::authorities(raw.upstream_ca.as_deref(), folder, &key("upstream_ca"))?,
        upstream_ca_file: raw.upstream_ca,
    })
}

fn url(found: String, key: String) -> Result<HttpUrl, Problem> {
    match HttpUrl::parse(&found) {
        Ok(url) if url.target() == url.path() => Ok(url),
        Ok(_) => Err(Problem::RegistryQuery { key, found }),
        // It may hold a password.
        Err(error) => Err(Problem::RegistryUrl { key, error }),
    }
}

fn hosts(raw: Vec<String>, key: &str) -> Result<Vec<Endpoint>, Problem> {
    if raw.len() > MAX_HOSTS {
        let (found, most) = (raw.len(), MAX_HOSTS);
        return Err(EgressProblem::TooMany { found, most }.at(key));
    }
    raw.into_iter()
        .enumerate()
        .map(|(at, found)| host(found).map_err(|problem| problem.at(format!("{key}[{at}]"))))
        .collect()
}

fn host(found: String) -> Result<Endpoint, EgressProblem> {
    if found.contains("://") {
        return Err(EgressProblem::HostScheme { found });
    }
    Endpoint::parse(&found, Some(443)).map_err(|error| EgressProblem::Host { found, error })
}
