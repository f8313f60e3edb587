//! Somebody sets the wall clock under a server that works: whatever has a deadline keeps to it, and what is kept can be
//! had. The machine's own clock stays as it is: the server sees another one.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    api,
    server::{PATIENCE, Server, Setup, start, until, verify},
};

const HOUR: i64 = 3600;
/// Longer than anything is kept, and than any session may last.
const LONG: i64 = 20 * 24 * HOUR;
/// A session's container, and nothing that waits.
const NO_POOL: &str = "[pool]\nmax = 0\n";

/// A wall clock that can be set, for one server.
#[derive(Debug)]
pub(crate) struct Clock {
    folder: tempfile::TempDir,
}

impl Clock {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/clock/shift.rs");
        let built = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "cdylib",
                "-C",
                "panic=abort",
            ])
            .arg("-o")
            .arg(folder.path().join("shift.so"))
            .arg(source)
            .output()
            .expect("the compiler beside cargo");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        let clock = Self { folder };
        clock.set(0);
        clock
    }

    /// Has it differ by so many seconds from the machine's. At once: no reader may see half a number.
    fn set(&self, seconds: i64) {
        let new = self.folder.path().join("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, self.folder.path().join("shift")).unwrap();
    }

    /// Gives it to a program.
    pub(crate) fn lend(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", self.folder.path().join("shift.so"))
            .env("TEST_CLOCK", self.folder.path().join("shift"));
    }
}

fn begun(server: &Server) -> usize {
    let lines = server.audit();
    let begun = lines.iter().filter(|line| line["action"] == "begin_run");
    begun.count()
}

fn run(code: &str, more: &Value) -> Value {
    let mut run = json!({"language": "bash", "code": code, "timeout_seconds": 60});
    for (name, value) in more.as_object().unwrap() {
        run[name] = value.clone();
    }
    run
}

#[test]
fn a_wall_clock_that_is_set_ends_nothing_early_and_nothing_late() {
    let state = tempfile::tempdir().unwrap();
    let docker = api::daemon();
    let clock = Clock::new();
    let setup = Setup {
        state: state.path(),
        beside: state.path(),
        docker: &docker,
        config: NO_POOL,
        files: None,
        clock: Some(&clock),
    };
    let mut server = start(setup);
    let instance = server.instance();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let since_1970 = i64::try_from(now.as_secs()).unwrap();
    for shift in [LONG, -LONG, HOUR - since_1970] {
        clock.set(0);
        server.works(PATIENCE).unwrap();
        let session = server.ok("open_session", &json!({"language": "bash"}));
        let session = json!({"session": session["session"]});
        let before = begun(&server);
        let slow = "echo before; sleep 4; echo after; echo kept >kept.txt";
        let slow = server.begin("run_code", &run(slow, &json!({})));
        let late = run("echo before; sleep 600", &json!({"timeout_seconds": 4}));
        let late = server.begin("run_code", &late);
        assert!(
            until(PATIENCE, || begun(&server) == before + 2),
            "both begin"
        );

        clock.set(shift);
        let slow = server.answer(slow, PATIENCE).expect("an answer");
        let slow = &slow["structuredContent"];
        assert_eq!(slow["status"], "exited", "{shift}: {slow}");
        assert_eq!(slow["stdout"]["text"], "before\nafter\n", "{shift}: {slow}");
        let late = server.answer(late, PATIENCE).expect("an answer in time");
        let late = &late["structuredContent"];
        assert_eq!(late["status"], "timed_out", "{shift}: {late}");
        assert_eq!(late["stdout"]["text"], "before\n", "{shift}: {late}");
        let kept = json!({"artifact_id": slow["artifacts"][0]["artifact_id"]});
        assert_eq!(server.ok("fetch_artifact", &kept)["bytes"], 5, "{shift}");
        // Its lease is an hour, and none of it is over.
        let inside = server.ok("run_code", &run("echo inside", &session));
        assert_eq!(inside["stdout"]["text"], "inside\n", "{shift}: {inside}");
        server.ok("close_session", &session);
        let dates = server.audit().last().unwrap()["time"].to_string();
        println!("{shift}: recorded at {dates}");
    }
    clock.set(0);
    server.works(PATIENCE).unwrap();
    let gone = until(PATIENCE, || api::containers(&docker, &instance).is_empty());
    assert!(gone, "{:?}", api::containers(&docker, &instance));
    assert_eq!(server.close(), Some(0));
    verify(setup).unwrap();
}
