//! What the daemon's host can do, looked up once and used for every launch.
//!
//! A configured runtime that is missing is an error: a weaker one is never taken in its place.

use super::{
    daemon::{Daemon, Info},
    error::EngineError,
    guest_binary::Architecture,
};

/// The daemon's host, as far as launches depend on it.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) info: Info,
    pub(super) runtime: Runtime,
    pub(super) apparmor: AppArmor,
    /// What the guest must be built for.
    pub(super) architecture: Architecture,
}

/// How large the daemon's machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Processors.
    pub cpus: u64,
}

/// The runtime of every sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runtime {
    /// Its name on the daemon.
    pub(super) name: String,
    pub(super) kind: RuntimeKind,
}

/// What a runtime needs of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuntimeKind {
    /// Containers on the host's kernel: runc, crun, youki.
    HostKernel,
    /// gVisor: its own kernel, which ignores seccomp profiles, cannot execute a file that it may not
    /// read, and falls over when the cgroup's pids run out.
    Gvisor,
}

/// Whether the host has `AppArmor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppArmor {
    Present,
    Absent,
}

impl Host {
    /// Asks the daemon. `runtime` as configured; without it the daemon's default, by its name.
    pub(super) async fn look(
        daemon: &dyn Daemon,
        runtime: Option<&str>,
    ) -> Result<Self, EngineError> {
        let (info, version) = tokio::join!(daemon.info(), daemon.version());
        let info = info?;
        // One that does not say is asked to make a container, which is read back.
        if let Ok(version) = version
            && let Some(podman) = version.podman()
        {
            return Err(EngineError::Podman {
                version: super::daemon::quoted(podman),
            });
        }
        let architecture = (info.os_type == "linux")
            .then(|| Architecture::parse(&info.architecture))
            .flatten()
            .ok_or_else(|| EngineError::Platform {
                os: super::daemon::quoted(&info.os_type),
                architecture: super::daemon::quoted(&info.architecture),
            })?;
        let apparmor = if info.has_security("apparmor") {
            AppArmor::Present
        } else {
            AppArmor::Absent
        };
        Ok(Self {
            runtime: Runtime::choose(&info, runtime)?,
            apparmor,
            architecture,
            info,
        })
    }
}

impl Runtime {
    fn choose(info: &Info, configured: Option<&str>) -> Result<Self, EngineError> {
        let name = configured.unwrap_or(&info.default_runtime);
        let Some(program) = info.runtimes.get(name) else {
            return Err(EngineError::RuntimeMissing {
                runtime: super::daemon::quoted(name),
                available: super::daemon::quoted(
                    &info.runtimes.keys().cloned().collect::<Vec<_>>().join(", "),
                ),
            });
        };
        let gvisor = [name, program]
            .iter()
            .any(|text| text.contains("runsc") || text.contains("gvisor"));
        Ok(Self {
            name: name.to_owned(),
            kind: if gvisor {
                RuntimeKind::Gvisor
            } else {
                RuntimeKind::HostKernel
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> Info {
        Info {
            default_runtime: "runc".into(),
            runtimes: [("runc", "runc"), ("strong", "/usr/bin/runsc")]
                .map(|(name, program)| (name.to_owned(), program.to_owned()))
                .into(),
            ..Info::default()
        }
    }

    #[test]
    fn hardening_runtime_is_named_even_when_it_is_the_default() {
        let chosen = Runtime::choose(&info(), None).unwrap();
        assert_eq!(chosen.name, "runc");
        assert_eq!(chosen.kind, RuntimeKind::HostKernel);
    }

    #[test]
    fn hardening_runtime_gvisor_is_known_by_its_program_too() {
        let chosen = Runtime::choose(&info(), Some("strong")).unwrap();
        assert_eq!(chosen.kind, RuntimeKind::Gvisor);
    }

    #[test]
    fn hardening_runtime_is_never_replaced_by_a_weaker_one() {
        let error = Runtime::choose(&info(), Some("kata")).unwrap_err();
        assert!(matches!(error, EngineError::RuntimeMissing { .. }));
        assert!(error.to_string().contains("runc, strong"), "{error}");
    }
}
