//! Probes in a sandbox, over the tether, as any program is run.

use belljar::engine::{
    Sandbox,
    tether::{
        Run, RunEvent, TetherError,
        message::{Collect, RunId, RunSpec, StdinKind},
    },
};
use belljar_test_probes::{Probe, Programs};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{docker::PYTHON, plain::AGENT, probes::is, world::World};

/// Longest time of one run: all single probes are one. The agent bounds each probe.
const TIMEOUT_MS: u64 = 220_000;

/// The verdict of a probe that took its whole sandbox with it.
pub(crate) const LOST: &str = "LOST";

/// The verdict of each probe that is not about two containers. Those of a topic that are one program are one run; a sandbox
/// that is lost over one of them takes the rest of the topic with it, and the next topic has another.
pub(crate) async fn verdicts(world: &World, probes: &[&Probe], facts: &Value) -> Vec<String> {
    let mut sandbox = world.launch(PYTHON).await;
    let mut verdicts = Vec::new();
    for topic in probes.chunk_by(|one, next| one.topic == next.topic) {
        if sandbox.is_lost() {
            sandbox.destroy().await.unwrap();
            sandbox = world.launch(PYTHON).await;
        }
        let alone: Vec<&str> = topic.iter().filter_map(|probe| only_step(probe)).collect();
        let mut said = steps_of(&sandbox, &alone, facts).await.into_iter();
        for probe in topic {
            let mut verdict = match only_step(probe) {
                Some(_) => said.next().unwrap(),
                None => to_the_end(&sandbox, probe, facts).await,
            };
            if sandbox.is_lost() && !(is(&verdict, "HELD") || is(&verdict, "BREACHED")) {
                // What a probe comes to is what it comes to alone.
                println!("{}: {verdict} among others", probe.path());
                let alone = world.launch(PYTHON).await;
                verdict = to_the_end(&alone, probe, facts).await;
                alone.destroy().await.unwrap();
            }
            verdicts.push(verdict);
        }
    }
    sandbox.destroy().await.unwrap();
    verdicts
}

/// The program of a probe that has but one.
fn only_step(probe: &Probe) -> Option<&str> {
    match &probe.programs {
        Programs::Steps(steps) if steps.len() == 1 => Some(&steps[0]),
        Programs::Steps(_) | Programs::Pair { .. } => None,
    }
}

/// The verdict of a probe that may end its sandbox.
pub(crate) async fn to_the_end(sandbox: &Sandbox, probe: &Probe, facts: &Value) -> String {
    let Programs::Steps(steps) = &probe.programs else {
        panic!("{} needs two sandboxes", probe.path());
    };
    let mut verdict = String::new();
    for step in steps {
        verdict = one(sandbox, step, facts).await;
        if verdict == LOST {
            break;
        }
    }
    verdict
}

/// One run of the agent, with these programs; a verdict for each.
async fn steps_of(sandbox: &Sandbox, programs: &[&str], facts: &Value) -> Vec<String> {
    if programs.is_empty() {
        return Vec::new();
    }
    let Ok(mut run) = start(sandbox, facts, "run", programs).await else {
        return vec![LOST.to_owned(); programs.len()];
    };
    let mut end = "no verdict: ";
    let mut said = Vec::new();
    let mut complaint = Vec::new();
    loop {
        match run.next().await {
            Ok(Some(RunEvent::Stdout(bytes))) => said.extend_from_slice(&bytes),
            Ok(Some(RunEvent::Stderr(bytes))) => complaint.extend_from_slice(&bytes),
            Ok(Some(RunEvent::Exited(_) | RunEvent::Started { .. } | RunEvent::NewFile(_))) => {}
            Ok(None) => break,
            Err(TetherError::Lost) => {
                end = LOST;
                complaint.clear();
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut verdicts: Vec<String> = lines(&said);
    if verdicts.len() < programs.len() {
        // A program that ends its agent too leaves no verdict; its next step tells.
        verdicts.push(format!("{end}{}", String::from_utf8_lossy(&complaint)));
    }
    verdicts.resize(
        programs.len(),
        "no verdict: another's end came first".to_owned(),
    );
    verdicts
}

async fn start(
    sandbox: &Sandbox,
    facts: &Value,
    verb: &str,
    programs: &[&str],
) -> Result<Run, TetherError> {
    let mut input = format!("{facts}\n");
    for program in programs {
        input.push_str(&json!({ verb: program }).to_string());
        input.push('\n');
    }
    let spec = RunSpec {
        id: RunId(0),
        argv: ["python3", "-c", AGENT].map(str::to_owned).to_vec(),
        env: vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), "/workspace/.home".into()),
        ],
        cwd: "/workspace".into(),
        program: None,
        files: vec![],
        stdin: StdinKind::Stream,
        timeout_ms: TIMEOUT_MS,
        nproc: None,
        collect: Collect {
            skip_dirs: vec![],
            max_files: 0,
        },
        warm: None,
    };
    sandbox.run(spec, Some(Bytes::from(input))).await
}

/// A program in a sandbox that keeps what it took.
pub(crate) struct Holder(Run);

impl Holder {
    /// Returns once it has taken it; `None` where it took so much that its sandbox was lost.
    pub(crate) async fn start(sandbox: &Sandbox, program: &str, facts: &Value) -> Option<Self> {
        let mut run = start(sandbox, facts, "hold", &[program]).await.unwrap();
        let mut said = Vec::new();
        while !said.contains(&b'\n') {
            match run.next().await {
                Ok(Some(RunEvent::Stdout(bytes) | RunEvent::Stderr(bytes))) => {
                    said.extend_from_slice(&bytes);
                }
                Ok(Some(RunEvent::Started { .. } | RunEvent::NewFile(_))) => {}
                Ok(Some(RunEvent::Exited(_)) | None) => break,
                Err(TetherError::Lost) => return None,
                Err(error) => panic!("{error}"),
            }
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        // One that is refused has nothing to hold.
        let took = said.starts_with("READY") || said.starts_with("HELD");
        assert!(took, "a holder said: {said}");
        Some(Self(run))
    }

    /// Ends it, and waits until nothing of it is left.
    pub(crate) async fn release(mut self) {
        // A sandbox that is lost meanwhile has nothing left of it either.
        if self.0.killer().kill().await.is_ok() {
            while let Ok(Some(_)) = self.0.next().await {}
        }
    }
}

/// The verdict of one program in a sandbox.
pub(crate) async fn one(sandbox: &Sandbox, program: &str, facts: &Value) -> String {
    steps_of(sandbox, &[program], facts).await.remove(0)
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map(str::to_owned)
        .collect()
}
