use std::{fs, path::Path};

use clap::Parser;

use super::*;
use crate::{
    artifact::{Kind, NewEntry},
    audit::{Action, Event, Log, Outcome},
    types::{Caller, InstanceId, Sha256, Status},
};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    audit: AuditArgs,
}

async fn audit(state: &Path, args: &[&str]) -> (AuditExit, String) {
    let cli = Cli::try_parse_from([&["audit"], args].concat()).unwrap();
    let mut out = Vec::new();
    let exit = run(&cli.audit, state, &mut out).await.unwrap();
    (exit, String::from_utf8(out).unwrap())
}

/// A state directory with one recorded run, whose every text is hostile.
async fn state() -> (tempfile::TempDir, RunId) {
    let (dir, run) = (tempfile::tempdir().unwrap(), RunId::random());
    let hostile = "x\x1b]0;pwned\x07\u{202e}\n\u{e0041}";
    let file = FileRecord {
        path: hostile.to_owned(),
        sha256: Some(Sha256::of(b"")),
        bytes: 0,
    };
    let log = Log::open(&dir.path().join("audit"), &InstanceId::random()).unwrap();
    let allow = || Event::new(Action::RunCode, Caller::Local, Decision::within_settings());
    log.append(Event::new(
        Action::Start,
        Caller::Local,
        Decision::within_settings(),
    ))
    .unwrap();
    log.append(Event {
        run_id: Some(run.clone()),
        language: Some(hostile.to_owned()),
        env: vec![log.seal(hostile, "secret")],
        inputs: vec![file.clone()],
        artifacts: vec![file],
        artifacts_omitted: 3,
        outcome: Some(Outcome {
            status: Status::Exited,
            exit_code: Some(3),
            signal: None,
            duration_ms: 12,
        }),
        error: Some(hostile.to_owned()),
        ..allow()
    })
    .unwrap();
    let deny = Decision::Deny {
        reason: hostile.to_owned(),
    };
    log.append(Event {
        decision: deny,
        ..allow()
    })
    .unwrap();
    let store = Store::open(dir.path().join("artifacts"), Options::default()).unwrap();
    for (name, text) in [("code", "print('\x1b[2J')"), ("stdout", "done\n")] {
        let new = NewEntry {
            caller: Caller::Local,
            kind: Kind::Record { run: run.clone() },
            name: name.to_owned(),
        };
        store.put_bytes(text.into(), new).await.unwrap();
    }
    (dir, run)
}

fn assert_safe(text: &str) {
    assert!(!text.chars().any(visible::is_forbidden), "{text:?}");
}

#[tokio::test]
async fn tail_shows_an_event_a_line_safe_for_a_terminal() {
    let (dir, run) = state().await;
    let (exit, text) = audit(dir.path(), &["tail"]).await;
    assert_eq!((exit, text.lines().count()), (AuditExit::Fine, 3));
    assert_safe(&text);
    let line = text.lines().nth(1).unwrap();
    assert!(
        line.contains("run_code") && line.contains("exited 3 in 12 ms"),
        "{line}"
    );
    assert!(line.contains(&format!("run {run}")), "{line}");
    let (_, last) = audit(dir.path(), &["tail", "-n", "1"]).await;
    assert!(last.contains("deny (x\\x1b]0;pwned"), "{last}");
}

#[tokio::test]
async fn json_is_safe_for_a_terminal_and_still_says_the_same() {
    let (dir, _) = state().await;
    let (_, text) = audit(dir.path(), &["tail", "--json"]).await;
    assert_safe(&text);
    let lines: Vec<Line> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines,
        Logs::open(dir.path().join("audit")).tail(10).unwrap()
    );
}

