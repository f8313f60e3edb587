//! PID 1 and the programs beside it: what a program can do to the guest, and what becomes of a program.
//!
//! These facts hold under every runtime. Under runc the kernel keeps a program from PID 1; under gVisor PID 1 is a
//! process like any other, and each program has an init of its own, which it may well end: then its own run ends.

use belljar::{
    engine::{
        Sandbox,
        tether::{
            RunEvent,
            message::{EndedBy, ExitStatus, RunSpec, StdinKind},
        },
    },
    types::LimitsRequest,
};

use crate::support::{BASH, PYTHON, Ran, World, bash, hear, permit, python, run, runtime, spec};

/// What no helper of these tests knows by itself: names and numbers of calls, and how to try them.
const PRELUDE: &str = include_str!("init/prelude.py");

fn under_gvisor() -> bool {
    runtime().is_some_and(|name| name.contains("runsc"))
}

async fn alive(sandbox: &Sandbox, after: &str) {
    assert_eq!(bash(sandbox, "echo alive").await.ok(), "alive\n", "{after}");
}

/// A Python program, after [`PRELUDE`].
async fn probe(sandbox: &Sandbox, program: &str) -> Ran {
    python(sandbox, &format!("{PRELUDE}\n{program}")).await
}

#[tokio::test]
async fn no_signal_reaches_the_guest() {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    for signal in [
        "TERM", "SEGV", "USR1", "HUP", "XFSZ", "CHLD", "TSTP", "STOP",
    ] {
        let script = format!("kill -{signal} 1; kill -{signal} 1; echo survived; exit 3");
        let ran = bash(&sandbox, &script).await;
        assert_eq!(ran.stdout, "survived\n", "{signal}: {ran:?}");
        assert_eq!(ran.exit.status, ExitStatus::Code(3), "{signal}");
        alive(&sandbox, signal).await;
    }
    let ran = bash(
        &sandbox,
        "sleep 1000 & kill -9 -1; wait $!; echo $?; exit 3",
    )
    .await;
    assert_eq!(
        ran.stdout, "137\n",
        "everything but itself and PID 1: {ran:?}"
    );
    assert_eq!(ran.exit.status, ExitStatus::Code(3));
    alive(&sandbox, "kill -9 -1").await;
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn who_kills_pid_1_ends_no_more_than_its_own_run() {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    // A program that ignores what can be ignored, and a process of another session that holds a lock.
    let script = "(trap '' TERM HUP; setsid flock lock sleep 1000 &) ; echo before
                  until ! flock -n lock true; do :; done
                  kill -9 1; read -t 2 < <(sleep 1000); echo after; exit 3";
    let ran = bash(&sandbox, script).await;
    let (said, status) = if under_gvisor() {
        ("before\n", ExitStatus::Signal(9))
    } else {
        ("before\nafter\n", ExitStatus::Code(3))
    };
    assert_eq!(
        (ran.stdout.as_str(), ran.exit.status),
        (said, status),
        "{ran:?}"
    );
    assert_eq!(ran.exit.ended_by, EndedBy::Itself);
    // Whoever held the lock is gone, whatever the next program can see.
    assert_eq!(
        bash(&sandbox, "flock -n lock echo free").await.ok(),
        "free\n"
    );
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn who_stops_pid_1_is_ended_at_the_deadline() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let program = "import os\nprint('stopping', flush=True)\nwhile True: os.kill(1, 19)";
    let spec = RunSpec {
        timeout_ms: 2_000,
        ..spec(&["python3", "-c", program])
    };
    let ran = hear(&mut sandbox.run(spec, None).await.unwrap()).await;
    assert_eq!(ran.exit.ended_by, EndedBy::Deadline, "{ran:?}");
    assert_eq!(ran.stdout, "stopping\n");
    alive(&sandbox, "PID 1 was stopped again and again").await;
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn a_program_sees_nothing_of_the_guest() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let seen = probe(
        &sandbox,
        "print(sorted(pids()) == sorted({1, os.getpid()}))",
    )
    .await;
    assert_eq!(seen.ok(), "True\n");
    // Its descriptors are the connection to the server.
    let fds = probe(&sandbox, "print(*channels(1))").await;
    assert_eq!(fds.ok(), "\n", "pipes and files of PID 1");
    let spoiled = probe(&sandbox, "print(spoil(1)); sys.exit(3)").await;
    assert_eq!(spoiled.exit.status, ExitStatus::Code(3), "{spoiled:?}");
    alive(&sandbox, "whatever could be opened of PID 1 was written to").await;
    let into =
        "print(attach(1), *(refused(open, f'/proc/1/{name}', 'rb') for name in ('mem', 'exe')))";
    assert_eq!(probe(&sandbox, into).await.ok(), "EPERM EACCES EACCES\n");
    let secret = "a variable of an earlier run";
    run(&sandbox, &["env", &format!("EARLIER={secret}"), "true"])
        .await
        .ok();
    let text = probe(&sandbox, "print(readable(1, 'environ'))").await.ok();
    let names: Vec<_> = text
        .trim_start_matches("b'")
        .split("\\x00")
        .filter_map(|one| Some(one.split_once('=')?.0))
        .collect();
    // Of the container itself; Docker adds two.
    let known = ["PATH", "HOSTNAME", "HOME"];
    assert!(names.iter().all(|name| known.contains(name)), "{text}");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn no_namespace_lifts_a_bound_or_uncovers_the_guest() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let tried = probe(
        &sandbox,
        "for name, error in namespaces(): print(name, error)\nprint(working())",
    );
    assert_eq!(
        tried.await.ok(),
        "unshare user EPERM\nunshare mount EPERM\nunshare pid EPERM\nclone user EPERM\n\
         clone pid EPERM\nsetns EPERM\nclone3 ENOSYS\nmount EPERM\numount EPERM\n['process', 'thread']\n"
    );
    let status = bash(&sandbox, "grep -E '^Cap' /proc/self/status")
        .await
        .ok();
    assert!(status.lines().count() >= 4, "{status}");
    for line in status.lines() {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn a_fork_bomb_keeps_to_its_limit_and_its_output() {
    let world = World::new();
    let limits = LimitsRequest {
        pids: Some(32),
        ..LimitsRequest::default()
    };
    let sandbox = world.engine.launch(&permit(PYTHON, limits)).await.unwrap();
    // PID 1 and the program itself are two of them.
    let counted = probe(&sandbox, "print('before', flush=True); print(fill())").await;
    assert_eq!(counted.ok(), "before\n30 EAGAIN\n");
    let threads = probe(&sandbox, "print(fill_with_threads())").await;
    assert_eq!(threads.ok(), "30\n");
    let bomb = RunSpec {
        timeout_ms: 3_000,
        ..spec(&["bash", "-c", "echo before; f() { f | f & }; f; sleep 1000"])
    };
    let ran = hear(&mut sandbox.run(bomb, None).await.unwrap()).await;
    assert_eq!(
        (ran.stdout.as_str(), ran.exit.ended_by),
        ("before\n", EndedBy::Deadline)
    );
    alive(&sandbox, "a fork bomb").await;
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn a_program_s_end_is_told_as_it_was() {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    for (script, status) in [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 7", ExitStatus::Code(7)),
        ("exit 255", ExitStatus::Code(255)),
        ("kill -9 $$", ExitStatus::Signal(9)),
        ("kill -TERM $$", ExitStatus::Signal(15)),
        ("kill -SEGV $$", ExitStatus::Signal(11)),
        ("kill -ABRT $$; sleep 9", ExitStatus::Signal(6)),
        ("(exit 5) & wait $!; exit $?", ExitStatus::Code(5)),
        // A process that the program leaves behind has no say in it.
        ("(sleep 0.05; exit 9) & exit 4", ExitStatus::Code(4)),
    ] {
        let ran = bash(&sandbox, script).await;
        assert_eq!(
            (ran.exit.status, ran.exit.ended_by),
            (status, EndedBy::Itself),
            "{script}"
        );
    }
    // A session and a group of its own, no signal blocked or ignored, nothing inherited.
    let ran = bash(
        &sandbox,
        "echo $$ $(ps -o sid=,pgid= -p $$); grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '",
    );
    let said = ran.await.ok();
    let mut lines = said.lines();
    let numbers: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert!(numbers.iter().all(|number| number == &numbers[0]), "{said}");
    let signals: Vec<_> = lines
        .by_ref()
        .take_while(|line| line.starts_with("Sig"))
        .collect();
    assert!(
        signals
            .iter()
            .all(|line| line.ends_with("\t0000000000000000")),
        "{said}"
    );
    assert!(
        said.ends_with("0 1 2 3 "),
        "the last is that of `ls`: {said}"
    );
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn a_kill_ends_everything_and_counts_what_was_used() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    // Before it says so, the program has used three tenths of a second itself, and a child of another session holds
    // a lock and ignores what can be ignored.
    let program = "
for number in set(range(1, 65)) - {9, 17, 18, 19, 32, 33}: signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    lock = open('/workspace/lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX)
    while True: time.sleep(1)
while refused(hold, '/workspace/lock') is None: pass
while time.process_time() < 0.3: pass
print('before', flush=True)
while True: time.sleep(1)";
    let program = format!("{PRELUDE}\n{program}");
    let spec = spec(&["python3", "-c", &program]);
    let mut running = sandbox.run(spec, None).await.unwrap();
    while !matches!(running.next().await.unwrap(), Some(RunEvent::Stdout(_))) {}
    running.killer().kill().await.unwrap();
    let ran = hear(&mut running).await;
    assert_eq!(
        (ran.exit.status, ran.exit.ended_by),
        (ExitStatus::Signal(9), EndedBy::Killed)
    );
    assert!(ran.exit.cpu_us > 200_000, "{ran:?}");
    let free = probe(&sandbox, "print(refused(hold, '/workspace/lock'))").await;
    assert_eq!(free.ok(), "None\n", "nobody holds the lock");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn nothing_of_a_run_is_left_for_the_next() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let program = "
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        lock = open('/workspace/lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX)
        while True: time.sleep(1)
    os._exit(0)
while refused(hold, '/workspace/lock') is None: pass
share(); open('/workspace/kept', 'w').write('by the first'); print('ended')";
    assert_eq!(probe(&sandbox, program).await.ok(), "ended\n");
    let next = "print(refused(hold, '/workspace/lock'), shared(), open('/workspace/kept').read())";
    assert_eq!(
        probe(&sandbox, next).await.ok(),
        "None False by the first\n"
    );
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn standard_input_arrives_whole_and_may_be_left_unread() {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    let given = |script: &str| RunSpec {
        stdin: StdinKind::Stream,
        ..spec(&["bash", "-c", script])
    };
    let input = vec![b'i'; 2_000_000];
    for (script, said) in [
        ("wc -c; echo done", "2000000\ndone\n"),
        ("head -c 1 | wc -c", "1\n"),
        ("exec <&-; echo closed", "closed\n"),
    ] {
        let mut running = sandbox
            .run(given(script), Some(input.clone().into()))
            .await
            .unwrap();
        assert_eq!(hear(&mut running).await.ok(), said, "{script}");
    }
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn a_program_is_who_it_was_and_files_are_its_own() {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    let uid = sandbox.uid();
    sandbox
        .write(b"given/in.txt", 5, &b"given"[..])
        .await
        .unwrap();
    let script = "id -u; id -g; id -G; cat given/in.txt; echo changed > given/in.txt
                  for d in . /tmp /dev/shm given \"$HOME\"; do echo x > $d/x && stat -c '%u %g %a' $d/x; done
                  stat -c '%u %g' given given/in.txt /workspace; readlink /proc/self/cwd; umask";
    let mut expected = format!("{uid}\n{uid}\n{uid}\ngiven");
    expected += &format!("{uid} {uid} 644\n").repeat(5);
    expected += &format!("{uid} {uid}\n").repeat(3);
    expected += "/workspace\n0022\n";
    assert_eq!(bash(&sandbox, script).await.ok(), expected);
    let mut file = sandbox.read(b"given/in.txt", 0, u64::MAX).await.unwrap();
    assert_eq!(file.next().await.unwrap().unwrap(), "changed\n");
    drop(file);
    // And what the program took rights from is the guest's again.
    bash(&sandbox, "chmod 0 given/x /workspace").await.ok();
    alive(&sandbox, "chmod 0 /workspace").await;
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn what_cannot_be_started_is_said_so() {
    use belljar::engine::tether::{TetherError, message::GuestError};
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    for (argv, expected) in [
        (&["no-such-command"][..], GuestError::Spawn { errno: 2 }),
        (&["/etc/passwd"], GuestError::Spawn { errno: 13 }),
        (&["echo", "a\0b"], GuestError::Malformed),
        (&[], GuestError::Malformed),
    ] {
        let mut running = sandbox.run(spec(argv), None).await.unwrap();
        let error = running.next().await.unwrap_err();
        assert!(
            matches!(error, TetherError::Guest(found) if found == expected),
            "{error:?}"
        );
        alive(&sandbox, "a failed start").await;
    }
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}
