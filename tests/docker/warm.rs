//! Programs in an interpreter that waited, against the same programs in a new one: nobody may tell the two apart.
//!
//! The programs are in `warm/`, one file a language. Each runs both ways, each way in a sandbox that has seen the same
//! programs before, and what they print and how they end must be equal to the byte, but for addresses.

use std::collections::BTreeMap;

use belljar::{
    config::{FileOrigin, Settings, machine_cpus},
    engine::{
        Sandbox,
        tether::{
            FromWarm, RunEvent,
            message::{Collect, Exit, ExitStatus, Handover, InlineFile, RunId, RunSpec, StdinKind},
        },
    },
    policy::{Policy, RunAsk, RunPlan, Start, WORKSPACE},
    types::Caller,
};

use crate::support::{World, bash, container};

const PYTHON: &str = include_str!("warm/python.txt");

/// A program of the corpus.
#[derive(Debug, Default)]
struct Case {
    name: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    stdin: Option<String>,
    file: Option<(String, String)>,
    code: String,
}

/// Reads a corpus: `### name`, then lines `#! key: value`, then the code.
fn cases(text: &str) -> Vec<Case> {
    text.split("### ")
        .filter(|part| !part.trim().is_empty())
        .map(|part| {
            let (name, rest) = part.split_once('\n').unwrap();
            let mut case = Case {
                name: name.to_owned(),
                ..Case::default()
            };
            for line in rest.split_inclusive('\n') {
                let Some(directive) = line.strip_prefix("#! ") else {
                    case.code.push_str(line);
                    continue;
                };
                let (key, value) = directive.trim_end_matches('\n').split_once(": ").unwrap();
                let value = value
                    .replace("\\n", "\n")
                    .replace("\\r", "\r")
                    .replace("\\0", "\0");
                let mut pair = value.splitn(2, '=').map(str::to_owned);
                match key {
                    "args" => case.args = value.split('|').map(str::to_owned).collect(),
                    "env" => {
                        case.env = value
                            .split('|')
                            .filter_map(|one| one.split_once('='))
                            .map(|(name, value)| (name.to_owned(), value.to_owned()))
                            .collect();
                    }
                    "stdin" => case.stdin = Some(value),
                    "file" => case.file = pair.next().zip(pair.next()),
                    "code" => case.code.push_str(&value),
                    other => panic!("{other}"),
                }
            }
            case
        })
        .collect()
}

fn policy() -> Policy {
    Policy::new(&Settings::parse("", FileOrigin::BuiltIn, machine_cpus()).unwrap())
}

fn plan(language: &str, case: &Case) -> RunPlan {
    let ask = RunAsk {
        language: language.to_owned(),
        code: case.code.clone(),
        args: case.args.clone(),
        env: case.env.clone(),
        stdin: case.stdin.clone(),
        ..RunAsk::default()
    };
    let (_, plan) = policy().fresh_run(&Caller::Local, ask).unwrap();
    plan.action().clone()
}

/// A sandbox of the kind that a program with this word gets.
async fn launch(world: &World, language: &str, hint: &str) -> Sandbox {
    let ask = RunAsk {
        language: language.to_owned(),
        code: hint.to_owned(),
        ..RunAsk::default()
    };
    let (launch, _) = policy().fresh_run(&Caller::Local, ask).unwrap();
    world.engine.launch(&launch).await.unwrap()
}

