//! Finds the Docker daemon: the one configured, else `DOCKER_HOST`, else the current Docker context, else the usual sockets.
//!
//! Pure over what it is given, so that every rule has a test. It connects to nothing and reads no
//! variable of its own: what decides is the user's environment, never a file in the current directory.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::config;

/// Bytes read of Docker's own configuration files.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Docker's name for "no context".
const DEFAULT_CONTEXT: &str = "default";
#[cfg(windows)]
const DEFAULT_PIPE: &str = "//./pipe/docker_engine";

/// How a daemon is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Unix socket.
    Unix(PathBuf),
    /// A named pipe of Windows, as `//./pipe/docker_engine`.
    NamedPipe(String),
    /// Plain HTTP, as `host:port`. Whoever can reach it owns the daemon's machine; the user's choice.
    Tcp(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::NamedPipe(path) => write!(f, "npipe://{path}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// A daemon's address, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub target: Target,
    /// For people: which rule chose it.
    pub why: String,
}

/// No daemon's address could be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// A kind of address that is not spoken.
    #[error(
        "{address:?} ({source_name}) is not supported: use unix://, npipe:// or tcp://; for a daemon behind ssh or TLS forward its \
         socket, as `ssh -N -L /tmp/docker.sock:/var/run/docker.sock HOST`, and set DOCKER_HOST=unix:///tmp/docker.sock"
    )]
    Scheme {
        /// As it was found.
        address: String,
        /// Where it was found.
        source_name: String,
    },
    /// The current context is not there.
    #[error("the Docker context {name:?} ({source_name}) cannot be read; see `docker context ls`")]
    Context {
        /// Its name.
        name: String,
        /// Where it was named.
        source_name: String,
    },
    /// None of the usual sockets is there.
    #[error("none of the usual sockets is there ({tried})")]
    Nothing {
        /// Where it was looked for.
        tried: String,
    },
}

/// The part of the user's environment that decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `docker.host` of belljar's own configuration, before everything else
    pub configured: Option<String>,
    /// `DOCKER_HOST`
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`, Docker's configuration folder
    pub docker_config: Option<PathBuf>,
    /// `HOME`, or `USERPROFILE` on Windows
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`
    pub runtime_dir: Option<PathBuf>,
}

impl Environment {
    /// The part that decides of what was gathered at the start, and `docker.host` of the configuration.
    #[must_use]
    pub fn of(gathered: &config::Environment, configured: Option<&str>) -> Self {
        Self {
            configured: configured.map(str::to_owned),
            docker_host: gathered.docker_host.clone(),
            docker_context: gathered.docker_context.clone(),
            docker_config: gathered.docker_config.clone(),
            home: gathered.home.clone(),
            runtime_dir: gathered.runtime_dir.clone(),
        }
    }
}

/// The file system, as far as it decides.
pub trait Files {
    /// A file's text.
    fn read(&self, path: &Path) -> Option<String>;
    /// Whether there is anything.
    fn exists(&self, path: &Path) -> bool;
}

/// The real file system.
#[derive(Clone, Copy, Debug)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path) -> Option<String> {
        use std::io::Read as _;
        let mut text = String::new();
        std::fs::File::open(path)
            .ok()?
            .take(MAX_FILE_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// Finds the daemon's address.
pub fn discover(environment: &Environment, files: &dyn Files) -> Result<Endpoint, EndpointError> {
    if let Some(host) = &environment.configured {
        return parse(host, "docker.host in belljar's configuration".to_owned());
    }
    if let Some(host) = &environment.docker_host {
        return parse(host, "DOCKER_HOST".to_owned());
    }
    if let Some((name, source)) = context(environment, files) {
        return from_context(&name, source, environment, files);
    }
    usual(environment, files)
}

fn parse(address: &str, source_name: String) -> Result<Endpoint, EndpointError> {
    let target = match address.split_once("://") {
        Some(("unix", path)) if !path.is_empty() => Target::Unix(PathBuf::from(path)),
        Some(("npipe", path)) if !path.is_empty() => Target::NamedPipe(path.replace('\\', "/")),
        Some(("tcp" | "http", address)) if !address.is_empty() => {
            let address = address.trim_end_matches('/');
            Target::Tcp(if address.contains(':') {
                address.to_owned()
            } else {
                format!("{address}:2375")
            })
        }
        Some(_) | None => {
            return Err(EndpointError::Scheme {
                address: address.to_owned(),
                source_name,
            });
        }
    };
    Ok(Endpoint {
        target,
        why: source_name,
    })
}

fn config_folder(environment: &Environment) -> Option<PathBuf> {
    environment
        .docker_config
        .clone()
        .or_else(|| Some(environment.home.as_ref()?.join(".docker")))
}

/// The current context's name and where it was named, unless it is Docker's default one.
fn context(environment: &Environment, files: &dyn Files) -> Option<(String, String)> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(rename = "currentContext")]
        current: Option<String>,
    }
    let named = environment
        .docker_context
        .clone()
        .map(|name| (name, "DOCKER_CONTEXT".to_owned()));
    named
        .or_else(|| {
            let path = config_folder(environment)?.join("config.json");
            let config: Config = serde_json::from_str(&files.read(&path)?).ok()?;
            Some((config.current?, path.display().to_string()))
        })
        .filter(|(name, _)| !name.is_empty() && name != DEFAULT_CONTEXT)
}

