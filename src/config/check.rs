//! From the raw file to checked settings: every rule, one function a section.

use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use super::{
    ArtifactSettings, ConcurrencySettings, DockerSettings, EgressSettings, FileOrigin,
    FileSettings, Languages, LimitSettings, PoolSettings, Problem, SessionSettings, Settings,
    raw::{
        RawArtifacts, RawConcurrency, RawConfig, RawDocker, RawFiles, RawLimits, RawPool,
        RawSessions,
    },
};
use crate::{
    images::Image,
    types::{Cpus, Limits, MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS, WallTime},
};

/// The largest ceilings that an operator may set. Past these a value is a slip of the finger, and sums of them
/// in bytes would no longer be safe to compute with.
const HIGHEST: Limits = Limits {
    memory_mib: 1024 * 1024,
    cpus: Cpus::from_millis(1_024_000),
    pids: 32_768,
    workspace_mib: 1024 * 1024,
    output_kib: 4 * 1024 * 1024,
};
/// Wall time of a run unless the operator or the call says otherwise, in seconds.
const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;
/// The ceiling of the wall time unless the operator sets one, in seconds.
const DEFAULT_TIMEOUT_CEILING_SECONDS: f64 = 300.0;
/// A session's lease by default, in seconds.
const DEFAULT_TTL_SECONDS: u64 = 1800;
/// The longest lease by default, in seconds: a day.
const DEFAULT_TTL_CEILING_SECONDS: u64 = 86_400;
/// The longest lease that an operator may allow, in seconds: thirty days.
const HIGHEST_TTL_SECONDS: u64 = 30 * 86_400;
/// How long a session may lie idle by default, in seconds.
const DEFAULT_IDLE_SECONDS: u64 = 900;
/// Sessions of one caller by default: fewer than sandboxes, so that plain runs find a place.
const DEFAULT_MAX_SESSIONS: u32 = 12;
/// Sandboxes at a time by default.
const DEFAULT_MAX_SANDBOXES: u32 = 16;
/// The fewest sandboxes: one for a session and one for plain runs.
const LEAST_SANDBOXES: u32 = 2;
/// The most sandboxes: each has a uid of its own, and half of their range stays free for those being removed.
const HIGHEST_SANDBOXES: u32 = 1024;
/// Calls that may wait for a place by default.
const DEFAULT_QUEUE: u32 = 64;
/// The most waiting calls: each holds its code and inputs in memory.
const HIGHEST_QUEUE: u32 = 4096;
/// Sandboxes that wait by default: a desktop agent asks for one or two at a time.
const DEFAULT_POOL: u32 = 8;
/// The most that wait: each has a uid of its own and costs memory.
const HIGHEST_POOL: u32 = 512;
/// How long nobody must have used an image before nothing of it waits, by default, in seconds.
const DEFAULT_POOL_IDLE_SECONDS: u64 = 600;
/// What waits from the start over HTTP, where `pool.min` says that anything does.
const DEFAULT_POOL_LANGUAGE: &str = "python";
/// How long artifacts are kept by default, in seconds: a day.
const DEFAULT_ARTIFACT_TTL_SECONDS: u64 = 86_400;
/// The longest that artifacts may be kept, in seconds: a year.
const HIGHEST_ARTIFACT_TTL_SECONDS: u64 = 366 * 86_400;
/// How much artifacts may take by default, in MiB.
const DEFAULT_ARTIFACT_CAP_MIB: u64 = 4096;
/// The least room for artifacts, in MiB: what one run may collect.
const LEAST_ARTIFACT_CAP_MIB: u64 = 128;
/// The most room for artifacts, in MiB: 16 TiB.
const HIGHEST_ARTIFACT_CAP_MIB: u64 = 16 * 1024 * 1024;
/// The addresses of a daemon that the engine can speak to.
const DOCKER_SCHEMES: [&str; 4] = ["unix://", "npipe://", "tcp://", "http://"];