/// What a program did.
#[derive(Debug, PartialEq, Eq)]
struct Did {
    warm: bool,
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

async fn run(sandbox: &Sandbox, plan: &RunPlan, file: Option<&(String, String)>) -> Did {
    run_to_end(sandbox, plan, file).await.0
}

/// The same, with what the guest says of its end.
async fn run_to_end(
    sandbox: &Sandbox,
    plan: &RunPlan,
    file: Option<&(String, String)>,
) -> (Did, Exit) {
    let spec = RunSpec {
        id: RunId(0),
        stdin: StdinKind::Null,
        argv: plan.argv.clone(),
        env: plan.environment(sandbox.uid(), sandbox.image_path(), &BTreeMap::new()),
        cwd: WORKSPACE.to_owned(),
        program: Some(InlineFile {
            path: plan.program.as_bytes().to_vec(),
            bytes: plan.code.clone().into_bytes(),
        }),
        files: file
            .iter()
            .map(|(path, text)| InlineFile {
                path: path.clone().into_bytes(),
                bytes: text.clone().into_bytes(),
            })
            .collect(),
        timeout_ms: 60_000,
        nproc: None,
        collect: Collect {
            skip_dirs: Vec::new(),
            max_files: 0,
        },
        warm: match plan.start {
            Start::Warm => Some(Handover {
                args: plan.argv[plan.argv.len() - plan.args..].to_vec(),
            }),
            Start::Cold => None,
        },
    };
    let stdin = plan.stdin.clone().map(Into::into);
    let mut run = sandbox.run(spec, stdin).await.unwrap();
    let (mut stdout, mut stderr, mut used, mut exit) = (Vec::new(), Vec::new(), None, None);
    while let Some(event) = run.next().await.unwrap() {
        match event {
            RunEvent::Started { warm } => used = Some(warm),
            RunEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            RunEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            RunEvent::NewFile(_) => {}
            RunEvent::Exited(ended) => exit = Some(ended),
        }
    }
    let exit = exit.unwrap();
    let did = Did {
        warm: used.unwrap(),
        status: exit.status,
        stdout: plain(&stdout),
        stderr: plain(&stderr),
    };
    (did, exit)
}

/// Without what differs from one process to the next anyway: addresses.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("0x");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("0x…");
        plain.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    }
    plain
}

