//! The state directory is full: what cannot be recorded is not done, and with room again it is done, without a restart.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    api,
    mounted::Mounted,
    server::{PATIENCE, Server, Setup, said, start, until, verify},
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(90);
const NO_POOL: &str = "[pool]\nmax = 0\n";

fn setup<'a>(
    state: &'a Mounted,
    beside: &'a tempfile::TempDir,
    docker: &'a std::path::Path,
) -> Setup<'a> {
    Setup {
        state: state.path(),
        beside: beside.path(),
        docker,
        config: NO_POOL,
        files: None,
        clock: None,
    }
}

/// Whether a result is an error that says what is wrong, or a result that is on record.
fn honest(server: &Server, answer: &Value) -> Result<&'static str, String> {
    if answer["isError"] == true {
        let text = said(answer);
        return if text.contains("state directory full") {
            Ok("refused")
        } else {
            Err(format!("it does not say why: {text}"))
        };
    }
    let run = &answer["structuredContent"]["run_id"];
    let lines = server.audit();
    let of = |action: &str| {
        lines
            .iter()
            .any(|line| line["action"] == action && line["run_id"] == *run)
    };
    if of("begin_run") && of("run_code") {
        Ok("done and recorded")
    } else {
        Err(format!("it is not on record: {answer}"))
    }
}

/// Fills the file system in each of these ways, and calls; then it works again.
fn full(state: &Mounted, fill: impl Fn(&Mounted, u64) -> crate::mounted::Fill, left: &[u64]) {
    let beside = tempfile::tempdir().unwrap();
    let docker = api::daemon();
    let setup = setup(state, &beside, &docker);
    let mut server = start(setup);
    let instance = server.instance();
    server.works(PATIENCE).unwrap();
    let calls = [
        json!({"language": "bash", "code": "echo here; echo kept >out.txt"}),
        // More than is kept in memory.
        json!({"language": "bash", "code": "head -c 3000000 /dev/zero | tr '\\0' x"}),
    ];
    let mut refused = 0;
    for left in left {
        for call in &calls {
            let filled = fill(state, *left);
            let answer = server.tool("run_code", call, ANSWER).expect("an answer");
            let honest =
                honest(&server, &answer).unwrap_or_else(|why| panic!("{left} left: {why}"));
            println!(
                "{left:>8} left: {honest:<18} {}",
                said(&answer).lines().next().unwrap()
            );
            refused += usize::from(answer["isError"] == true);
            drop(filled);
            server
                .works(PATIENCE)
                .unwrap_or_else(|why| panic!("with room again after {left} left: {why}"));
        }
    }
    assert!(refused > 0, "it was never full");
    let gone = until(PATIENCE, || api::containers(&docker, &instance).is_empty());
    assert!(gone, "{:?}", api::containers(&docker, &instance));
    assert_eq!(server.close(), Some(0));
    verify(setup).unwrap();
}

#[test]
#[ignore = "mounts a file system, so it needs root: `make faults`"]
fn a_state_directory_without_room_refuses_what_it_cannot_record() {
    let state = Mounted::new(24 << 20, 4096);
    let left = [0, 4096, 2 * 4096, 4 * 4096, 16 * 4096, 256 * 4096];
    full(&state, Mounted::fill_but, &left);
}

#[test]
#[ignore = "mounts a file system, so it needs root: `make faults`"]
fn a_state_directory_without_inodes_refuses_what_it_cannot_record() {
    let state = Mounted::new(64 << 20, 600);
    let fill = |state: &Mounted, left: u64| state.fill_inodes_but(usize::try_from(left).unwrap());
    full(&state, fill, &[0, 1, 2, 3, 5, 8]);
}

#[test]
#[ignore = "mounts a file system, so it needs root: `make faults`"]
fn a_server_does_not_start_where_it_cannot_record() {
    let state = Mounted::new(1 << 20, 64);
    let beside = tempfile::tempdir().unwrap();
    let docker = api::daemon();
    let setup = setup(&state, &beside, &docker);
    let _filled = state.fill_inodes_but(0);
    let ended = crate::server::belljar(setup).arg("serve").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success());
    assert!(
        said.contains("BELLJAR_STATE_DIR") || said.contains("No space left"),
        "{said}"
    );
}