/// Checks everything; `machine` is the ceiling of processors where the file sets none, `built_in` are the images that
/// belljar brings, and `folder` is where paths in the file begin.
pub(super) fn checked(
    raw: RawConfig,
    machine: Cpus,
    built_in: Vec<Image>,
    folder: &Path,
) -> Result<Settings, Problem> {
    let concurrency = concurrency(&raw.concurrency)?;
    let languages = Languages::new(built_in, raw.language)?;
    Ok(Settings {
        origin: FileOrigin::BuiltIn,
        structured_content: raw.structured_content.unwrap_or_default(),
        limits: limits(&raw.limits, machine)?,
        sessions: sessions(&raw.sessions, &concurrency)?,
        concurrency,
        pool: pool(raw.pool, &languages)?,
        artifacts: artifacts(&raw.artifacts)?,
        docker: docker(raw.docker)?,
        files: files(raw.files)?,
        languages,
        egress: EgressSettings::checked(raw.egress, raw.secrets, folder)?,
    })
}

/// A whole number within its range, or its default.
pub(super) fn whole<N>(
    key: impl Into<Cow<'static, str>>,
    found: Option<N>,
    default: N,
    least: N,
    most: N,
) -> Result<N, Problem>
where
    N: Copy + PartialOrd + Into<u64>,
{
    #[expect(
        clippy::cast_precision_loss,
        reason = "for the message only; every bound is far below 2^53"
    )]
    let shown = |number: N| number.into() as f64;
    match found {
        None => Ok(default),
        Some(value) if (least..=most).contains(&value) => Ok(value),
        Some(value) => Err(Problem::OutOfRange {
            key: key.into(),
            found: shown(value),
            least: shown(least),
            most: shown(most),
        }),
    }
}

fn limits(raw: &RawLimits, machine: Cpus) -> Result<LimitSettings, Problem> {
    let ceiling = ceiling(raw, machine)?;
    let timeout_ceiling = wall_time(
        "limits.ceiling.timeout_seconds",
        raw.ceiling.timeout_seconds,
        DEFAULT_TIMEOUT_CEILING_SECONDS,
    )?;
    let default = Limits {
        memory_mib: default(
            ("limits.memory_mib", "limits.ceiling.memory_mib"),
            raw.memory_mib,
            Limits::DEFAULT.memory_mib,
            Limits::LEAST.memory_mib,
            ceiling.memory_mib,
        )?,
        cpus: default_cpus(raw.cpus, ceiling.cpus)?,
        pids: default(
            ("limits.pids", "limits.ceiling.pids"),
            raw.pids,
            Limits::DEFAULT.pids,
            Limits::LEAST.pids,
            ceiling.pids,
        )?,
        workspace_mib: default(
            ("limits.workspace_mib", "limits.ceiling.workspace_mib"),
            raw.workspace_mib,
            Limits::DEFAULT.workspace_mib,
            Limits::LEAST.workspace_mib,
            ceiling.workspace_mib,
        )?,
        output_kib: default(
            ("limits.output_kib", "limits.ceiling.output_kib"),
            raw.output_kib,
            Limits::DEFAULT.output_kib,
            Limits::LEAST.output_kib,
            ceiling.output_kib,
        )?,
    };
    let timeout = wall_time(
        "limits.timeout_seconds",
        raw.timeout_seconds,
        DEFAULT_TIMEOUT_SECONDS,
    )?;
    if raw.timeout_seconds.is_some() && timeout > timeout_ceiling {
        return Err(Problem::AboveCeiling {
            key: "limits.timeout_seconds",
            found: timeout.duration().as_secs_f64(),
            ceiling_key: "limits.ceiling.timeout_seconds",
            ceiling: timeout_ceiling.duration().as_secs_f64(),
        });
    }
    Ok(LimitSettings {
        default,
        ceiling,
        timeout: timeout.min(timeout_ceiling),
        timeout_ceiling,
    })
}

