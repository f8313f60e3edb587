//! Checks as values: what was looked at, how it is, and what to do. Pure judgements over facts.

use std::fmt;

use crate::{
    engine::{FIRST_UID, Facts, Swap, UID_COUNT, daemon::Version},
    images::Present,
    types::MIB,
};

/// Below this much free space the state directory is about to be full: one run may keep up to 100 MiB.
const LEAST_FREE_BYTES: u64 = 512 * MIB;
/// The oldest Docker API that belljar was tried with: Debian 12's Engine 20.10.
const LEAST_API: [u32; 2] = [1, 41];
/// Engines below have the open advisories on the archive API (CVE-2026-41567, CVE-2026-41568, CVE-2026-42306),
/// which belljar never calls.
const ENGINE_FLOOR: [u32; 3] = [29, 5, 1];
/// The first runc of each line with CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881 mended.
const RUNC_FLOORS: [[u32; 3]; 3] = [[1, 2, 8], [1, 3, 3], [1, 4, 0]];

/// What begins a further line of a check: it stands below what was found.
const BELOW: &str = "\n                       ";

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Sandboxes work, and it could be better.
    Warning,
    /// Sandboxes do not work.
    Failure,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    pub(super) fix: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            level: Level::Ok,
            found: found.into(),
            fix: None,
        }
    }

    pub(super) fn warning(
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            name,
            level: Level::Warning,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    pub(super) fn failure(
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            name,
            level: Level::Failure,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok     ",
            Level::Warning => "warning",
            Level::Failure => "FAILURE",
        };
        // What a file is wrong in is shown with its line.
        let found = self.found.replace('\n', BELOW);
        write!(f, "{level}  {:<13} {found}", self.name)?;
        if let Some(fix) = &self.fix {
            write!(f, "{BELOW}-> {fix}")?;
        }
        Ok(())
    }
}

/// What the daemon's facts come to.
pub(super) fn daemon(facts: &Facts) -> Vec<Check> {
    let (info, version) = (&facts.info, &facts.version);
    let known: Vec<&str> = info.runtimes.keys().map(String::as_str).collect();
    let place = Check::ok(
        "daemon",
        format!("{} ({})", facts.place.endpoint, facts.place.why),
    );
    if version.podman().is_some() {
        // Nothing else of it matters.
        return vec![place, engine(version)];
    }
    let mut checks = vec![
        place,
        platform(&info.os_type, &info.architecture),
        api(&version.api),
        engine(version),
        runc(version.components.get("runc").map(String::as_str)),
        Check::ok(
            "kernel",
            format!("{} on {}", info.kernel, info.operating_system),
        ),
        cgroups(&info.cgroup_version, &info.cgroup_driver),
    ];
    checks.push(if info.has_security("seccomp") {
        Check::ok("seccomp", "available; every sandbox has belljar's own profile")
    } else {
        Check::failure(
            "seccomp",
            "not available: no system call could be refused",
            "use a kernel with CONFIG_SECCOMP_FILTER and a daemon that was not built without seccomp",
        )
    });
    checks.push(if info.has_security("apparmor") {
        Check::ok("apparmor", "available; sandboxes run under docker-default")
    } else {
        Check::ok(
            "apparmor",
            "not available on this host: one layer less, nothing relies on it",
        )
    });
    checks.push(
        if info.has_security("userns") || info.has_security("rootless") {
            Check::ok("user ns", "root of the container is nobody on the host")
        } else {
            Check::ok(
                "user ns",
                "not remapped: sandboxes run under uids of their own, never as root",
            )
        },
    );
    checks.push(match &facts.runtime {
        Ok(runtime) => Check::ok(
            "runtime",
            format!("{runtime} (there are: {})", known.join(", ")),
        ),
        Err(why) => Check::failure(
            "runtime",
            why.clone(),
            "install the runtime, or change docker.runtime in the configuration",
        ),
    });
    checks.push(Check::ok(
        "swap",
        match facts.swap {
            Swap::None => "none on the daemon's host",
            Swap::Some => "some on the daemon's host; sandboxes may use none of it",
            Swap::Unknown => "unknown on the daemon's host; sandboxes may use none",
        },
    ));
    checks.push(match &facts.guest_volume {
        Some(volume) => Check::ok("guest volume", volume.clone()),
        None => Check::ok("guest volume", "not there yet: the first run makes it"),
    });
    checks
}

