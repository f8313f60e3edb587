//! The server has as many files open as it may: calls are answered and recorded, and it works again once some are free.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    api,
    server::{PATIENCE, Server, Setup, said, start, until, verify},
};

/// Fewer than so many sessions hold.
const FILES: u32 = 32;
/// Each holds a connection to its sandbox.
const SESSIONS: usize = 40;
const RUNS: usize = 4;
const CONFIG: &str = "[pool]\nmax = 0\n[sessions]\nmax = 60\n[concurrency]\nmax_sandboxes = 64\n";
/// How long all of them may take.
const ANSWERS: Duration = Duration::from_mins(3);
/// How long something may stay that could not be removed at first.
const SETTLED: Duration = Duration::from_secs(150);

#[test]
fn a_server_without_descriptors_answers_and_recovers() {
    let state = tempfile::tempdir().unwrap();
    let docker = api::daemon();
    let setup = Setup {
        state: state.path(),
        beside: state.path(),
        docker: &docker,
        config: CONFIG,
        files: Some(FILES),
        clock: None,
    };
    let mut server = start(setup);
    let instance = server.instance();
    server.works(PATIENCE).unwrap();
    let before = server.process.open_files();
    let (opened, mut refused): (Vec<_>, Vec<_>) = all(
        &mut server,
        "open_session",
        &vec![json!({"language": "bash"}); SESSIONS],
    )
    .into_iter()
    .partition(|answer| answer["isError"] == false);
    assert!(!refused.is_empty(), "there were enough of them");
    // These take files for their input, output and record besides.
    let run = json!({
        "language": "bash",
        "code": "head -c 300000 in.txt; head -c 1200000 in.txt >out.txt",
        "files": [{"path": "in.txt", "text": "x".repeat(1_500_000)}],
    });
    let runs = all(&mut server, "run_code", &vec![run; RUNS]);
    refused.extend(runs.into_iter().filter(|answer| answer["isError"] == true));
    println!("{} refused: {}", refused.len(), said(&refused[0]));
    for text in refused.iter().map(said) {
        let why = ["oo many open files", "log on standard error"];
        assert!(why.iter().any(|why| text.contains(why)), "{text}");
        let others = ["start Docker", "disk"];
        assert!(!others.iter().any(|other| text.contains(other)), "{text}");
    }
    let sessions = opened
        .iter()
        .map(|opened| json!({"session": opened["structuredContent"]["session"]}));
    let sessions: Vec<_> = sessions.collect();
    let count = sessions.len();
    for closed in all(&mut server, "close_session", &sessions) {
        let later = said(&closed).contains("belljar goes on trying");
        assert!(closed["isError"] == false || later, "{closed}");
    }
    server.works(PATIENCE).unwrap();
    let gone = until(SETTLED, || api::containers(&docker, &instance).is_empty());
    assert!(gone, "{:?}", api::containers(&docker, &instance));
    let level = until(PATIENCE, || server.process.open_files() <= before + 4);
    assert!(
        level,
        "{} files are open, {before} were",
        server.process.open_files()
    );
    let lines = server.audit();
    for (action, calls) in [
        ("open_session", SESSIONS),
        ("run_code", RUNS + 2),
        ("close_session", count),
    ] {
        let ended = lines.iter().filter(|line| line["action"] == action);
        assert_eq!(ended.count(), calls, "each {action} has its line");
    }
    assert_eq!(server.close(), Some(0));
    verify(setup).unwrap();
}

/// Calls a tool with all of these at once; the answer to each.
fn all(server: &mut Server, tool: &str, arguments: &[Value]) -> Vec<Value> {
    let calls: Vec<u64> = arguments
        .iter()
        .map(|arguments| server.begin(tool, arguments))
        .collect();
    calls
        .into_iter()
        .map(|id| server.answer(id, ANSWERS).expect("an answer"))
        .collect()
}
