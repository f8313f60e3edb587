use std::time::Duration;

use belljar_wire::message::{
    Collect, EndedBy, ExitStatus, GuestError, Handover, Hidden, InlineFile, RunId, RunSpec,
    StdinKind, WarmSpec,
};
use bytes::Bytes;

use super::*;
use crate::engine::scripted_guest::{Greeting, ScriptedGuest, UID, Workspace};

async fn connect(greeting: Greeting) -> Result<(Tether, Workspace), TetherError> {
    let guest = ScriptedGuest::start(greeting);
    let (read, write) = tokio::io::split(guest.io);
    Tether::connect(read, write)
        .await
        .map(|tether| (tether, guest.workspace))
}

pub(super) async fn tether() -> (Tether, Workspace) {
    connect(Greeting::Proper).await.unwrap()
}

proptest::proptest! {
    #[test]
    fn whatever_a_guest_sends_instead_of_the_protocol_is_survived(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..1024),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let read = std::io::Cursor::new(bytes);
        let connected = runtime.block_on(Tether::connect(read, tokio::io::sink()));
        proptest::prop_assert!(connected.is_err());
    }
}

fn spec(script: &str) -> RunSpec {
    RunSpec {
        id: RunId(0),
        argv: ["scripted", "/workspace/.main", "one", "two"]
            .map(str::to_owned)
            .to_vec(),
        env: vec![("NAME".to_owned(), "value".to_owned())],
        cwd: "/workspace".to_owned(),
        program: Some(InlineFile {
            path: b".main".to_vec(),
            bytes: script.into(),
        }),
        files: Vec::new(),
        stdin: StdinKind::Null,
        timeout_ms: 60_000,
        nproc: None,
        collect: Collect {
            skip_dirs: vec!["skipped".to_owned()],
            max_files: 2,
        },
        warm: None,
    }
}

/// Everything that a run said.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    files: Vec<Vec<u8>>,
    exit: Option<message::Exit>,
}

async fn hear(run: &mut Run) -> Result<Said, TetherError> {
    let mut said = Said::default();
    while let Some(event) = run.next().await? {
        match event {
            RunEvent::Started { .. } => {}
            RunEvent::Stdout(bytes) => said.stdout.extend_from_slice(&bytes),
            RunEvent::Stderr(bytes) => said.stderr.extend_from_slice(&bytes),
            RunEvent::NewFile(entry) => said.files.push(entry.path),
            RunEvent::Exited(exit) => said.exit = Some(exit),
        }
    }
    Ok(said)
}

pub(super) async fn run(tether: &Tether, script: &str) -> Result<Said, TetherError> {
    hear(&mut tether.run(spec(script), None).await?).await
}

/// Runs a script that lies: what the tether makes of it. The connection must be given up.
async fn caught(lie: &str) -> TetherError {
    let (tether, _) = tether().await;
    let error = run(&tether, &format!("out before\nlie {lie}"))
        .await
        .unwrap_err();
    tether.lost().await;
    error
}

#[tokio::test]
async fn a_run_says_what_it_did_in_order() {
    let (tether, _) = tether().await;
    assert_eq!(tether.ready().uid, UID);
    let script = "out hello\nerr oops\nargs\nenv NAME\nenv OTHER\nexit 3";
    let said = run(&tether, script).await.unwrap();
    assert_eq!(said.stdout, b"hello\none\ntwo\nvalue\nunset\n");
    assert_eq!(said.stderr, b"oops\n");
    let exit = said.exit.unwrap();
    assert_eq!(
        (exit.status, exit.ended_by),
        (ExitStatus::Code(3), EndedBy::Itself)
    );
}

#[tokio::test]
async fn standard_input_reaches_the_program_whole() {
    let (tether, _) = tether().await;
    let input = Bytes::from(vec![b'i'; 3_000_000]);
    let mut run = tether.run(spec("cat"), Some(input.clone())).await.unwrap();
    assert_eq!(hear(&mut run).await.unwrap().stdout, input);
}

#[tokio::test]
async fn standard_input_that_nobody_reads_does_not_hold_up_the_end() {
    let (tether, _) = tether().await;
    let input = Bytes::from(vec![b'i'; 3_000_000]);
    let mut run = tether.run(spec("out done"), Some(input)).await.unwrap();
    assert_eq!(hear(&mut run).await.unwrap().stdout, b"done\n");
}

