//! The server that is soaked: its process, its state, and its containers.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::process::{self, Sample};

/// The most sandboxes that wait: what may be there at rest.
pub(crate) const POOL: u64 = 4;
/// After so many seconds without use a session ends: those that were left behind go while the others work.
const IDLE_SECONDS: u64 = 15;
/// How long a server without work may take until it is as it was: sessions end, threads that only block end after 10 s
/// without work, the pool fills.
const REST: Duration = Duration::from_mins(1);
/// How long it must be unchanged to be at rest: longer than a thread without work lives.
const UNCHANGED: Duration = Duration::from_secs(15);
/// How long it may take to stop.
const STOP: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    process: Child,
    state: TempDir,
    address: SocketAddr,
    token: String,
    instance: String,
}

/// What was left once it had stopped.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) stopped_well: bool,
    pub(crate) containers: u64,
    /// Volumes that name this server and are not the guest's.
    pub(crate) volumes: u64,
    /// Files of its own that should have gone with it.
    pub(crate) files: u64,
    pub(crate) chain_holds: bool,
}

impl Server {
    pub(crate) fn start(upstream: u16) -> anyhow::Result<Self> {
        let state = tempfile::tempdir().context("make a state directory")?;
        let config = format!(
            "[concurrency]\nmax_sandboxes = 24\n[sessions]\nidle_seconds = {IDLE_SECONDS}\nmax = 20\n\
             [pool]\nmax = {POOL}\nmin = 2\nlanguages = [\"python\", \"bash\"]\n\
             [artifacts]\nttl_seconds = 30\ncap_mib = 128\n\
             [egress.lab]\nallow = [\"http://lab.test:{upstream}\"]\ncallers = [\"token\"]\n\
             resolve = {{ \"lab.test\" = [\"127.0.0.1\"] }}\nallow_private = [\"127.0.0.1/32\"]\n"
        );
        let file = state.path().join("belljar.toml");
        fs::write(&file, config).context("write the configuration")?;
        let token = "soak-".repeat(8);
        let mut process = command(&state)
            .args(["serve", "--http", "127.0.0.1:0"])
            .env("BELLJAR_HTTP_TOKEN", &token)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start the server")?;
        let said = process.stderr.take().context("the server's log")?;
        let mut said = BufReader::new(said).lines();
        let address = said
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let rest = line.strip_prefix("belljar: MCP at http://")?;
                rest.strip_suffix("/mcp")?.parse().ok()
            })
            .context("the server does not say where it is")?;
        let log = File::create(state.path().join("log")).context("make the log")?;
        thread::spawn(move || {
            let mut log = log;
            for line in said.map_while(Result::ok) {
                let _ = std::io::Write::write_all(&mut log, format!("{line}\n").as_bytes());
            }
        });
        let instance = instances(&state)
            .pop()
            .context("the server has no instance file")?;
        Ok(Self {
            process,
            state,
            address,
            token,
            instance,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The process while it works.
    pub(crate) fn sample(&self) -> anyhow::Result<Sample> {
        process::sample(self.process.id())
    }

    /// The process once it does nothing any more, and the pool is as large as it will be.
    pub(crate) fn at_rest(&self) -> anyhow::Result<Sample> {
        let end = Instant::now() + REST;
        let mut last = self.with_containers()?;
        let mut since = Instant::now();
        while since.elapsed() < UNCHANGED && Instant::now() < end {
            thread::sleep(Duration::from_secs(1));
            let now = self.with_containers()?;
            let key = |sample: &Sample| {
                let Sample {
                    descriptors,
                    threads,
                    containers,
                    zombies,
                    memory_kib: _,
                } = *sample;
                (descriptors, threads, containers, zombies)
            };
            if key(&now) != key(&last) {
                since = Instant::now();
            }
            last = now;
        }
        Ok(last)
    }

    fn with_containers(&self) -> anyhow::Result<Sample> {
        Ok(Sample {
            containers: self.containers()?,
            ..self.sample()?
        })
    }

    fn containers(&self) -> anyhow::Result<u64> {
        let all = docker(&["ps", "--all", "--format", "{{.Names}}"])?;
        let ours = all.lines().filter(|name| name.contains(&self.instance));
        Ok(ours.count() as u64)
    }

    /// Asks it to stop, and looks at what it leaves.
    pub(crate) fn stop(mut self) -> anyhow::Result<End> {
        let pid = self.process.id().to_string();
        Command::new("kill").args(["-s", "TERM", &pid]).status()?;
        let end = Instant::now() + STOP;
        let mut status = None;
        while status.is_none() && Instant::now() < end {
            thread::sleep(Duration::from_millis(100));
            status = self.process.try_wait()?;
        }
        let volumes = docker(&["volume", "ls", "--format", "{{.Name}}"])?;
        let pointed = docker(&["volume", "ls", "--format", "{{.Label \"belljar.volume\"}}"])?;
        let left = volumes.lines().filter(|name| {
            name.contains(&self.instance) && !pointed.lines().any(|pointed| pointed == *name)
        });
        let verified = command(&self.state)
            .args(["audit", "verify"])
            .output()
            .context("verify the record")?;
        let tmp = fs::read_dir(self.state.path().join("artifacts/tmp"))?.count();
        Ok(End {
            stopped_well: status.is_some_and(|status| status.success()),
            containers: self.containers()?,
            volumes: left.count() as u64,
            files: (tmp + instances(&self.state).len()) as u64,
            chain_holds: verified.status.success(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(state: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .env("BELLJAR_STATE_DIR", state.path())
        .env("BELLJAR_CONFIG", state.path().join("belljar.toml"))
        .env("BELLJAR_LOG", "warn");
    command
}

fn instances(state: &TempDir) -> Vec<String> {
    let files = fs::read_dir(state.path().join("instances"))
        .into_iter()
        .flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_suffix(".lock").map(str::to_owned))
        .collect()
}

fn docker(arguments: &[&str]) -> anyhow::Result<String> {
    let said = Command::new("docker")
        .args(arguments)
        .output()
        .context("the docker command")?;
    ensure!(said.status.success(), "docker: {said:?}");
    Ok(String::from_utf8(said.stdout)?)
}
