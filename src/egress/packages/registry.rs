//! Which registry packages come from: the operator's, or the one that the installer of the server's user is configured
//! with, asked once, at the first installation.
//!
//! The installer is asked in the root directory: npm reads what lies in the current one, and a checked-out repository
//! must not say where packages come from.

use std::{process::Stdio, sync::Arc, time::Duration};

use tokio::{io::AsyncReadExt as _, process::Command, time::timeout};

use crate::{
    config::{HttpUrl, RegistrySettings, Scheme, UrlError},
    types::PackageKind,
};

/// How long an installer may take to say where it looks.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most bytes of what it says. Stops a command of that name that is something else from filling the memory.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;
/// Wide enough that no URL in a help text is broken.
const COLUMNS: &str = "4096";
/// Where it is asked: nothing of anybody's lies there.
const NOWHERE: &str = "/";

/// What to ask for the index of Python's, the first that answers. Its help names the index in force, whichever of its
/// files or variables says so.
const PIP: [&[&str]; 3] = [
    &["pip", "install", "--help"],
    &["pip3", "install", "--help"],
    &["python3", "-m", "pip", "install", "--help"],
];
/// What to ask for the registry of JavaScript's.
const NPM: [&[&str]; 1] = [&["npm", "config", "get", "registry"]];

/// There is no registry to install from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Nobody says where packages come from.
    #[error(
        "no registry of {kind} packages is known: neither the configuration nor `{asked}` says one; the operator sets {}",
        key(*kind)
    )]
    Unknown {
        /// Whose packages.
        kind: PackageKind,
        /// What was asked.
        asked: &'static str,
    },
    /// What the installer says is no address.
    #[error("`{asked}` says a registry of {kind} packages that {error}; the operator sets {}", key(*kind))]
    Malformed {
        /// Whose packages.
        kind: PackageKind,
        /// What was asked.
        asked: &'static str,
        /// What is wrong with the answer, which is not shown: there may be a password in it.
        error: UrlError,
    },
}

fn key(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Python => "packages.python.index",
        PackageKind::JavaScript => "packages.javascript.registry",
    }
}

/// A registry, and what may be reached for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    pub(super) kind: PackageKind,
    pub(super) url: HttpUrl,
    pub(super) settings: Arc<RegistrySettings>,
}

impl Registry {
    /// The registry of the settings, or else the one that the installer names.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub(super) async fn find(
        kind: PackageKind,
        settings: &Arc<RegistrySettings>,
    ) -> Result<Self, RegistryError> {
        let url = match &settings.url {
            Some(url) => url.clone(),
            None => ask(kind).await?,
        };
        Ok(Self {
            kind,
            url,
            settings: Arc::clone(settings),
        })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &HttpUrl {
        &self.url
    }

    /// Whether a link of the registry may be followed.
    pub(super) fn leads_to(&self, url: &HttpUrl) -> bool {
        if url.endpoint == self.url.endpoint {
            return url.scheme == self.url.scheme;
        }
        url.scheme == Scheme::Https
            && match &self.settings.hosts {
                Some(hosts) => hosts.contains(&url.endpoint),
                None => true,
            }
    }

    /// The address of the page for `name`, which is a valid one.
    pub(super) fn page(&self, name: &str) -> Result<HttpUrl, UrlError> {
        match self.kind {
            PackageKind::Python => self.url.below(&format!("{name}/")),
            PackageKind::JavaScript => self.url.below(name),
        }
    }
}

async fn ask(kind: PackageKind) -> Result<HttpUrl, RegistryError> {
    let (commands, asked): (&[&[&str]], _) = match kind {
        PackageKind::Python => (&PIP, "pip install --help"),
        PackageKind::JavaScript => (&NPM, "npm config get registry"),
    };
    for command in commands {
        let Some(said) = answer(command).await else {
            continue;
        };
        let Some(url) = (match kind {
            PackageKind::Python => index_of_help(&said),
            PackageKind::JavaScript => Some(said.trim().to_owned()),
        }) else {
            continue;
        };
        let parsed = HttpUrl::parse(&url);
        return parsed.map_err(|error| RegistryError::Malformed { kind, asked, error });
    }
    Err(RegistryError::Unknown { kind, asked })
}

