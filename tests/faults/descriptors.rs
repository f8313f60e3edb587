//! The server has as many files open as it may: calls are answered and recorded, and it works again once some are free.

use std::time::Duration;

use serde_json::json;

use crate::{
    api,
    server::{PATIENCE, Server, Setup, said, until, verify},
};

/// Fewer than so many runs need at a time.
const FILES: u32 = 32;
const CALLS: usize = 32;
/// How long all of them may take.
const ANSWERS: Duration = Duration::from_secs(180);

#[test]
fn a_server_without_descriptors_answers_and_recovers() {
    let state = tempfile::tempdir().unwrap();
    let docker = api::daemon();
    let setup = Setup {
        state: state.path(),
        beside: state.path(),
        docker: &docker,
        config: "[pool]\nmax = 0\n[concurrency]\nmax_sandboxes = 64\n",
        files: Some(FILES),
    };
    let mut server = Server::start(setup);
    let instance = server.instance();
    server.works(PATIENCE).unwrap();
    let before = server.open_files();
    // Each takes a connection to the daemon, and files for its input, output and record.
    let input = "x".repeat(1_500_000);
    let run = json!({
        "language": "bash",
        "code": "head -c 300000 in.txt; read -t 6 <> <(:); head -c 1200000 in.txt >out.txt",
        "files": [{"path": "in.txt", "text": input}],
    });
    let calls: Vec<u64> = (0..CALLS)
        .map(|_| server.begin_tool("run_code", &run))
        .collect();
    let answers: Vec<_> = calls
        .iter()
        .map(|id| server.answer(*id, ANSWERS).expect("an answer"))
        .collect();
    let refused: Vec<String> = answers
        .iter()
        .filter(|answer| answer["isError"] == true)
        .map(said)
        .collect();
    println!(
        "{} of {CALLS} refused: {:#?}",
        refused.len(),
        refused.first()
    );
    assert!(!refused.is_empty(), "there were enough of them");
    for text in &refused {
        let why = [
            "too many open files",
            "Too many open files",
            "log on standard error",
        ];
        assert!(why.iter().any(|why| text.contains(why)), "{text}");
        assert!(!text.contains("start Docker"), "the daemon is well: {text}");
    }
    server.works(PATIENCE).unwrap();
    let gone = until(PATIENCE, || api::containers(&docker, &instance).is_empty());
    assert!(gone, "{:?}", api::containers(&docker, &instance));
    let level = until(PATIENCE, || server.open_files() <= before + 4);
    assert!(
        level,
        "{} files are open, {before} were",
        server.open_files()
    );
    let lines = server.audit();
    let ended = lines.iter().filter(|line| line["action"] == "run_code");
    assert_eq!(ended.count(), CALLS + 2, "each has its line");
    assert_eq!(server.close(), Some(0));
    verify(setup).unwrap();
}