fn platform(os: &str, architecture: &str) -> Check {
    let found = format!("{os} on {architecture}");
    match (os, architecture) {
        ("linux", "x86_64" | "amd64" | "aarch64" | "arm64") => Check::ok("platform", found),
        _ => Check::failure(
            "platform",
            found,
            "use a daemon that runs Linux containers on x86_64 or aarch64",
        ),
    }
}

fn api(found: &str) -> Check {
    if numbers::<2>(found).is_some_and(|version| version >= LEAST_API) {
        Check::ok("api", format!("up to {found}, negotiated"))
    } else {
        Check::warning(
            "api",
            format!("{found}: older than any that belljar was tried with"),
            "use Docker Engine 20.10 or newer",
        )
    }
}

fn engine(version: &Version) -> Check {
    let found = version.engine.as_str();
    if let Some(podman) = version.podman() {
        Check::failure(
            "engine",
            format!(
                "Podman {podman}, not Docker: its Docker-compatible API cannot make a sandbox as belljar needs it"
            ),
            "use Docker Engine (rootless, if no daemon may run as root), and name it in DOCKER_HOST or `[docker] host`",
        )
    } else if numbers::<3>(found).is_some_and(|version| version >= ENGINE_FLOOR) {
        Check::ok("engine", found)
    } else {
        Check::warning(
            "engine",
            format!("{found}: open advisories on the archive API, which belljar never calls"),
            "update to Docker Engine 29.5.1 or newer when you can",
        )
    }
}

fn runc(found: Option<&str>) -> Check {
    let Some(found) = found else {
        return Check::ok("runc", "not reported by this daemon");
    };
    let safe = numbers::<3>(found).is_some_and(|version| {
        let floor = RUNC_FLOORS
            .iter()
            .rev()
            .find(|floor| version[..2] >= floor[..2]);
        floor.is_some_and(|floor| version >= *floor)
    });
    if safe {
        Check::ok("runc", found)
    } else {
        Check::warning(
            "runc",
            format!(
                "{found}: below 1.2.8, 1.3.3 and 1.4.0 (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881)"
            ),
            "update runc; belljar uses none of the features that these need (no terminal, no masked paths of its own)",
        )
    }
}

fn cgroups(version: &str, driver: &str) -> Check {
    match (driver, version) {
        ("" | "none", _) => Check::failure(
            "cgroups",
            "not available: no limit could be enforced",
            "rootless Docker needs cgroup v2 and delegated controllers; see Docker's documentation on rootless mode",
        ),
        (_, "1") => Check::warning(
            "cgroups",
            format!(
                "v1, driver {driver}: the kernel does not count what a sandbox holds in buffers of sockets as its memory"
            ),
            "boot the daemon's host with cgroup v2, the default of current distributions (kernel parameter \
             systemd.unified_cgroup_hierarchy=1)",
        ),
        _ => Check::ok("cgroups", format!("v{version}, driver {driver}")),
    }
}

/// An image that belljar brings.
pub(super) fn built_in_image(tag: &str, name: &str, present: &Present) -> Check {
    let fix = format!("belljar images build {name}");
    match present {
        Present::Current { bytes } => Check::ok(
            "image",
            format!("{tag}, {} MB, up to date", bytes.div_ceil(1_000_000)),
        ),
        Present::Stale { .. } => Check::warning("image", format!("{tag} is out of date"), fix),
        Present::Missing => Check::failure("image", format!("{tag} is missing"), fix),
    }
}

/// An image of the operator's.
pub(super) fn own_image(reference: &str, found: bool) -> Check {
    if found {
        Check::ok("image", format!("{reference}, configured"))
    } else {
        Check::failure(
            "image",
            format!("{reference} is configured and missing"),
            format!("docker pull {reference}"),
        )
    }
}

/// Free space of the state directory, where it could be found out.
pub(super) fn disk(directory: &str, free_bytes: Option<u64>) -> Check {
    match free_bytes {
        Some(free) if free < LEAST_FREE_BYTES => Check::warning(
            "disk",
            format!("{} MiB free in {directory}", free / MIB),
            "make room: outputs and artifacts are kept there, up to artifacts.cap_mib of the configuration",
        ),
        Some(free) => Check::ok("disk", format!("{} MiB free in {directory}", free / MIB)),
        None => Check::ok("disk", directory),
    }
}