fn ceiling(raw: &RawLimits, machine: Cpus) -> Result<Limits, Problem> {
    let raw = &raw.ceiling;
    let (least, usual) = (Limits::LEAST, Limits::CEILING);
    Ok(Limits {
        memory_mib: whole(
            "limits.ceiling.memory_mib",
            raw.memory_mib,
            usual.memory_mib,
            least.memory_mib,
            HIGHEST.memory_mib,
        )?,
        cpus: match raw.cpus {
            None => machine.min(HIGHEST.cpus),
            Some(found) => cpus("limits.ceiling.cpus", found)?,
        },
        pids: whole(
            "limits.ceiling.pids",
            raw.pids,
            usual.pids,
            least.pids,
            HIGHEST.pids,
        )?,
        workspace_mib: whole(
            "limits.ceiling.workspace_mib",
            raw.workspace_mib,
            usual.workspace_mib,
            least.workspace_mib,
            HIGHEST.workspace_mib,
        )?,
        output_kib: whole(
            "limits.ceiling.output_kib",
            raw.output_kib,
            usual.output_kib,
            least.output_kib,
            HIGHEST.output_kib,
        )?,
    })
}

/// A default must not exceed its ceiling where the operator wrote it; the built-in one follows the ceiling down.
fn default(
    (key, ceiling_key): (&'static str, &'static str),
    found: Option<u32>,
    built_in: u32,
    least: u32,
    ceiling: u32,
) -> Result<u32, Problem> {
    match found {
        None => Ok(built_in.min(ceiling)),
        Some(value) if value > ceiling => Err(Problem::AboveCeiling {
            key,
            found: f64::from(value),
            ceiling_key,
            ceiling: f64::from(ceiling),
        }),
        Some(_) => whole(key, found, built_in, least, ceiling),
    }
}

fn default_cpus(found: Option<f64>, ceiling: Cpus) -> Result<Cpus, Problem> {
    let Some(found) = found else {
        return Ok(Limits::DEFAULT.cpus.min(ceiling));
    };
    let value = cpus("limits.cpus", found)?;
    if value > ceiling {
        return Err(Problem::AboveCeiling {
            key: "limits.cpus",
            found,
            ceiling_key: "limits.ceiling.cpus",
            ceiling: ceiling.as_f64(),
        });
    }
    Ok(value)
}

fn cpus(key: &'static str, found: f64) -> Result<Cpus, Problem> {
    Cpus::new(found)
        .filter(|cpus| (Limits::LEAST.cpus..=HIGHEST.cpus).contains(cpus))
        .ok_or(Problem::OutOfRange {
            key: key.into(),
            found,
            least: Limits::LEAST.cpus.as_f64(),
            most: HIGHEST.cpus.as_f64(),
        })
}

fn wall_time(key: &'static str, found: Option<f64>, default: f64) -> Result<WallTime, Problem> {
    let found = found.unwrap_or(default);
    let longest = WallTime::from_secs(DEFAULT_TTL_CEILING_SECONDS);
    WallTime::parse(found, longest).map_err(|_| Problem::OutOfRange {
        key: key.into(),
        found,
        least: MIN_TIMEOUT_SECONDS,
        most: MAX_TIMEOUT_SECONDS,
    })
}

fn sessions(
    raw: &RawSessions,
    concurrency: &ConcurrencySettings,
) -> Result<SessionSettings, Problem> {
    let seconds = |key, found, default| whole(key, found, default, 1, HIGHEST_TTL_SECONDS);
    let ttl_ceiling = seconds(
        "sessions.ttl_ceiling_seconds",
        raw.ttl_ceiling_seconds,
        DEFAULT_TTL_CEILING_SECONDS,
    )?;
    let ttl = seconds("sessions.ttl_seconds", raw.ttl_seconds, DEFAULT_TTL_SECONDS)?;
    if raw.ttl_seconds.is_some() && ttl > ttl_ceiling {
        #[expect(clippy::cast_precision_loss, reason = "both are at most 30 days")]
        return Err(Problem::AboveCeiling {
            key: "sessions.ttl_seconds",
            found: ttl as f64,
            ceiling_key: "sessions.ttl_ceiling_seconds",
            ceiling: ttl_ceiling as f64,
        });
    }
    let idle = seconds(
        "sessions.idle_seconds",
        raw.idle_seconds,
        DEFAULT_IDLE_SECONDS,
    )?;
    let sandboxes = concurrency.max_sandboxes;
    let built_in = DEFAULT_MAX_SESSIONS.min(sandboxes - 1);
    let max = whole("sessions.max", raw.max, built_in, 1, HIGHEST_SANDBOXES)?;
    if max >= sandboxes {
        return Err(Problem::SessionsFillAll {
            sessions: max,
            sandboxes,
        });
    }
    Ok(SessionSettings {
        ttl: Duration::from_secs(ttl.min(ttl_ceiling)),
        ttl_ceiling: Duration::from_secs(ttl_ceiling),
        idle: Duration::from_secs(idle),
        max,
    })
}

