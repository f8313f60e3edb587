//! A probe's file, read: its head says what is tried and what must come of it, the rest is what runs.
//!
//! The same code reads it in the build script, where a mistake stops the build, and in the tests. It never runs anything.

/// Separates a program from one that runs after it, as another run in the same container.
const THEN: &str = "#--- then, as another run";
/// Separates a program that takes something and keeps it from one that looks, in another container, whether it notices.
const ELSEWHERE: &str = "#--- meanwhile, in another container";
/// What depends on the version of control groups begins so.
const BY_CGROUPS: &str = "held with cgroup v2; breached with v1";
/// The same, and the second runs as an ordinary user of the host as well.
const AND_HOST: &str = "#--- meanwhile, in another container and on the host";

/// A probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The folder that it lies in.
    pub topic: String,
    /// Its file, without the ending.
    pub name: String,
    /// What it tries, in words.
    pub tries: String,
    /// What it gets from `docker run` without belljar.
    pub docker: Docker,
    /// What it gets in a sandbox under runc.
    pub runc: Expected,
    /// What it gets in a sandbox under gVisor.
    pub gvisor: Expected,
    /// What runs.
    pub programs: Programs,
}

/// What runs, and where.
#[derive(Clone, Debug)]
pub enum Programs {
    /// One after the other in one container, each a run of its own. The last one's verdict counts.
    Steps(Vec<String>),
    /// The first holds on to what it took while the second runs; the second one's verdict counts.
    Pair {
        /// Says that it is ready, and then waits to be ended.
        holder: String,
        /// Looks whether it notices.
        observer: String,
        /// Whether the second runs on the host as well.
        host: Host,
    },
}

/// Whether a probe looks at the host as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// It does, as an ordinary user.
    Too,
    /// Only at another container.
    No,
}

/// What plain Docker makes of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Docker {
    /// Breached with the default flags.
    Breached,
    /// Breached once these flags are given; whether the defaults hold depends on Docker's version.
    BreachedWith {
        /// The flags of `docker run`.
        flags: String,
        /// Whether a kernel may lack the thing altogether.
        absent: bool,
    },
    /// It holds too, for this reason.
    Held(String),
    /// Breached with version 1 of control groups, held with version 2.
    ByCgroups,
}

/// What a sandbox must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It holds; with this evidence, where only that shows what held.
    Held(Option<String>),
    /// It does not hold, for this reason, which `SECURITY.md` tells.
    Breached(String),
    /// The sandbox is lost, for this reason, and nothing else is harmed.
    Lost(String),
    /// It holds, or the sandbox is lost where there is more of it than its kernel bears; which of both, load decides.
    HeldOrLost(String),
    /// It holds with version 2 of control groups and not with version 1, for this reason.
    ByCgroups(String),
}

impl Probe {
    /// Its name in tables and failures.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.topic, self.name)
    }

    /// Reads a file. `path` is `topic/name`.
    ///
    /// # Errors
    /// What is wrong with it, in words for whoever wrote it.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let (topic, name) = path
            .split_once('/')
            .ok_or("a probe lies in a folder, its topic")?;
        let mut rest = text;
        let mut field = |field: &str| -> Result<String, String> {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let value = line
                .strip_prefix("# ")
                .and_then(|line| line.strip_prefix(field))
                .and_then(|line| line.strip_prefix(": "))
                .filter(|value| !value.trim().is_empty() && !value.contains('|'))
                .ok_or(format!("instead of `# {field}: …` there is: {line}"))?;
            rest = after;
            Ok(value.to_owned())
        };
        let tries = field("Tries")?;
        // Told to the reader of the file only.
        field("Idea")?;
        let docker = docker(&field("Docker")?)?;
        let runc = expected(&field("runc")?)?;
        let gvisor = expected(&field("gVisor")?)?;
        Ok(Self {
            topic: topic.to_owned(),
            name: name.to_owned(),
            tries,
            docker,
            runc,
            gvisor,
            programs: programs(rest)?,
        })
    }
}

fn docker(value: &str) -> Result<Docker, String> {
    if value == "breached" {
        return Ok(Docker::Breached);
    }
    if value == BY_CGROUPS {
        return Ok(Docker::ByCgroups);
    }
    for (start, absent) in [
        ("breached with ", false),
        ("breached, or absent, with ", true),
    ] {
        if let Some(flags) = value.strip_prefix(start) {
            let flags = flags.to_owned();
            return Ok(Docker::BreachedWith { flags, absent });
        }
    }
    let reason = value.strip_prefix("held, ");
    reason
        .map(|reason| Docker::Held(reason.to_owned()))
        .ok_or(format!("plain Docker cannot be expected to be: {value}"))
}

fn expected(value: &str) -> Result<Expected, String> {
    if value == "held" {
        return Ok(Expected::Held(None));
    }
    let by_cgroups = value.strip_prefix(BY_CGROUPS);
    if let Some(reason) = by_cgroups.and_then(|rest| rest.strip_prefix(", ")) {
        return Ok(Expected::ByCgroups(reason.to_owned()));
    }
    if let Some(reason) = value.strip_prefix("held or lost, ") {
        return Ok(Expected::HeldOrLost(reason.to_owned()));
    }
    if let Some(evidence) = value.strip_prefix("held ") {
        return Ok(Expected::Held(Some(evidence.to_owned())));
    }
    if let Some(reason) = value.strip_prefix("lost, ") {
        return Ok(Expected::Lost(reason.to_owned()));
    }
    let reason = value.strip_prefix("breached, ");
    reason
        .map(|reason| Expected::Breached(reason.to_owned()))
        .ok_or(format!("a sandbox cannot be expected to be: {value}"))
}

fn programs(text: &str) -> Result<Programs, String> {
    let mut parts = vec![String::new()];
    let mut marks = Vec::new();
    for line in text.lines() {
        if line.starts_with("#---") {
            marks.push(line);
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    if parts.iter().any(|part| part.trim().is_empty()) {
        return Err("there is no program".to_owned());
    }
    let host = match marks.as_slice() {
        [ELSEWHERE] => Host::No,
        [AND_HOST] => Host::Too,
        marks => {
            return match marks.iter().find(|mark| **mark != THEN) {
                None => Ok(Programs::Steps(parts)),
                Some(mark) => Err(format!("out of place: {mark}")),
            };
        }
    };
    let mut parts = parts.into_iter();
    Ok(Programs::Pair {
        holder: parts.next().unwrap_or_default(),
        observer: parts.next().unwrap_or_default(),
        host,
    })
}