fn from_context(
    name: &str,
    source: String,
    environment: &Environment,
    files: &dyn Files,
) -> Result<Endpoint, EndpointError> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "Endpoints")]
        endpoints: Endpoints,
    }
    #[derive(Deserialize)]
    struct Endpoints {
        docker: Docker,
    }
    #[derive(Deserialize)]
    struct Docker {
        #[serde(rename = "Host")]
        host: String,
    }
    let host = config_folder(environment).and_then(|folder| {
        let digest = Sha256::digest(name.as_bytes());
        let hash = digest.iter().fold(String::new(), |mut text, byte| {
            use fmt::Write as _;
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        let meta = folder.join("contexts/meta").join(hash).join("meta.json");
        let meta: Meta = serde_json::from_str(&files.read(&meta)?).ok()?;
        Some(meta.endpoints.docker.host)
    });
    match host {
        Some(host) => parse(&host, format!("Docker context {name:?}, named by {source}")),
        None => Err(EndpointError::Context {
            name: name.to_owned(),
            source_name: source,
        }),
    }
}

/// The first of the usual sockets that is there.
fn usual(environment: &Environment, files: &dyn Files) -> Result<Endpoint, EndpointError> {
    #[cfg(windows)]
    {
        let _ = (environment, files);
        Ok(Endpoint {
            target: Target::NamedPipe(DEFAULT_PIPE.to_owned()),
            why: "Docker Desktop's pipe".to_owned(),
        })
    }
    #[cfg(not(windows))]
    {
        let candidates = usual_sockets(environment);
        for (path, what) in &candidates {
            if files.exists(path) {
                return Ok(Endpoint {
                    target: Target::Unix(path.clone()),
                    why: format!("{what}, the first of the usual sockets that is there"),
                });
            }
        }
        let tried: Vec<String> = candidates
            .iter()
            .map(|(path, _)| path.display().to_string())
            .collect();
        Err(EndpointError::Nothing {
            tried: tried.join(", "),
        })
    }
}

#[cfg(not(windows))]
fn usual_sockets(environment: &Environment) -> Vec<(PathBuf, &'static str)> {
    let mut sockets = vec![(PathBuf::from("/var/run/docker.sock"), "the system's Docker")];
    if let Some(runtime) = &environment.runtime_dir {
        sockets.push((runtime.join("docker.sock"), "rootless Docker"));
    }
    if let Some(home) = &environment.home {
        for (path, what) in [
            (".docker/run/docker.sock", "Docker Desktop"),
            (".docker/desktop/docker.sock", "Docker Desktop"),
            (".colima/default/docker.sock", "Colima"),
            (".config/colima/default/docker.sock", "Colima"),
            (".orbstack/run/docker.sock", "OrbStack"),
            (".rd/docker.sock", "Rancher Desktop"),
        ] {
            sockets.push((home.join(path), what));
        }
    }
    if let Some(runtime) = &environment.runtime_dir {
        sockets.push((runtime.join("podman/podman.sock"), "rootless Podman"));
    }
    sockets.push((
        PathBuf::from("/run/podman/podman.sock"),
        "the system's Podman",
    ));
    sockets
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[derive(Default)]
    struct FakeFiles(HashMap<PathBuf, String>);

    impl FakeFiles {
        fn with(mut self, path: &str, text: &str) -> Self {
            self.0.insert(path.into(), text.into());
            self
        }
    }

    impl Files for FakeFiles {
        fn read(&self, path: &Path) -> Option<String> {
            self.0.get(path).cloned()
        }
        fn exists(&self, path: &Path) -> bool {
            self.0.contains_key(path)
        }
    }

    fn home() -> Environment {
        Environment {
            home: Some("/home/u".into()),
            runtime_dir: Some("/run/user/7".into()),
            ..Environment::default()
        }
    }

    fn unix(path: &str) -> Target {
        Target::Unix(path.into())
    }

    /// `printf colima | sha256sum`
    const COLIMA_META: &str = "/home/u/.docker/contexts/meta/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/meta.json";

    #[test]
    fn the_configuration_wins_over_everything() {
        let environment = Environment {
            configured: Some("unix:///c".into()),
            docker_host: Some("unix:///x".into()),
            ..home()
        };
        let found = discover(&environment, &FakeFiles::default()).unwrap();
        assert_eq!(found.target, unix("/c"));
        assert!(found.why.contains("configuration"));
    }

    #[test]
    fn docker_host_comes_next() {
        let files = FakeFiles::default().with("/var/run/docker.sock", "").with(
            "/home/u/.docker/config.json",
            r#"{"currentContext":"colima"}"#,
        );
        for (host, target) in [
            ("unix:///x/d.sock", unix("/x/d.sock")),
            ("tcp://10.0.0.1:2375", Target::Tcp("10.0.0.1:2375".into())),
            ("tcp://box/", Target::Tcp("box:2375".into())),
            (
                "npipe:////./pipe/docker_engine",
                Target::NamedPipe("//./pipe/docker_engine".into()),
            ),
        ] {
            let environment = Environment {
                docker_host: Some(host.into()),
                ..home()
            };
            let found = discover(&environment, &files).unwrap();
            assert_eq!(found.target, target);
            assert_eq!(found.why, "DOCKER_HOST");
        }
    }

    #[test]
    fn what_is_not_spoken_says_what_to_do() {
        for host in ["ssh://box", "https://box:2376", "box:2375", "unix://", ""] {
            let environment = Environment {
                docker_host: Some(host.into()),
                ..home()
            };
            let error = discover(&environment, &FakeFiles::default()).unwrap_err();
            assert!(matches!(error, EndpointError::Scheme { .. }), "{host}");
            assert!(error.to_string().contains("ssh -N -L"), "{error}");
        }
    }

    #[test]
    fn the_current_context_comes_after_it() {
        let files = FakeFiles::default()
            .with("/var/run/docker.sock", "")
            .with("/home/u/.docker/config.json", r#"{"auths":{},"currentContext":"colima"}"#)
            .with(
                COLIMA_META,
                r#"{"Name":"colima","Endpoints":{"docker":{"Host":"unix:///home/u/.colima/d.sock","SkipTLSVerify":false}}}"#,
            );
        let found = discover(&home(), &files).unwrap();
        assert_eq!(found.target, unix("/home/u/.colima/d.sock"));
        assert!(found.why.contains("colima") && found.why.contains("config.json"));

        let environment = Environment {
            docker_context: Some("default".into()),
            ..home()
        };
        let found = discover(&environment, &files).unwrap();
        assert_eq!(
            found.target,
            unix("/var/run/docker.sock"),
            "the variable wins"
        );
    }

    #[test]
    fn a_context_that_is_not_there_is_an_error_and_not_the_next_best_daemon() {
        let files = FakeFiles::default().with("/var/run/docker.sock", "");
        let environment = Environment {
            docker_context: Some("gone".into()),
            ..home()
        };
        assert!(matches!(
            discover(&environment, &files),
            Err(EndpointError::Context { .. })
        ));
    }

    #[cfg(not(windows))]
    #[test]
    fn the_usual_sockets_are_tried_in_order() {
        let all = [
            "/var/run/docker.sock",
            "/run/user/7/docker.sock",
            "/home/u/.docker/run/docker.sock",
            "/home/u/.docker/desktop/docker.sock",
            "/home/u/.colima/default/docker.sock",
            "/run/user/7/podman/podman.sock",
            "/run/podman/podman.sock",
        ];
        for first in 0..all.len() {
            let files = all[first..]
                .iter()
                .fold(FakeFiles::default(), |files, path| files.with(path, ""));
            let found = discover(&home(), &files).unwrap();
            assert_eq!(found.target, unix(all[first]));
        }
        let error = discover(&home(), &FakeFiles::default()).unwrap_err();
        assert!(error.to_string().contains("/var/run/docker.sock"));
    }
}