/// Accounts of this machine whose uid a sandbox could have; `passwd` is the text of `/etc/passwd`.
pub(super) fn accounts(passwd: &str) -> Check {
    let sandboxes = FIRST_UID..FIRST_UID.saturating_add(UID_COUNT);
    let clash = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        sandboxes.contains(&uid).then(|| (name.to_owned(), uid))
    });
    match clash {
        None => Check::ok(
            "uids",
            format!(
                "{}-{}, of no account here",
                sandboxes.start,
                sandboxes.end - 1
            ),
        ),
        Some((name, uid)) => Check::warning(
            "uids",
            format!(
                "the account {} has uid {uid}, which a sandbox may have",
                crate::types::visible::escape_name(name.as_bytes())
            ),
            "sandboxes would share the kernel's per-user budgets with it: give the account another uid",
        ),
    }
}

/// The first `N` numbers of a version such as `20.10.24+dfsg1`; missing ones are 0.
fn numbers<const N: usize>(version: &str) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    for (at, part) in version
        .trim_start_matches('v')
        .split('.')
        .take(N)
        .enumerate()
    {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        numbers[at] = digits.parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers_within_their_line() {
        for (version, level) in [
            ("1.1.5+ds1", Level::Warning),
            ("1.2.7", Level::Warning),
            ("1.2.8", Level::Ok),
            ("1.3.2", Level::Warning),
            ("1.3.10", Level::Ok),
            ("1.4.0-rc.1", Level::Ok),
            ("2.0.0", Level::Ok),
            ("unknown", Level::Warning),
        ] {
            assert_eq!(runc(Some(version)).level, level, "{version}");
        }
        let version = |engine: &str| Version {
            engine: engine.to_owned(),
            ..Version::default()
        };
        assert_eq!(engine(&version("20.10.24+dfsg1")).level, Level::Warning);
        assert_eq!(engine(&version("29.5.1")).level, Level::Ok);
        let mut podman = version("29.5.1");
        podman
            .components
            .insert("Podman Engine".to_owned(), "4.3.1".to_owned());
        let found = engine(&podman);
        assert_eq!(found.level, Level::Failure);
        assert!(found.to_string().contains("Podman 4.3.1"), "{found}");
        assert_eq!(api("1.41").level, Level::Ok);
        assert_eq!(api("1.9").level, Level::Warning);
    }

    #[test]
    fn the_first_version_of_control_groups_is_warned_of() {
        let old = cgroups("1", "cgroupfs");
        assert_eq!(old.level, Level::Warning);
        assert!(old.found.contains("sockets"), "{old}");
        assert_eq!(cgroups("2", "systemd").level, Level::Ok);
        assert_eq!(cgroups("1", "none").level, Level::Failure);
    }

    #[test]
    fn every_failure_says_what_to_do() {
        let failing = [
            platform("windows", "x86_64"),
            platform("linux", "riscv64"),
            cgroups("1", "none"),
            built_in_image("belljar/python:latest", "python", &Present::Missing),
            own_image("python:3.13-alpine", false),
        ];
        for check in failing {
            assert_eq!(check.level, Level::Failure, "{check}");
            assert!(check.fix.is_some(), "{check}");
        }
        let text = built_in_image("belljar/python:latest", "python", &Present::Missing).to_string();
        assert!(text.contains("-> belljar images build python"), "{text}");
    }

    #[test]
    fn every_line_of_a_check_stands_below_its_first() {
        let text = Check::failure("configuration", "line 2\n2 | x = 1", "mend it").to_string();
        let (first, rest) = text.split_once('\n').unwrap();
        let at = first.find("line 2").unwrap();
        for line in rest.lines() {
            assert_eq!(line.find(|c| c != ' '), Some(at), "{text}");
        }
    }

    #[test]
    fn an_account_in_the_sandboxes_range_is_named() {
        let fine = "root:x:0:0::/root:/bin/bash\nsomebody:x:1000:1000::/home/somebody:/bin/bash\nbroken\n:::\n";
        assert_eq!(accounts(fine).level, Level::Ok);
        let clash = format!("{fine}build:x:{FIRST_UID}:1::/:/bin/sh\n");
        let check = accounts(&clash);
        assert_eq!(check.level, Level::Warning);
        assert!(check.found.contains("build"));
    }

    #[test]
    fn little_room_is_a_warning() {
        assert_eq!(disk("/s", Some(100 * MIB)).level, Level::Warning);
        assert_eq!(disk("/s", Some(10_000 * MIB)).level, Level::Ok);
        assert_eq!(disk("/s", None).level, Level::Ok);
    }
}
