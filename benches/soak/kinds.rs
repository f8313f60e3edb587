//! What clients do, and what must come of it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use crate::client::{Answer, Client};

/// What a client does in one turn. Short ones stand more often, as they do in life: their latency is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A program of a line, in bash or Python.
    Short,
    /// A program of some seconds.
    Long,
    /// A program that prints without end.
    Flood,
    /// A program that does not end.
    Deadline,
    /// A call that its client takes back.
    Cancelled,
    /// A session, used and closed.
    Session,
    /// A session, used and left to expire.
    Abandoned,
    /// A file up, a run with it, a file back.
    Files,
    /// A program that wants more memory than it has.
    Memory,
    /// A program that fetches something through its way out.
    Egress,
    /// A call that is refused.
    Refused,
}

use Kind::{
    Abandoned, Cancelled, Deadline, Egress, Files, Flood, Long, Memory, Refused, Session, Short,
};

/// One client's round.
pub(crate) const KINDS: [Kind; 24] = [
    Short, Long, Short, Flood, Short, Session, Short, Deadline, Short, Files, Short, Memory, Short,
    Egress, Short, Cancelled, Short, Files, Short, Abandoned, Short, Egress, Short, Refused,
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Short => "short run",
            Long => "run of 3 s",
            Flood => "flood",
            Deadline => "deadline of 1 s",
            Cancelled => "taken back",
            Session => "session, 5 calls",
            Abandoned => "session left behind",
            Files => "upload, run, fetch",
            Memory => "out of memory",
            Egress => "with a way out",
            Refused => "refused",
        }
    }
}

/// Where things are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The port of the server that runs with a way out may reach.
    pub(crate) port: u16,
}

/// One turn, as its client saw it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) took: Duration,
    /// What was not as it must be.
    pub(crate) fault: Option<String>,
}

/// Takes one turn.
pub(crate) fn play(client: &Client, place: Place, kind: Kind) -> Vec<Call> {
    let play = match kind {
        Short => {
            // Both languages in every turn: neither's share changes from minute to minute.
            let python = turn(kind, || {
                let answer = run(client, "python", "print('here')", &json!({}))?;
                is(&answer, "exited", "here\n")
            });
            let bash = turn(kind, || {
                let answer = run(client, "bash", "echo here", &json!({}))?;
                is(&answer, "exited", "here\n")
            });
            return vec![python, bash];
        }
        Long => turn(kind, || {
            let answer = run(client, "bash", "sleep 3; echo here", &json!({}))?;
            is(&answer, "exited", "here\n")
        }),
        Flood => turn(kind, || {
            let limits = json!({"limits": {"output_kib": 4096}});
            let answer = run(client, "bash", "yes", &limits)?;
            ended(&answer, "output_limit")
        }),
        Deadline => turn(kind, || {
            let short = json!({"timeout_seconds": 1});
            let answer = run(client, "bash", "trap '' TERM; while :; do :; done", &short)?;
            ended(&answer, "timed_out")
        }),
        Cancelled => turn(kind, || {
            let ask = json!({"language": "bash", "code": "sleep 60", "timeout_seconds": 60});
            client.call_and_hang_up("run_code", &ask, Duration::from_millis(700))
        }),
        Session => turn(kind, || session(client, true)),
        Abandoned => turn(kind, || session(client, false)),
        Files => turn(kind, || files(client)),
        Memory => turn(kind, || {
            let limits = json!({"limits": {"memory_mib": 64}});
            let answer = run(client, "python", "x = bytearray(10**9)", &limits)?;
            ended(&answer, "out_of_memory")
        }),
        Egress => turn(kind, || {
            let code = format!(
                "import urllib.request as u\nfor path in ['/', '/huge?mib=2']:\n    \
                 print(len(u.urlopen('http://lab.test:{}' + path).read()))\n\
                 try: u.urlopen('http://other.test/')\nexcept Exception as e: print(e)",
                place.port
            );
            let answer = run(client, "python", &code, &json!({"network": "lab"}))?;
            is(
                &answer,
                "exited",
                "21\n2097152\nHTTP Error 403: belljar host_not_allowed\n",
            )
        }),
        Refused => turn(kind, || {
            let answer = run(client, "cobol", "x", &json!({}))?;
            ensure!(answer.refused, "{}", answer.told);
            Ok(())
        }),
    };
    vec![play]
}

fn turn(kind: Kind, play: impl FnOnce() -> anyhow::Result<()>) -> Call {
    let began = Instant::now();
    let fault = play()
        .err()
        .map(|error| format!("{}: {error:#}", kind.name()));
    let took = began.elapsed();
    Call { kind, took, fault }
}

fn run(client: &Client, language: &str, code: &str, more: &Value) -> anyhow::Result<Answer> {
    let mut ask = json!({"language": language, "code": code});
    for (name, value) in more.as_object().into_iter().flatten() {
        ask[name] = value.clone();
    }
    client.call("run_code", &ask)
}

fn ended(answer: &Answer, status: &str) -> anyhow::Result<()> {
    ensure!(!answer.refused, "{}", answer.text);
    let told = &answer.told;
    ensure!(
        told["status"] == status,
        "{}; standard error: {}",
        told["status"],
        told["stderr"]["text"]
    );
    Ok(())
}

fn is(answer: &Answer, status: &str, stdout: &str) -> anyhow::Result<()> {
    ended(answer, status)?;
    let said = &answer.told["stdout"]["text"];
    ensure!(
        said == stdout,
        "it printed {said}; standard error: {}",
        answer.told["stderr"]["text"]
    );
    Ok(())
}

fn session(client: &Client, close: bool) -> anyhow::Result<()> {
    let ok = |tool: &str, ask: Value| {
        let answer = client.call(tool, &ask)?;
        ensure!(!answer.refused, "{tool}: {}", answer.text);
        anyhow::Ok(answer.told)
    };
    let session = ok("open_session", json!({"language": "bash"}))?["session"].clone();
    let in_it = |code: &str| json!({"language": "bash", "code": code, "session": session});
    ok("run_code", in_it("head -c 100000 /dev/zero >kept"))?;
    ok("list_files", json!({"session": session}))?;
    let told = ok(
        "fetch_artifact",
        json!({"session": session, "path": "kept"}),
    )?;
    ensure!(told["bytes"] == 100_000, "{told}");
    if close {
        ok("close_session", json!({"session": session}))?;
    }
    Ok(())
}

fn files(client: &Client) -> anyhow::Result<()> {
    let text = "a line of text\n".repeat(20_000);
    let up = client.call("upload_file", &json!({"path": "in.txt", "text": text}))?;
    ensure!(!up.refused, "{}", up.text);
    let files = json!([{"path": "in.txt", "file_id": up.told["file_id"]}]);
    let answer = run(
        client,
        "bash",
        "sort in.txt >out.txt",
        &json!({"files": files}),
    )?;
    is(&answer, "exited", "")?;
    let id = &answer.told["artifacts"][0]["artifact_id"];
    let back = client.call("fetch_artifact", &json!({"artifact_id": id}))?;
    ensure!(back.told["sha256"] == up.told["sha256"], "{}", back.told);
    Ok(())
}