async fn nobody_can_tell(language: &str, hint: &str, corpus: &str, always_cold: &[&str]) {
    let world = World::new();
    let (warm, cold) = tokio::join!(
        launch(&world, language, hint),
        launch(&world, language, hint)
    );
    let mut differing = Vec::new();
    for case in cases(corpus) {
        let plan = plan(language, &case);
        let cold_plan = RunPlan {
            start: Start::Cold,
            ..plan.clone()
        };
        assert_eq!(warm.warm_up().await.unwrap(), FromWarm::Ready);
        let (a, b) = tokio::join!(
            run(&warm, &plan, case.file.as_ref()),
            run(&cold, &cold_plan, case.file.as_ref())
        );
        let should = !always_cold.contains(&case.name.as_str());
        assert_eq!((a.warm, b.warm), (should, false), "{}", case.name);
        let b = Did { warm: a.warm, ..b };
        if a != b {
            differing.push(format!("### {}\nwarm {a:#?}\ncold {b:#?}", case.name));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    for sandbox in [warm, cold] {
        sandbox.destroy().await.unwrap();
    }
    world.engine.close().await;
}

#[tokio::test]
async fn nobody_can_tell_a_bare_python_that_waited() {
    nobody_can_tell("python", "x", PYTHON, &[]).await;
}

#[tokio::test]
async fn nobody_can_tell_a_python_that_waited_with_the_core() {
    nobody_can_tell("python", "import", PYTHON, &[]).await;
}

#[tokio::test]
async fn nobody_can_tell_a_python_that_waited_with_the_standard_library() {
    nobody_can_tell("python", "asyncio", PYTHON, &[]).await;
}

#[tokio::test]
async fn nobody_can_tell_a_python_that_waited_with_science() {
    nobody_can_tell("python", "numpy", PYTHON, &[]).await;
}

#[tokio::test]
async fn nobody_can_tell_a_node_that_waited() {
    nobody_can_tell("javascript", "x", include_str!("warm/javascript.txt"), &[]).await;
}

#[tokio::test]
async fn nobody_can_tell_a_bash_that_waited() {
    nobody_can_tell("bash", "x", include_str!("warm/bash.txt"), &[]).await;
}

async fn simple(sandbox: &Sandbox, code: &str, env: &[(&str, &str)]) -> Did {
    let case = Case {
        code: code.to_owned(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Case::default()
    };
    run(sandbox, &plan("python", &case), None).await
}

#[tokio::test]
async fn whatever_becomes_of_the_one_that_waits_the_run_works() {
    let world = World::new();
    let sandbox = launch(&world, "python", "numpy").await;
    let hello = "print('hello')";
    let expect = async |warm: bool, env: &[(&str, &str)], why: &str| {
        let did = simple(&sandbox, hello, env).await;
        assert_eq!((did.stdout.as_str(), did.warm), ("hello\n", warm), "{why}");
    };
    expect(false, &[], "nothing waits").await;
    assert_eq!(sandbox.warm_up().await.unwrap(), FromWarm::Ready);
    assert_eq!(
        sandbox.warm_up().await.unwrap(),
        FromWarm::Failed,
        "a second one"
    );
    expect(true, &[("A", "1")], "one waits").await;
    expect(false, &[], "it is used once").await;
    for name in ["PYTHONHASHSEED", "TZ", "OMP_NUM_THREADS"] {
        sandbox.warm_up().await.unwrap();
        expect(false, &[(name, "1")], name).await;
        expect(false, &[], "a run ends what waits").await;
    }
    // A run that does not wait for the one on its way.
    let (answer, did) = tokio::join!(sandbox.warm_up(), simple(&sandbox, hello, &[]));
    assert_eq!(answer.unwrap(), FromWarm::Failed);
    assert_eq!((did.stdout.as_str(), did.warm), ("hello\n", false));
    // Nor may one that nobody waits for any more stay.
    let dropped = tokio::time::timeout(std::time::Duration::from_millis(50), sandbox.warm_up());
    assert!(dropped.await.is_err());
    expect(false, &[], "it was dropped").await;
    let left = bash(&sandbox, "echo /proc/[0-9]*").await.ok();
    assert_eq!(left.split_whitespace().count(), 2, "{left}");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn the_time_of_the_warm_up_is_not_the_program_s() {
    let world = World::new();
    let sandbox = launch(&world, "python", "numpy").await;
    let case = Case {
        code: "import numpy, pandas".to_owned(),
        ..Case::default()
    };
    let plan = plan("python", &case);
    // Nothing waits: the program itself loads what the other one will have loaded before.
    let (cold, whole) = run_to_end(&sandbox, &plan, None).await;
    assert_eq!(sandbox.warm_up().await.unwrap(), FromWarm::Ready);
    let (warm, rest) = run_to_end(&sandbox, &plan, None).await;
    assert_eq!((cold.warm, warm.warm), (false, true));
    assert!(
        rest.cpu_us < whole.cpu_us / 2,
        "{} of {}",
        rest.cpu_us,
        whole.cpu_us
    );
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn two_that_waited_draw_other_numbers() {
    let world = World::new();
    let code = "import random, numpy as np, uuid, multiprocessing.process as p
print(random.random(), np.random.rand(), hash('a'), uuid.uuid4(), p.current_process().authkey.hex())";
    let mut seen = Vec::new();
    for _ in 0..2 {
        let sandbox = launch(&world, "python", "numpy").await;
        assert_eq!(sandbox.warm_up().await.unwrap(), FromWarm::Ready);
        let did = simple(&sandbox, code, &[]).await;
        assert!(did.warm && did.status == ExitStatus::Code(0), "{did:?}");
        seen.push(did.stdout);
        sandbox.destroy().await.unwrap();
    }
    for (a, b) in seen[0].split_whitespace().zip(seen[1].split_whitespace()) {
        assert_ne!(a, b);
    }
    world.engine.close().await;
}

#[tokio::test]
async fn a_program_keeps_the_memory_that_it_asked_for() {
    let world = World::new();
    let sandbox = launch(&world, "python", "numpy").await;
    let memory = container(&sandbox).await.host_config.unwrap().memory;
    // 512 for the program, its workspace, /tmp, /dev/shm, the guest, and the interpreter that waits.
    assert_eq!(memory, Some((512 + 256 + 64 + 64 + 32 + 112) << 20));
    sandbox.warm_up().await.unwrap();
    let code =
        "import numpy, pandas, matplotlib.pyplot\nb = bytearray(500 << 20)\nprint(len(b) >> 20)";
    let did = simple(&sandbox, code, &[]).await;
    assert_eq!((did.stdout.as_str(), did.warm), ("500\n", true), "{did:?}");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}