#[tokio::test]
async fn show_prints_fields_code_and_output_of_a_run() {
    let (dir, run) = state().await;
    let (exit, text) = audit(dir.path(), &["show", run.as_str()]).await;
    assert_eq!(exit, AuditExit::Fine);
    assert_safe(&text);
    for expected in [
        "caller     local",
        "(value sealed)",
        "artifacts  3 more",
        "--- code (13 bytes)\nprint('\\x1b[2J')\n",
        "--- stdout (5 bytes)\ndone\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(!text.contains("secret"));
}

#[tokio::test]
async fn an_unknown_run_fails_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (exit, text) = audit(dir.path(), &["show", RunId::random().as_str()]).await;
    assert_eq!(exit, AuditExit::Failed);
    assert!(text.starts_with("no event of run "));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(Cli::try_parse_from(["audit", "show", "../../etc/passwd"]).is_err());
}

#[tokio::test]
async fn verify_fails_once_a_line_was_changed() {
    let (dir, _) = state().await;
    let (exit, text) = audit(dir.path(), &["verify"]).await;
    assert_eq!(exit, AuditExit::Fine);
    assert!(
        text.starts_with("ok ") && text.ends_with(": 3 events\n"),
        "{text}"
    );
    let path = fs::read_dir(dir.path().join("audit"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let changed = fs::read_to_string(&path)
        .unwrap()
        .replace("\"exit_code\":3", "\"exit_code\":0");
    fs::write(&path, changed).unwrap();
    let (exit, text) = audit(dir.path(), &["verify"]).await;
    assert_eq!(exit, AuditExit::Failed);
    assert!(text.contains("line 3 does not carry the digest"), "{text}");
}

/// As a server leaves it that is killed while it writes.
#[tokio::test]
async fn a_last_line_that_breaks_off_is_told_and_is_no_fault() {
    let (dir, _) = state().await;
    let path = fs::read_dir(dir.path().join("audit"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let last = lines[2].len();
    for kept in [1, last / 2, last - 1] {
        let torn = &whole[..whole.len() - last + kept];
        fs::write(&path, torn).unwrap();
        let (exit, text) = audit(dir.path(), &["verify"]).await;
        assert_eq!(exit, AuditExit::Fine, "{text}");
        assert!(
            text.starts_with("torn ") && text.contains(": 2 events, and the beginning of another"),
            "{text}"
        );
        let (exit, text) = audit(dir.path(), &["tail"]).await;
        assert_eq!((exit, text.lines().count()), (AuditExit::Fine, 2));
    }
    // Before the end it is tampering all the same.
    fs::write(
        &path,
        format!("{}{}", &lines[0][..20], &whole[lines[0].len()..]),
    )
    .unwrap();
    let (exit, text) = audit(dir.path(), &["verify"]).await;
    assert_eq!(exit, AuditExit::Failed, "{text}");
}

#[tokio::test]
async fn a_log_that_ends_early_or_is_gone_is_told() {
    let (dir, _) = state().await;
    let folder = dir.path().join("audit");
    let first = fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // Another server starts.
    std::thread::sleep(std::time::Duration::from_millis(2));
    let log = Log::open(&folder, &InstanceId::random()).unwrap();
    let (beside, _) = log.beside();
    let start = Event::new(Action::Start, Caller::Local, Decision::within_settings());
    log.append(Event { beside, ..start }).unwrap();

    let whole = fs::read_to_string(&first).unwrap();
    let kept: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(&first, kept).unwrap();
    let (exit, text) = audit(dir.path(), &["verify"]).await;
    assert_eq!(exit, AuditExit::Failed);
    assert!(
        text.contains("line 3 is missing, and a later log found it"),
        "{text}"
    );

    fs::remove_file(&first).unwrap();
    let (exit, text) = audit(dir.path(), &["verify"]).await;
    assert_eq!(exit, AuditExit::Fine, "as when old logs are thrown away");
    assert!(text.contains("\ngone "), "{text}");
    let second = fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    let earlier = fs::read_to_string(second.path()).unwrap();
    let earlier = earlier.replacen("\"time\":\"2", "\"time\":\"1", 1);
    fs::write(second.path(), earlier).unwrap();
    let (exit, text) = audit(dir.path(), &["verify"]).await;
    assert_eq!(exit, AuditExit::Failed);
    assert!(
        text.contains("not there, though logs are that ended earlier; a later log found 3 events"),
        "{text}"
    );
}
