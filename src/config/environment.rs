//! The environment, gathered once. No other module asks for a variable: what the server's behaviour depends on
//! stands in one list, and nothing of it can reach a sandbox by accident.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::ConfigError;
use crate::types::Secret;

/// Names the configuration file.
const CONFIG: &str = "BELLJAR_CONFIG";
/// Names the folder that holds artifacts, uploads and the audit log.
const STATE_DIR: &str = "BELLJAR_STATE_DIR";

/// The variables that belljar looks at. A variable that is empty counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `BELLJAR_CONFIG`: the configuration file.
    pub config: Option<PathBuf>,
    /// `BELLJAR_STATE_DIR`: where artifacts and the audit log live.
    pub state_dir: Option<PathBuf>,
    /// `BELLJAR_HTTP_TOKEN`: what a client over HTTP must show.
    pub http_token: Option<Secret>,
    /// `BELLJAR_LOG`: a filter for the log on standard error, such as `belljar=debug`.
    pub log: Option<String>,
    /// `XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`: a rootless daemon's socket lies here.
    pub runtime_dir: Option<PathBuf>,
    /// The user's home: `HOME`, or what the system says where that is absent.
    pub home: Option<PathBuf>,
    /// `APPDATA`, on Windows.
    pub app_data: Option<PathBuf>,
    /// `LOCALAPPDATA`, on Windows.
    pub local_app_data: Option<PathBuf>,
    /// `DOCKER_HOST`: the daemon's address.
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`: the Docker context to use instead of the current one.
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`: the folder of Docker's own configuration.
    pub docker_config: Option<PathBuf>,
}

impl Environment {
    /// Reads the process environment.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn gather() -> Self {
        Self::from_lookup(|name| std::env::var_os(name), std::env::home_dir())
    }

    /// The variable that the operator named as the source of a secret; none where it is absent, empty or no text.
    /// It is read when it is needed, so that no secret lies in memory without a run that uses it.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "still the one place that reads the environment"
    )]
    pub fn secret(name: &str) -> Option<Secret> {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value
            .and_then(|value| value.into_string().ok())
            .map(Secret::new)
    }

    /// Builds it from any source of variables.
    pub(crate) fn from_lookup(
        lookup: impl Fn(&str) -> Option<OsString>,
        system_home: Option<PathBuf>,
    ) -> Self {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        // A name that is not Unicode names no daemon and no filter that we could use.
        let text = |name: &str| set(name).and_then(|value| value.into_string().ok());
        // The XDG specification has relative paths ignored: they would depend on the current directory.
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        Self {
            config: path(CONFIG),
            state_dir: path(STATE_DIR),
            http_token: text("BELLJAR_HTTP_TOKEN").map(Secret::new),
            log: text("BELLJAR_LOG"),
            config_home: absolute("XDG_CONFIG_HOME"),
            state_home: absolute("XDG_STATE_HOME"),
            runtime_dir: absolute("XDG_RUNTIME_DIR"),
            home: absolute("HOME").or(system_home.filter(|path| path.is_absolute())),
            app_data: absolute("APPDATA"),
            local_app_data: absolute("LOCALAPPDATA"),
            docker_host: text("DOCKER_HOST"),
            docker_context: text("DOCKER_CONTEXT"),
            docker_config: path("DOCKER_CONFIG"),
        }
    }

    /// The folder for artifacts, uploads and the audit log; it need not exist yet.
    pub fn state_dir(&self) -> Result<PathBuf, ConfigError> {
        if let Some(named) = &self.state_dir {
            return absolute_or_refused(STATE_DIR, named).map(Path::to_path_buf);
        }
        let base = self.state_home.clone().or_else(|| {
            if cfg!(windows) {
                self.local_app_data.clone()
            } else {
                self.home.as_ref().map(|home| home.join(".local/state"))
            }
        });
        base.map(|base| base.join("belljar"))
            .ok_or(ConfigError::NoStateDir)
    }

    /// The file that `BELLJAR_CONFIG` names.
    pub(super) fn named_config(&self) -> Result<Option<&Path>, ConfigError> {
        self.config
            .as_deref()
            .map(|named| absolute_or_refused(CONFIG, named))
            .transpose()
    }

    /// Where the configuration file lies unless another is named; `None` where there is no home.
    #[must_use]
    pub fn default_config(&self) -> Option<PathBuf> {
        let base = self.config_home.clone().or_else(|| {
            if cfg!(windows) {
                self.app_data.clone()
            } else {
                self.home.as_ref().map(|home| home.join(".config"))
            }
        })?;
        Some(base.join("belljar").join("belljar.toml"))
    }
}

/// A relative path in a variable would be looked up in the current directory, which is whatever repository the
/// client happens to have open.
fn absolute_or_refused<'a>(
    variable: &'static str,
    path: &'a Path,
) -> Result<&'a Path, ConfigError> {
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(ConfigError::RelativeVariable {
            variable,
            path: path.to_path_buf(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::from_lookup(
            |name| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            },
            None,
        )
    }

    #[test]
    fn empty_counts_as_absent() {
        let env = environment(&[("BELLJAR_CONFIG", ""), ("DOCKER_HOST", "")]);
        assert_eq!(env, Environment::default());
    }

    #[cfg(unix)]
    #[test]
    fn places_follow_the_contract() {
        let env = environment(&[("HOME", "/home/u")]);
        assert_eq!(
            env.default_config(),
            Some(PathBuf::from("/home/u/.config/belljar/belljar.toml"))
        );
        assert_eq!(
            env.state_dir().unwrap(),
            PathBuf::from("/home/u/.local/state/belljar")
        );
        let env = environment(&[
            ("HOME", "/home/u"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "/s"),
        ]);
        assert_eq!(
            env.default_config(),
            Some(PathBuf::from("/c/belljar/belljar.toml"))
        );
        assert_eq!(env.state_dir().unwrap(), PathBuf::from("/s/belljar"));
        let env = environment(&[("BELLJAR_STATE_DIR", "/mine"), ("XDG_STATE_HOME", "/s")]);
        assert_eq!(env.state_dir().unwrap(), PathBuf::from("/mine"));
    }

    #[test]
    fn nothing_is_taken_from_the_current_directory() {
        let env = environment(&[
            ("XDG_CONFIG_HOME", "."),
            ("XDG_STATE_HOME", "state"),
            ("HOME", "home"),
        ]);
        assert_eq!(env.default_config(), None);
        assert!(matches!(env.state_dir(), Err(ConfigError::NoStateDir)));
        let env = environment(&[
            ("BELLJAR_CONFIG", "belljar.toml"),
            ("BELLJAR_STATE_DIR", "./state"),
        ]);
        assert!(matches!(
            env.named_config(),
            Err(ConfigError::RelativeVariable {
                variable: CONFIG,
                ..
            })
        ));
        assert!(matches!(
            env.state_dir(),
            Err(ConfigError::RelativeVariable {
                variable: STATE_DIR,
                ..
            })
        ));
    }
}
