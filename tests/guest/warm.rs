//! An interpreter that waits: what it is told, and that a run works whatever becomes of it.

use belljar::engine::tether::message::{EndedBy, ExitStatus, Handover, RunSpec, WarmSpec};
use belljar::engine::tether::{FromWarm, Run, RunEvent};

use crate::harness::{Said, Sandbox, hear, spec};

/// Bash in the place of an interpreter with a hook: this script is what it does while it waits and after.
fn waiting(script: &str) -> WarmSpec {
    let RunSpec { env, cwd, .. } = spec("");
    WarmSpec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        env,
        cwd,
        nproc: None,
    }
}

fn warm(script: &str, args: &[&str]) -> RunSpec {
    RunSpec {
        warm: Some(Handover {
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        }),
        ..spec(script)
    }
}

/// Whether the one that waited was used, and what was said.
async fn follow(mut run: Run) -> (bool, Said) {
    let first = run.next().await.unwrap();
    let Some(RunEvent::Started { warm }) = first else {
        panic!("{first:?}")
    };
    (warm, hear(&mut run).await.unwrap())
}

async fn run(sandbox: &Sandbox, spec: RunSpec) -> (bool, String) {
    let (warm, said) = follow(sandbox.begin(spec).await).await;
    assert_eq!(said.exit().status, ExitStatus::Code(0), "{said:?}");
    (warm, said.out())
}

const TELL: &str = "echo chatter; printf r >&3; cat <&3 | tr '\\0' '|'; ls -A /workspace | tail -1; cat <&4; \
                    ls /proc/self/fd | tr '\\n' ' '; ulimit -c; ps -o sid= -p $$ | grep -qw $$ && echo leader";

#[tokio::test]
async fn the_one_that_waits_is_told_of_its_program() {
    let sandbox = Sandbox::start().await;
    let answer = sandbox.tether.warm_up(waiting(TELL)).await.unwrap();
    assert_eq!(answer, FromWarm::Ready);
    let asked = warm("unused", &["a b", ""]);
    let run = sandbox
        .tether
        .run(asked, Some("in\n".into()))
        .await
        .unwrap();
    let (warm, said) = follow(run).await;
    assert!(warm);
    // The program is there before the word; what was printed before it is not the program's.
    assert_eq!(
        said.out(),
        "1|2|a b||PATH=/usr/local/bin:/usr/bin:/bin|HOME=/workspace/.home|.main.sh\nin\n0 1 2 3 4 5 0\nleader\n",
        "{said:?}"
    );
    assert!(said.exit().cpu_us > 0);
}

#[tokio::test]
async fn the_time_of_the_warm_up_is_not_the_programs() {
    let sandbox = Sandbox::start().await;
    let script =
        "for ((i = 0; i < 300000; i++)); do :; done; printf r >&3; read -r -N 1 -u 3 x; sleep 0.1";
    sandbox.tether.warm_up(waiting(script)).await.unwrap();
    let (warm, said) = follow(sandbox.begin(warm("unused", &[])).await).await;
    let long = follow(
        sandbox
            .begin(spec("for ((i = 0; i < 300000; i++)); do :; done"))
            .await,
    )
    .await;
    assert!(warm && !long.0);
    assert!(
        said.exit().cpu_us * 2 < long.1.exit().cpu_us,
        "{said:?} {long:?}"
    );
}

#[tokio::test]
async fn whatever_is_wrong_with_the_one_that_waits_the_run_gets_its_own() {
    let sandbox = Sandbox::start().await;
    let large = "x".repeat(100_000);
    let large = [large.as_str(), &large, &large, &large];
    for (why, script, answer, args) in [
        ("it ended", "exit 3", FromWarm::Failed, &[][..]),
        (
            "it says something else",
            "printf x >&3; sleep 100",
            FromWarm::Failed,
            &[],
        ),
        (
            "it shuts the door",
            "exec 3<&-; sleep 100",
            FromWarm::Failed,
            &[],
        ),
        (
            "it died while it waited",
            "printf r >&3; kill -9 $$",
            FromWarm::Ready,
            &[],
        ),
        (
            "it reads nothing",
            "printf r >&3; sleep 100",
            FromWarm::Ready,
            &large,
        ),
    ] {
        let got = sandbox.tether.warm_up(waiting(script)).await.unwrap();
        assert_eq!(got, answer, "{why}");
        if why.contains("died") {
            // Until the kernel has seen to it.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        let counting = "all=(/proc/[0-9]*); echo ${#all[@]}";
        let (used, out) = run(&sandbox, warm(counting, args)).await;
        assert_eq!((used, out.as_str()), (false, "2\n"), "{why}");
    }
    let missing = WarmSpec {
        argv: vec!["no-such-command".to_owned()],
        ..waiting("")
    };
    let got = sandbox.tether.warm_up(missing).await.unwrap();
    assert_eq!(got, FromWarm::Failed);
    assert_eq!(run(&sandbox, warm("echo fine", &[])).await.1, "fine\n");
}

#[tokio::test]
async fn the_deadline_counts_from_the_program_and_ends_the_one_that_waited() {
    let sandbox = Sandbox::start().await;
    let script =
        "trap '' TERM; printf r >&3; read -r -N 1 -u 3 x; echo begun; while :; do sleep 1; done";
    sandbox.tether.warm_up(waiting(script)).await.unwrap();
    let asked = RunSpec {
        timeout_ms: 500,
        ..warm("unused", &[])
    };
    let (warm, said) = follow(sandbox.begin(asked).await).await;
    assert!(warm);
    assert_eq!(
        (said.out().as_str(), said.exit().ended_by),
        ("begun\n", EndedBy::Deadline)
    );
    assert_eq!(
        run(&sandbox, spec("echo next")).await,
        (false, "next\n".to_owned())
    );
}