#[tokio::test]
async fn new_files_are_told_and_the_rest_counted() {
    let (tether, _) = tether().await;
    let script = "file a 1\nfile .hidden 1\nfile skipped/b 1\nfile d/c 1\nfile e 1\nfile f 1";
    let said = run(&tether, script).await.unwrap();
    assert_eq!(said.files, [b"a".to_vec(), b"d/c".to_vec()]);
    assert_eq!(said.exit.unwrap().files_omitted, 2);
}

#[tokio::test]
async fn a_kill_ends_a_run_and_keeps_what_it_said() {
    let (tether, _) = tether().await;
    let mut run = tether.run(spec("out before\nhang"), None).await.unwrap();
    let killer = run.killer();
    while !matches!(run.next().await.unwrap(), Some(RunEvent::Stdout(_))) {}
    killer.kill().await.unwrap();
    let exit = hear(&mut run).await.unwrap().exit.unwrap();
    assert_eq!(
        (exit.status, exit.ended_by),
        (ExitStatus::Signal(9), EndedBy::Killed)
    );
    killer.kill().await.unwrap();
    assert!(!tether.is_lost());
}

#[tokio::test]
async fn a_deadline_ends_a_run() {
    let (tether, _) = tether().await;
    let spec = RunSpec {
        timeout_ms: 1,
        ..spec("hang")
    };
    let exit = hear(&mut tether.run(spec, None).await.unwrap())
        .await
        .unwrap()
        .exit
        .unwrap();
    assert_eq!(exit.ended_by, EndedBy::Deadline);
}

#[tokio::test]
async fn a_second_run_at_a_time_is_refused_without_harm() {
    let (tether, _) = tether().await;
    let mut first = tether.run(spec("hang"), None).await.unwrap();
    assert_eq!(
        first.next().await.unwrap(),
        Some(RunEvent::Started { warm: false })
    );
    let second = run(&tether, "out second").await;
    assert!(matches!(second, Err(TetherError::Guest(GuestError::Busy))));
    first.killer().kill().await.unwrap();
    hear(&mut first).await.unwrap();
    assert_eq!(run(&tether, "out third").await.unwrap().stdout, b"third\n");
}

#[tokio::test]
async fn much_output_arrives_whole() {
    let (tether, _) = tether().await;
    assert_eq!(
        run(&tether, "flood 20000000").await.unwrap().stdout.len(),
        20_000_000
    );
}

#[tokio::test]
async fn files_go_in_and_out() {
    let (tether, workspace) = tether().await;
    let content = vec![7_u8; 200_000];
    let entry = tether.write(b"d/f", 200_000, &content[..]).await.unwrap();
    assert_eq!(entry.bytes, 200_000);
    assert_eq!(workspace.get("d/f").unwrap(), content);
    let mut file = tether.read(b"d/f", 199_990, 1_000_000).await.unwrap();
    let mut read = Vec::new();
    while let Some(bytes) = file.next().await.unwrap() {
        read.extend_from_slice(&bytes);
    }
    assert_eq!(read.len(), 10);
    workspace.put(".hidden", b"");
    let listing = tether.list(b"", 10, Hidden::Skip).await.unwrap();
    assert_eq!(listing.entries.len(), 1);
    let listing = tether.list(b"", 1, Hidden::List).await.unwrap();
    assert_eq!(
        (listing.entries[0].path.as_slice(), listing.omitted),
        (&b".hidden"[..], 1)
    );
    let missing = tether.read(b"nothing", 0, 1).await;
    assert!(matches!(
        missing,
        Err(TetherError::Guest(GuestError::NotFound))
    ));
    assert!(!tether.is_lost());
}

