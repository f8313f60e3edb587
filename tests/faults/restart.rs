//! The real thing: a daemon that is stopped, killed, or has no room.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    api,
    dockerd::Dockerd,
    mounted::Mounted,
    server::{PATIENCE, Server, Setup, said, start, until, verify},
};

const NO_POOL: &str = "[pool]\nmax = 0\n";
const POOL: &str = "[pool]\nmax = 2\n";
/// How long an answer may take while the daemon hangs: a question's deadline, and some more on a busy machine.
const HANGING: Duration = Duration::from_mins(1);
/// How long something may stay once the daemon is back.
const SETTLED: Duration = Duration::from_secs(150);

struct World {
    daemon: Dockerd,
    server: Server,
    state: tempfile::TempDir,
    socket: std::path::PathBuf,
    config: &'static str,
}

impl World {
    fn start(data: &std::path::Path, config: &'static str) -> Self {
        let daemon = Dockerd::start(data);
        let state = tempfile::tempdir().unwrap();
        let socket = daemon.socket();
        let mut server = start(setup(&state, &socket, config));
        server.works(PATIENCE).unwrap();
        Self {
            daemon,
            server,
            state,
            socket,
            config,
        }
    }

    fn begin(&mut self, code: &str) -> u64 {
        let run = json!({"language": "bash", "code": code, "timeout_seconds": 60});
        self.server.begin("run_code", &run)
    }

    /// Begins a run that prints `before`, sleeps, and prints `after`; waits until it sleeps and what it printed is here.
    /// That it is on record says only that it is about to start, and one that a stopped daemon keeps from starting is lost.
    fn begin_sleeping(&mut self, seconds: u32) -> u64 {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        // Like no other on this machine.
        let time = format!(
            "{seconds}.{:05}{:03}",
            std::process::id(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        let run = self.begin(&format!("echo before; sleep 0.5; sleep {time}; echo after"));
        let command = format!("sleep\0{time}\0");
        let sleeps = until(PATIENCE, || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let mut commands =
                processes.filter_map(|found| fs::read(found.path().join("cmdline")).ok());
            commands.any(|found| found == command.as_bytes())
        });
        assert!(sleeps, "it never slept");
        run
    }

    /// The server works, nothing is left, and its record holds.
    fn ends(mut self, most: usize) {
        self.server.works(PATIENCE).unwrap();
        let instance = self.server.instance();
        let gone = until(SETTLED, || {
            api::containers(&self.socket, &instance).len() <= most
        });
        assert!(gone, "left: {:?}", api::containers(&self.socket, &instance));
        assert_eq!(self.server.close(), Some(0));
        let left = api::containers(&self.socket, &instance);
        assert!(left.is_empty(), "left by the end: {left:?}");
        verify(setup(&self.state, &self.socket, self.config)).unwrap();
    }
}

fn setup<'a>(
    state: &'a tempfile::TempDir,
    docker: &'a std::path::Path,
    config: &'a str,
) -> Setup<'a> {
    Setup {
        state: state.path(),
        beside: state.path(),
        docker,
        config,
        files: None,
        clock: None,
    }
}

#[test]
#[ignore = "starts a Docker daemon, so it needs root: `make faults`"]
fn a_daemon_that_is_stopped_holds_nobody_for_longer_than_its_deadline() {
    for config in [NO_POOL, POOL] {
        let data = tempfile::tempdir().unwrap();
        let mut world = World::start(data.path(), config);
        let run = world.begin_sleeping(4);

        // For a moment: nothing is lost.
        world.daemon.signal("STOP");
        let stopped = Instant::now();
        assert!(world.server.answer(run, Duration::from_secs(5)).is_none());
        world.daemon.signal("CONT");
        let answer = world.server.answer(run, PATIENCE).expect("an answer");
        println!("stopped for {:?}: {}", stopped.elapsed(), said(&answer));
        let result = &answer["structuredContent"];
        assert_eq!(result["stdout"]["text"], "before\nafter\n", "{answer}");

        // For longer than it may: several calls at once, and each is answered as soon as one.
        world.server.works(PATIENCE).unwrap();
        world.daemon.signal("STOP");
        let stopped = Instant::now();
        let calls: Vec<u64> = (0..12).map(|_| world.begin("echo late")).collect();
        for call in calls {
            let left = (2 * HANGING).saturating_sub(stopped.elapsed());
            let answer = world.server.answer(call, left).expect("an answer in time");
            let text = said(&answer);
            // One that waited in the pool needs no daemon, until it is found silent.
            let known = ["did not answer", "sandbox lost", "docker info"];
            assert!(known.iter().any(|words| text.contains(words)), "{text}");
        }
        println!("12 calls were told after {:?}", stopped.elapsed());
        world.daemon.signal("CONT");
        let most = if config == POOL { 2 } else { 0 };
        world.ends(most);
    }
}

#[test]
#[ignore = "starts a Docker daemon, so it needs root: `make faults`"]
fn a_daemon_that_is_killed_and_comes_back_finds_a_server_that_goes_on() {
    for config in [NO_POOL, POOL] {
        let data = tempfile::tempdir().unwrap();
        let mut world = World::start(data.path(), config);
        let session = world
            .server
            .ok("open_session", &json!({"language": "bash"}));
        let run = world.begin_sleeping(30);
        world.daemon.kill();
        let answer = world
            .server
            .answer(run, HANGING)
            .expect("an answer in time");
        let result = &answer["structuredContent"];
        assert_eq!(result["status"], "sandbox_lost", "{answer}");
        assert_eq!(result["stdout"]["text"], "before\n", "{answer}");
        let down = world.server.works(HANGING).unwrap_err();
        assert!(down.contains("no Docker daemon answers"), "{down}");
        // Longer than one removal is tried.
        std::thread::sleep(Duration::from_secs(25));
        world.daemon.restart();
        world.server.works(PATIENCE).unwrap();
        let session = json!({"language": "bash", "code": "echo", "session": session["session"]});
        let answer = world
            .server
            .tool("run_code", &session, HANGING)
            .expect("an answer");
        let lost = answer["structuredContent"]["status"] == "sandbox_lost";
        assert!(lost, "its sandbox is gone: {answer}");
        let most = if config == POOL { 2 } else { 0 };
        world.ends(most);
    }
}

#[test]
#[ignore = "starts a Docker daemon and mounts a file system, so it needs root: `make faults`"]
fn a_daemon_without_room_is_an_answer_and_no_end() {
    let data = Mounted::new(1 << 30, 60_000);
    let mut world = World::start(data.path(), NO_POOL);
    for what in ["bytes", "inodes"] {
        let filled = match what {
            "bytes" => data.fill_but(0),
            _ => data.fill_inodes_but(0),
        };
        let refused = world.server.works(HANGING).unwrap_err();
        println!("no {what}: {refused}");
        assert!(
            refused.contains("no space left") || refused.contains("did not start"),
            "{refused}"
        );
        drop(filled);
        world.server.works(PATIENCE).unwrap();
    }
    world.ends(0);
}