/// What a command prints; nothing where it is not there, fails, or does not end.
async fn answer(command: &[&str]) -> Option<String> {
    let (program, args) = command.split_first()?;
    let mut child = Command::new(program)
        .args(args)
        .env("COLUMNS", COLUMNS)
        .current_dir(NOWHERE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut said = Vec::new();
    let stdout = child.stdout.take()?;
    let all = async {
        #[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
        stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut said).await?;
        child.wait().await
    };
    let status = timeout(PATIENCE, all).await.ok()?.ok()?;
    status.success().then_some(())?;
    String::from_utf8(said).ok()
}

/// The address in pip's help, where the lines on `--index-url` end with `(default <address>)`.
fn index_of_help(help: &str) -> Option<String> {
    let (_, rest) = help.split_once("--index-url")?;
    let (_, rest) = rest.split_once("(default")?;
    let (address, _) = rest.split_once(')')?;
    Some(address.trim_start_matches(':').split_whitespace().collect())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::types::Endpoint;

    /// A registry whose own host is `registry.test`.
    pub(in crate::egress::packages) fn registry(
        kind: PackageKind,
        url: &str,
        hosts: Option<&[&str]>,
    ) -> Registry {
        Registry {
            kind,
            url: HttpUrl::parse(url).unwrap(),
            settings: Arc::new(RegistrySettings {
                url: None,
                hosts: hosts.map(|hosts| {
                    hosts
                        .iter()
                        .map(|host| Endpoint::parse(host, Some(443)).unwrap())
                        .collect()
                }),
                code: false,
                resolve: BTreeMap::new(),
                allow_private: Vec::new(),
                upstream_ca: Vec::new(),
                upstream_ca_file: None,
            }),
        }
    }

    #[test]
    fn links_lead_to_the_registry_and_its_hosts_only() {
        let leads = |hosts: Option<&[&str]>, url: &str| {
            registry(PackageKind::Python, "https://registry.test/simple", hosts)
                .leads_to(&HttpUrl::parse(url).unwrap())
        };
        let files: Option<&[&str]> = Some(&["files.test"]);
        assert!(leads(files, "https://registry.test/x"));
        assert!(leads(files, "https://files.test/x"));
        assert!(!leads(files, "https://files.test:8443/x"));
        assert!(!leads(files, "https://other.test/x"));
        assert!(!leads(Some(&[]), "https://other.test/x"));
        assert!(leads(None, "https://other.test/x"));
        for hosts in [None, files] {
            assert!(!leads(hosts, "http://files.test/x"));
            assert!(!leads(hosts, "http://registry.test/x"));
        }
    }

    #[test]
    fn pages_have_the_addresses_that_installers_ask_for() {
        let page = |kind, url, name| registry(kind, url, None).page(name).unwrap().to_string();
        assert_eq!(
            page(PackageKind::Python, "https://r.test/simple/", "six"),
            "https://r.test/simple/six/"
        );
        assert_eq!(
            page(PackageKind::JavaScript, "https://r.test/", "@types/node"),
            "https://r.test/@types/node"
        );
    }

    #[test]
    fn the_index_is_found_in_pips_help_however_it_is_wrapped() {
        for help in [
            "  -i, --index-url <url>  Base URL (default https://i.test/simple). This\n",
            "  -i, --index-url <url>  Base URL (default\n        https://i.test/simple). This\n",
            "  -i, --index-url, --pypi-url <url>  Base URL (default: https://i.test/\n    simple).\n",
        ] {
            assert_eq!(
                index_of_help(help).as_deref(),
                Some("https://i.test/simple"),
                "{help}"
            );
        }
        assert_eq!(index_of_help("--index-url <url>  Base URL."), None);
        assert_eq!(index_of_help(""), None);
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_or_fails_says_nothing() {
        assert_eq!(answer(&["belljar-no-such-command"]).await, None);
        assert_eq!(answer(&["false"]).await, None);
        assert_eq!(answer(&["echo", "x"]).await.as_deref(), Some("x\n"));
    }
}