#[tokio::test]
async fn a_source_that_ends_early_is_no_fault_of_the_guest() {
    let (tether, workspace) = tether().await;
    let short = tether.write(b"f", 10, &b"abc"[..]).await;
    assert!(matches!(short, Err(TetherError::Source(_))));
    assert!(workspace.get("f").is_none());
    assert!(!tether.is_lost());
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_here() {
    let (tether, _) = tether().await;
    let spec = spec(&"#".repeat(5 * 1024 * 1024));
    assert!(matches!(
        tether.run(spec, None).await,
        Err(TetherError::TooLarge)
    ));
    assert!(!tether.is_lost());
}

#[tokio::test]
async fn every_lie_is_caught_and_ends_the_connection() {
    let violation = |error| match error {
        TetherError::Violation(violation) => violation,
        other => panic!("{other:?}"),
    };
    assert_eq!(violation(caught("oversized").await), Violation::Frame);
    assert_eq!(violation(caught("garbage").await), Violation::Frame);
    assert_eq!(violation(caught("twice").await), Violation::Order);
    assert_eq!(violation(caught("late").await), Violation::Order);
    assert_eq!(violation(caught("escape").await), Violation::Path);
    assert_eq!(violation(caught("count").await), Violation::Count);
    assert!(matches!(caught("reset").await, TetherError::Lost));
    assert!(matches!(caught("vanish").await, TetherError::Lost));
}

#[tokio::test(start_paused = true)]
async fn every_lie_about_files_is_caught() {
    let violation = |error| match error {
        TetherError::Violation(violation) => violation,
        other => panic!("{other:?}"),
    };
    for (path, expected) in [
        (&b"lie/early"[..], Violation::Order),
        (b"lie/stall", Violation::Stalled),
        (b"lie/path", Violation::Path),
    ] {
        let (tether, _) = tether().await;
        let size = 10_000_000;
        let asked = Instant::now();
        let error = tether
            .write(path, size, tokio::io::repeat(0))
            .await
            .unwrap_err();
        assert_eq!(violation(error), expected);
        assert!(asked.elapsed() < 2 * STALL_DEADLINE);
        tether.lost().await;
    }

    let (tether, workspace) = tether().await;
    workspace.put("lie/more", b"content");
    let mut file = tether.read(b"lie/more", 0, 3).await.unwrap();
    assert_eq!(violation(file.next().await.unwrap_err()), Violation::Count);
    assert_eq!(file.next().await.unwrap(), None);
    tether.lost().await;

    let (tether, _) = connect(Greeting::Proper).await.unwrap();
    let listed = tether.list(b"lie", 5, Hidden::List).await;
    assert_eq!(violation(listed.unwrap_err()), Violation::Count);
    tether.lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_file_or_a_listing_that_drips_is_given_up_and_a_slow_one_is_not() {
    let stalled = |error| matches!(error, TetherError::Violation(Violation::Stalled));
    let began = tokio::time::Instant::now();
    let (tether, workspace) = connect(Greeting::Proper).await.unwrap();
    workspace.put("lie/drip", &[7; 1000]);
    let mut file = tether.read(b"lie/drip", 0, 1000).await.unwrap();
    assert_eq!(file.next().await.unwrap().unwrap().len(), 1);
    assert!(stalled(file.next().await.unwrap_err()));
    let (tether, _) = connect(Greeting::Proper).await.unwrap();
    let size = 10_000_000;
    let written = tether.write(b"lie/drip", size, tokio::io::repeat(0)).await;
    assert!(stalled(written.unwrap_err()));
    let (tether, _) = connect(Greeting::Proper).await.unwrap();
    let listed = tether.list(b"lie/drip", 1000, Hidden::List).await;
    assert!(stalled(listed.unwrap_err()));
    assert!(
        began.elapsed() < 6 * STALL_DEADLINE,
        "{:?}",
        began.elapsed()
    );

    let (tether, workspace) = connect(Greeting::Proper).await.unwrap();
    let content = vec![7; 20_000_000];
    workspace.put("slow", &content);
    let began = tokio::time::Instant::now();
    let mut file = tether.read(b"slow", 0, u64::MAX).await.unwrap();
    let mut count = 0;
    while let Some(bytes) = file.next().await.unwrap() {
        count += bytes.len();
    }
    assert_eq!(count, content.len());
    assert!(began.elapsed() > 5 * STALL_DEADLINE);
}

#[tokio::test]
async fn a_lost_connection_fails_what_is_asked_of_it() {
    let (tether, _) = tether().await;
    let _ = run(&tether, "lie vanish").await;
    tether.lost().await;
    assert!(matches!(
        run(&tether, "out x").await,
        Err(TetherError::Lost)
    ));
    assert!(matches!(
        tether.list(b"", 1, Hidden::Skip).await,
        Err(TetherError::Lost)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_silent_guest_is_given_up_in_time() {
    let asked = Instant::now();
    let silent = connect(Greeting::Silent).await;
    assert!(matches!(silent, Err(TetherError::HelloTimeout)));
    assert!(asked.elapsed() < 2 * HELLO_DEADLINE);
}

#[tokio::test]
async fn another_guest_than_ours_is_refused() {
    let other = connect(Greeting::OtherProtocol).await;
    assert!(matches!(
        other,
        Err(TetherError::Violation(Violation::Protocol))
    ));
}

#[tokio::test]
async fn a_guest_that_opens_streams_is_given_up() {
    assert!(matches!(
        connect(Greeting::OpensStream).await,
        Err(TetherError::Lost)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_answers_no_ping_is_lost_in_time() {
    let (tether, _) = connect(Greeting::NoPongs).await.unwrap();
    let greeted = Instant::now();
    tether.lost().await;
    assert!(greeted.elapsed() < Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_answers_pings_is_kept() {
    let (tether, _) = tether().await;
    let lost = tokio::time::timeout(Duration::from_hours(1), tether.lost()).await;
    assert!(lost.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_heeds_nothing_leaves_the_decision_to_the_caller() {
    let (tether, _) = tether().await;
    let mut run = tether.run(spec("lie stubborn"), None).await.unwrap();
    assert_eq!(
        run.next().await.unwrap(),
        Some(RunEvent::Started { warm: false })
    );
    let waited = tokio::time::timeout(Duration::from_mins(10), run.next()).await;
    assert!(waited.is_err());
}

#[tokio::test]
async fn dropping_a_tether_ends_its_guest() {
    let (tether, _) = tether().await;
    let mut run = tether.run(spec("hang"), None).await.unwrap();
    assert_eq!(
        run.next().await.unwrap(),
        Some(RunEvent::Started { warm: false })
    );
    drop(tether);
    assert!(matches!(run.next().await, Err(TetherError::Lost)));
}

fn warm_spec(word: &str) -> WarmSpec {
    WarmSpec {
        argv: vec![word.to_owned()],
        env: Vec::new(),
        cwd: "/workspace".to_owned(),
        nproc: None,
    }
}

/// What the first event of a run says of the interpreter.
async fn is_warm(
    tether: &Tether,
    script: &str,
    warm: Option<Handover>,
) -> Result<bool, TetherError> {
    let spec = RunSpec {
        warm,
        ..spec(script)
    };
    let mut run = tether.run(spec, None).await?;
    let first = run.next().await?;
    hear(&mut run).await?;
    match first {
        Some(RunEvent::Started { warm }) => Ok(warm),
        other => panic!("{other:?}"),
    }
}

fn handover() -> Handover {
    Handover { args: Vec::new() }
}

#[tokio::test]
async fn one_run_gets_the_interpreter_that_waits() {
    let (tether, _) = tether().await;
    assert!(!is_warm(&tether, "exit 0", Some(handover())).await.unwrap());
    let answer = tether.warm_up(warm_spec("scripted")).await.unwrap();
    assert_eq!(answer, FromWarm::Ready);
    assert!(is_warm(&tether, "exit 0", Some(handover())).await.unwrap());
    assert!(!is_warm(&tether, "exit 0", Some(handover())).await.unwrap());
    tether.warm_up(warm_spec("scripted")).await.unwrap();
    assert!(!is_warm(&tether, "exit 0", None).await.unwrap());
    assert!(!is_warm(&tether, "exit 0", Some(handover())).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_interpreter_that_will_not_wait_is_no_fault_of_the_sandbox() {
    let (tether, _) = tether().await;
    for word in ["fail", "stall"] {
        let answer = tether.warm_up(warm_spec(word)).await.unwrap();
        assert_eq!(answer, FromWarm::Failed, "{word}");
    }
    assert!(!is_warm(&tether, "exit 0", Some(handover())).await.unwrap());
}

#[tokio::test]
async fn a_guest_that_lies_about_waiting_is_given_up() {
    for (word, violation) in [
        ("lie/twice", Violation::Order),
        ("lie/bytes", Violation::Frame),
    ] {
        let (tether, _) = tether().await;
        let error = tether.warm_up(warm_spec(word)).await.unwrap_err();
        assert!(
            matches!(error, TetherError::Violation(found) if found == violation),
            "{word}: {error:?}"
        );
        tether.lost().await;
    }
    let (tether, _) = tether().await;
    tether.warm_up(warm_spec("lie/always")).await.unwrap();
    let error = is_warm(&tether, "exit 0", None).await.unwrap_err();
    assert!(matches!(error, TetherError::Violation(Violation::Order)));
}
