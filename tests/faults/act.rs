//! What the callers of the matrix do: the call of each act, what is there before it, and what it gives when nothing
//! breaks.

use std::sync::LazyLock;

use belljar_test_upstream::{Options, Upstream};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::{
    cell::Act,
    server::{PATIENCE, Server},
    step::{ASK_MARK, COLLECT_MARK, REPLY_MARK, RUN_MARK, UPLOAD_MARK},
};

/// The server that the way out leads to, for all cells, and what runs it.
static UPSTREAM: LazyLock<(Runtime, Upstream)> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let upstream = runtime.block_on(Upstream::start(Options::default()));
    (runtime, upstream)
});

fn port() -> u16 {
    UPSTREAM.1.plain().port()
}

/// The configuration of the way out.
pub(crate) fn profile() -> String {
    format!(
        "[egress.lab]\nallow = [\"http://lab.test:{}\"]\nresolve = {{ \"lab.test\" = [\"127.0.0.1\"] }}\n\
         allow_private = [\"127.0.0.1/32\"]\n",
        port()
    )
}

/// What an act is about.
pub(crate) struct Before {
    /// A session.
    session: Option<Value>,
    /// An artifact of a run that has ended.
    artifact: Value,
}

impl Before {
    /// Has the server make it.
    pub(crate) fn of(act: Act, server: &mut Server) -> Self {
        let mut artifact = Value::Null;
        if act == Act::Fetch {
            let run = server.ok(
                "run_code",
                &json!({"language": "bash", "code": leaves_a_file()}),
            );
            artifact = run["artifacts"][0]["artifact_id"].clone();
        }
        let session = act.in_session().then(|| {
            let mut ask = json!({"language": "bash"});
            if act.goes_out() {
                ask["network"] = "lab".into();
            }
            server.ok("open_session", &ask)["session"].clone()
        });
        if act == Act::Take {
            // More than comes out before the server has asked for more.
            let code = format!(
                "{{ echo {}; head -c 4000000 /dev/zero; }} >out.txt",
                spelled(COLLECT_MARK)
            );
            let run = json!({"language": "bash", "code": code, "session": session});
            server.ok("run_code", &run);
        }
        Self { session, artifact }
    }

    /// Closes its session, if it has one; what that says otherwise than it must.
    pub(crate) fn end(&self, server: &mut Server, lost: bool) -> Result<(), String> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        let closed = server.tool("close_session", &json!({"session": session}), PATIENCE);
        let closed = closed.ok_or("no answer to the close")?;
        let told = closed["content"][0]["text"].as_str().unwrap_or_default();
        // One that the act had closed says so.
        let gone = closed["isError"] == true;
        let fits = if lost {
            gone && told.contains("lost")
        } else {
            !gone || told.contains("closed")
        };
        if fits {
            Ok(())
        } else {
            Err(format!("the session says: {told}"))
        }
    }
}

/// Closes a session that must be there.
pub(crate) fn close(server: &mut Server, session: &str) {
    server.ok("close_session", &json!({"session": session}));
}

/// A mark as a program's code spells it, so that only its output has it.
fn spelled(mark: &str) -> String {
    let (first, rest) = mark.split_at(1);
    format!("{first}''{rest}")
}

fn leaves_a_file() -> String {
    format!("echo {} >out.txt; echo done", spelled(COLLECT_MARK))
}

/// More than one frame, with the mark amid it.
fn large() -> String {
    format!(
        "{}{UPLOAD_MARK}{}",
        "x".repeat(700_000),
        "y".repeat(700_000)
    )
}

/// The tool of an act, and its arguments.
pub(crate) fn call(act: Act, before: &Before) -> (&'static str, Value) {
    let Before { session, artifact } = before;
    let run = |code: String| json!({"language": "bash", "code": code});
    let long = format!(
        "echo before; read -t 0.5 <> <(:); echo {}; read -t 2 <> <(:); echo after",
        spelled(RUN_MARK)
    );
    let asks = format!(
        "echo before; read -t 0.5 <> <(:); exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; \
         printf 'GET http://lab.test:{port}/?{ASK_MARK} HTTP/1.1\r\nHost: lab.test:{port}\r\nConnection: close\r\n\r\n' >&3; \
         tail -n 1 <&3; echo",
        port = port()
    );
    match act {
        Act::Run => ("run_code", run(leaves_a_file())),
        Act::Long => ("run_code", run(long)),
        Act::Overlong => {
            let mut arguments = run(long);
            arguments["timeout_seconds"] = 1.5.into();
            ("run_code", arguments)
        }
        Act::Upload => {
            let mut arguments = run(leaves_a_file());
            arguments["files"] = json!([{"path": "in.txt", "text": large()}]);
            ("run_code", arguments)
        }
        Act::Raise => {
            let mut arguments = run(leaves_a_file());
            arguments["limits"] = json!({"memory_mib": 600});
            ("run_code", arguments)
        }
        Act::Ask | Act::AskIn => {
            let mut arguments = run(asks);
            arguments["timeout_seconds"] = 5.into();
            match session {
                Some(session) => arguments["session"] = session.clone(),
                None => arguments["network"] = "lab".into(),
            }
            ("run_code", arguments)
        }
        Act::Open => ("open_session", json!({"language": "bash"})),
        Act::Close => ("close_session", json!({"session": session})),
        Act::Hold => ("upload_file", json!({"path": "in.txt", "text": large()})),
        Act::Put => (
            "upload_file",
            json!({"path": "in.txt", "text": large(), "session": session}),
        ),
        Act::Fetch => ("fetch_artifact", json!({"artifact_id": artifact})),
        Act::Take => (
            "fetch_artifact",
            json!({"session": session, "path": "out.txt", "length": COLLECT_MARK.len() + 1}),
        ),
    }
}

/// What an act gives when it works: what its program prints, or the file that is fetched.
pub(crate) fn output(act: Act) -> String {
    match act {
        Act::Long | Act::Overlong => format!("before\n{RUN_MARK}\nafter\n"),
        Act::Run | Act::Upload | Act::Raise => "done\n".to_owned(),
        Act::Ask | Act::AskIn => format!("before\n{REPLY_MARK}\n"),
        Act::Fetch | Act::Take => format!("{COLLECT_MARK}\n"),
        Act::Open | Act::Close | Act::Hold | Act::Put => String::new(),
    }
}

/// The same, of an answer.
pub(crate) fn said_by(result: &Value) -> &str {
    let text = result["stdout"]["text"].as_str();
    text.or(result["text"].as_str()).unwrap_or_default()
}
