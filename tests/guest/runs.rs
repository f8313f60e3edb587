//! Programs: what they are given, what becomes of them and of what they say.

use belljar::engine::tether::RunEvent;
use belljar::engine::tether::message::{EndedBy, ExitStatus, GuestError, InlineFile, RunSpec};

use crate::harness::{Sandbox, guest_error, hear, spec};

#[tokio::test]
async fn a_program_gets_exactly_what_it_was_given() {
    let sandbox = Sandbox::start().await;
    assert_eq!(sandbox.tether.ready().uid, 54_040);
    let said = sandbox
        .run(
            "echo $1; pwd; cat; ls -A; ls /proc/self/fd | tr '\\n' ' '; cat /proc/self/oom_score_adj
             ulimit -c; umask; env -i /usr/bin/env; grep -E 'SigBlk|SigIgn' /proc/self/status
             ps -o sid= -p $$ | tr -d ' '; echo $$; exit 7",
        )
        .await;
    let out = said.out();
    let lines: Vec<&str> = out.lines().collect();
    // Descriptor 3 is `ls` reading the directory.
    assert_eq!(
        lines[..4],
        ["argument", "/workspace", ".home", ".main.sh"],
        "{said:?}"
    );
    assert_eq!(
        lines[4..8],
        ["0 1 2 3 1000", "0", "0022", "SigBlk:\t0000000000000000"]
    );
    assert_eq!(lines[8], "SigIgn:\t0000000000000000");
    assert_eq!(lines[9], lines[10], "leader of its own session");
    assert_eq!(said.exit().status, ExitStatus::Code(7));
    assert_eq!(said.exit().ended_by, EndedBy::Itself);
    assert!(said.exit().cpu_us > 0 && said.exit().peak_rss_bytes > 0);
    assert!(said.files.is_empty());
}

#[tokio::test]
async fn the_environment_is_exact_and_the_program_is_gone_afterwards() {
    let sandbox = Sandbox::start().await;
    let mut env_only = spec("");
    env_only.argv = vec!["env".to_owned()];
    let said = hear(&mut sandbox.begin(env_only).await).await.unwrap();
    assert_eq!(
        said.out(),
        "HOME=/workspace/.home\nPATH=/usr/local/bin:/usr/bin:/bin\n"
    );
    assert_eq!(sandbox.refused(".main.sh").await, GuestError::NotFound);
}

#[tokio::test]
async fn nothing_outlives_its_run_nor_holds_up_its_end() {
    let sandbox = Sandbox::start().await;
    let script = "trap '' TERM HUP; (setsid bash -c 'trap \"\" TERM; sleep 1000' &)
                  sleep 1000 & disown; kill -STOP $!; echo started";
    assert_eq!(sandbox.run(script).await.out(), "started\n");
    // What runs now: PID 1 and this shell.
    let said = sandbox
        .run("all=(/proc/[0-9]*); echo ${#all[@]}; pgrep sleep")
        .await;
    assert_eq!(said.out(), "2\n");
}

#[tokio::test]
async fn a_deadline_and_a_kill_end_what_ignores_signals_and_keep_its_output() {
    let sandbox = Sandbox::start().await;
    let script = "trap '' TERM INT HUP; echo before; while :; do sleep 1; done";
    let said = hear(
        &mut sandbox
            .begin(RunSpec {
                timeout_ms: 500,
                ..spec(script)
            })
            .await,
    )
    .await;
    let said = said.unwrap();
    assert_eq!(
        (said.out().as_str(), said.exit().ended_by),
        ("before\n", EndedBy::Deadline)
    );
    assert_eq!(said.exit().status, ExitStatus::Signal(9));

    let mut run = sandbox.begin(spec(script)).await;
    while !matches!(run.next().await.unwrap(), Some(RunEvent::Stdout(_))) {}
    run.killer().kill().await.unwrap();
    assert_eq!(
        hear(&mut run).await.unwrap().exit().ended_by,
        EndedBy::Killed
    );

    // Dropping a run kills it as well; the next one waits for nothing but that.
    drop(sandbox.begin(spec(script)).await);
    loop {
        match hear(&mut sandbox.begin(spec("echo next")).await).await {
            Ok(said) => break assert_eq!(said.out(), "next\n"),
            Err(error) => assert_eq!(guest_error(error), GuestError::Busy),
        }
    }
}

#[tokio::test]
async fn output_arrives_whole_and_standard_input_too() {
    let sandbox = Sandbox::start().await;
    let said = sandbox
        .run("head -c 50000000 /dev/zero; echo error >&2")
        .await;
    assert_eq!(
        (said.stdout.len(), said.stderr.as_slice()),
        (50_000_000, &b"error\n"[..])
    );
    let input = vec![b'i'; 2_000_000];
    let counting = spec("wc -c; echo done");
    let mut run = sandbox
        .tether
        .run(counting, Some(input.into()))
        .await
        .unwrap();
    assert_eq!(hear(&mut run).await.unwrap().out(), "2000000\ndone\n");
}

#[tokio::test]
async fn what_cannot_be_started_is_said_so() {
    let sandbox = Sandbox::start().await;
    let failed = async |change: fn(&mut RunSpec)| {
        let mut spec = spec("");
        change(&mut spec);
        guest_error(hear(&mut sandbox.begin(spec).await).await.unwrap_err())
    };
    let missing = failed(|spec| spec.argv = vec!["no-such-command".to_owned()]).await;
    assert_eq!(missing, GuestError::Spawn { errno: 2 });
    assert_eq!(
        failed(|spec| spec.argv = Vec::new()).await,
        GuestError::Malformed
    );
    assert_eq!(
        failed(|spec| spec.argv[1] = "a\0b".to_owned()).await,
        GuestError::Malformed
    );
    let outside = failed(|spec| {
        spec.files = vec![InlineFile {
            path: b"../x".to_vec(),
            bytes: Vec::new(),
        }];
    });
    assert_eq!(outside.await, GuestError::OutsideWorkspace);
    assert_eq!(sandbox.run("echo fine").await.out(), "fine\n");
}