fn concurrency(raw: &RawConcurrency) -> Result<ConcurrencySettings, Problem> {
    Ok(ConcurrencySettings {
        max_sandboxes: whole(
            "concurrency.max_sandboxes",
            raw.max_sandboxes,
            DEFAULT_MAX_SANDBOXES,
            LEAST_SANDBOXES,
            HIGHEST_SANDBOXES,
        )?,
        queue: whole(
            "concurrency.queue",
            raw.queue,
            DEFAULT_QUEUE,
            0,
            HIGHEST_QUEUE,
        )?,
    })
}

fn pool(raw: RawPool, known: &Languages) -> Result<PoolSettings, Problem> {
    let max = whole("pool.max", raw.max, DEFAULT_POOL, 0, HIGHEST_POOL)?;
    let min = whole("pool.min", raw.min, 0, 0, HIGHEST_POOL)?;
    let idle = whole(
        "pool.idle_seconds",
        raw.idle_seconds,
        DEFAULT_POOL_IDLE_SECONDS,
        1,
        HIGHEST_TTL_SECONDS,
    )?;
    let languages = raw
        .languages
        .unwrap_or_else(|| vec![DEFAULT_POOL_LANGUAGE.to_owned()]);
    if let Some(found) = languages.iter().find(|name| known.image(name).is_none()) {
        return Err(Problem::PoolLanguage {
            found: found.clone(),
            known: known.list(),
        });
    }
    let wanted = u64::from(min) * languages.len() as u64;
    if wanted > u64::from(max) {
        return Err(Problem::PoolFloor { wanted, max });
    }
    Ok(PoolSettings {
        max,
        min,
        idle: Duration::from_secs(idle),
        languages,
    })
}

fn artifacts(raw: &RawArtifacts) -> Result<ArtifactSettings, Problem> {
    Ok(ArtifactSettings {
        ttl: Duration::from_secs(whole(
            "artifacts.ttl_seconds",
            raw.ttl_seconds,
            DEFAULT_ARTIFACT_TTL_SECONDS,
            1,
            HIGHEST_ARTIFACT_TTL_SECONDS,
        )?),
        cap_mib: whole(
            "artifacts.cap_mib",
            raw.cap_mib,
            DEFAULT_ARTIFACT_CAP_MIB,
            LEAST_ARTIFACT_CAP_MIB,
            HIGHEST_ARTIFACT_CAP_MIB,
        )?,
    })
}

fn docker(raw: RawDocker) -> Result<DockerSettings, Problem> {
    if let Some(host) = &raw.host {
        let known = DOCKER_SCHEMES.iter().any(|scheme| {
            host.strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        });
        if !known {
            return Err(Problem::DockerHost {
                found: host.clone(),
            });
        }
    }
    if let Some(runtime) = &raw.runtime {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if runtime.is_empty() || runtime.len() > 128 || !runtime.bytes().all(plain) {
            return Err(Problem::DockerRuntime {
                found: runtime.clone(),
            });
        }
    }
    Ok(DockerSettings {
        host: raw.host,
        runtime: raw.runtime,
    })
}

fn files(raw: RawFiles) -> Result<FileSettings, Problem> {
    Ok(FileSettings {
        read: folders("files.read", raw.read)?,
        read_write: folders("files.read_write", raw.read_write)?,
    })
}

/// Folders that tools may touch: absolute, without `..`, so that they mean the same whatever the current
/// directory is. Whether they exist is seen when they are opened.
pub(super) fn folders(key: &'static str, found: Vec<PathBuf>) -> Result<Vec<PathBuf>, Problem> {
    for path in &found {
        let climbs = path.components().any(|part| part == Component::ParentDir);
        if climbs || !path.is_absolute() {
            return Err(Problem::AllowedFolder {
                key,
                found: path.clone(),
            });
        }
    }
    Ok(found)
}
