//! What a server is at when it is killed: some of everything that clients ask for, many at a time.

use std::{collections::BTreeMap, time::Duration};

use belljar_test_client::Server;
use serde_json::{Value, json};

use crate::{
    chance::Chance,
    world::{Promised, World},
};

/// Calls at a time: more than there are places, so that some wait.
const AT_ONCE: usize = 8;
/// How long one step waits for an answer: the moment that is aimed at may last no longer.
const STEP: Duration = Duration::from_millis(1);
/// How long what a dead server had said may take to arrive here.
const ECHO: Duration = Duration::from_millis(50);

/// Sizes of files and outputs, on both sides of every bound beyond which things go another way.
const SIZES: [u64; 6] = [0, 10, 5_000, 70_000, 700_000, 3_000_000];

/// A call without its answer.
#[derive(Clone, Debug)]
enum Pending {
    Run(u64),
    Upload(u64),
    Open,
    Save(String, u64),
    Other,
}

pub(crate) struct Load {
    chance: Chance,
    port: u16,
    folder: String,
    pending: BTreeMap<u64, Pending>,
    sessions: Vec<String>,
    /// Of this server and those before it: artifacts are everybody's of one user.
    artifacts: Vec<(String, u64)>,
    uploads: Vec<(String, u64)>,
    answered: usize,
}

impl Load {
    pub(crate) fn new(world: &World, chance: Chance) -> Self {
        Self {
            chance,
            port: world.port(),
            folder: world.folder().to_str().unwrap().to_owned(),
            pending: BTreeMap::new(),
            sessions: Vec::new(),
            artifacts: world.promised.artifacts.clone(),
            uploads: world.promised.uploads.clone(),
            answered: 0,
        }
    }

    pub(crate) fn sent(&self) -> usize {
        self.answered + self.pending.len()
    }

    pub(crate) fn answered(&self) -> usize {
        self.answered
    }

    /// Takes an answer, if there is one, and keeps the server busy.
    pub(crate) fn step(&mut self, server: &mut Server, promised: &mut Promised) {
        while self.pending.len() < AT_ONCE {
            let (id, pending) = self.begin(server);
            self.pending.insert(id, pending);
        }
        if let Some((id, result)) = server.next_answer(STEP) {
            self.take(id, &result, promised);
        }
    }

    /// Takes what is still on its way from a server that is gone.
    pub(crate) fn rest(&mut self, server: &mut Server, promised: &mut Promised) {
        while let Some((id, result)) = server.next_answer(ECHO) {
            self.take(id, &result, promised);
        }
    }

    fn begin(&mut self, server: &mut Server) -> (u64, Pending) {
        let size = self.chance.of(&SIZES);
        let run = |server: &mut Server, mut arguments: Value| {
            arguments["language"] = json!("bash");
            server.begin("run_code", &arguments)
        };
        match self.chance.below(16) {
            0 | 1 => (run(server, json!({"code": "echo here"})), Pending::Run(0)),
            2..=4 => {
                // Three files of one content, and the same on standard output.
                let code = format!(
                    "head -c {size} /dev/zero | tr '\\0' x | tee a.txt b.txt >c.txt; cat a.txt"
                );
                (run(server, json!({"code": code})), Pending::Run(size))
            }
            5 => {
                let code = "yes x | tr -d '\\n'";
                let limits = json!({"output_kib": 4096});
                let id = run(server, json!({"code": code, "limits": limits}));
                (id, Pending::Other)
            }
            6 => (
                run(server, json!({"code": "sleep 20", "timeout_seconds": 1})),
                Pending::Other,
            ),
            7 => {
                let id = run(server, json!({"code": "echo before; sleep 20"}));
                if self.chance.below(2) == 0 {
                    server.cancel(id);
                    // No answer comes.
                    return self.begin(server);
                }
                (id, Pending::Other)
            }
            8 => {
                let code = "import numpy; open('p.txt', 'w').write('x' * 5000)";
                let ask = json!({"language": "python", "code": code});
                (server.begin("run_code", &ask), Pending::Run(5000))
            }
            9 => {
                let code = "tail /dev/zero";
                let limits = json!({"memory_mib": 64});
                let id = run(server, json!({"code": code, "limits": limits}));
                (id, Pending::Other)
            }
            10 => {
                let code = format!(
                    "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf 'GET http://lab.test:{port}/drip?n=20&ms=50 \
                     HTTP/1.1\\r\\nHost: lab.test:{port}\\r\\n\\r\\n' >&3; cat <&3",
                    port = self.port
                );
                let id = run(
                    server,
                    json!({"code": code, "network": "lab", "timeout_seconds": 5}),
                );
                (id, Pending::Other)
            }
            11 => {
                let text = "x".repeat(usize::try_from(size.min(700_000)).unwrap());
                let ask = json!({"path": "up.txt", "text": text});
                (
                    server.begin("upload_file", &ask),
                    Pending::Upload(size.min(700_000)),
                )
            }
            12 => {
                let ask =
                    json!({"path": "up.txt", "local_path": format!("{}/given.txt", self.folder)});
                let size = crate::world::GIVEN;
                (server.begin("upload_file", &ask), Pending::Upload(size))
            }
            13 => self.in_session(server),
            14 => match self.pick(&self.uploads.clone()) {
                Some((id, size)) => {
                    let files = json!([{"path": "in.txt", "file_id": id}]);
                    let ask = json!({"code": "cat in.txt; cp in.txt out.txt", "files": files});
                    (run(server, ask), Pending::Run(size))
                }
                None => self.begin(server),
            },
            _ => match self.pick(&self.artifacts.clone()) {
                Some((id, size)) => {
                    let path = format!("{}/{id}-{}", self.folder, self.chance.below(1 << 40));
                    let ask = json!({"artifact_id": id, "save_to": path});
                    let id = server.begin("fetch_artifact", &ask);
                    (id, Pending::Save(path, size))
                }
                None => self.begin(server),
            },
        }
    }

    fn pick(&mut self, all: &[(String, u64)]) -> Option<(String, u64)> {
        let most = all.len() as u64;
        let at = (most > 0).then(|| self.chance.below(most))?;
        all.get(usize::try_from(at).unwrap()).cloned()
    }

    fn in_session(&mut self, server: &mut Server) -> (u64, Pending) {
        let Some(session) = self.sessions.last().cloned() else {
            let id = server.begin("open_session", &json!({"language": "bash"}));
            return (id, Pending::Open);
        };
        let ask = match self.chance.below(6) {
            0 => ("list_files", json!({"session": session})),
            1 => (
                "fetch_artifact",
                json!({"session": session, "path": "s.txt"}),
            ),
            2 => (
                "upload_file",
                json!({"session": session, "path": "s.txt", "text": "x".repeat(70_000)}),
            ),
            3 => {
                self.sessions.pop();
                ("close_session", json!({"session": session}))
            }
            _ => {
                let code = "printf xxxxx >>s.txt; (sleep 100 &); sleep 0.2";
                (
                    "run_code",
                    json!({"language": "bash", "session": session, "code": code}),
                )
            }
        };
        (server.begin(ask.0, &ask.1), Pending::Other)
    }

    fn take(&mut self, id: u64, result: &Value, promised: &mut Promised) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        self.answered += 1;
        let told = &result["structuredContent"];
        if let Some(run) = told["run_id"].as_str() {
            promised.runs.push(run.to_owned());
        }
        // A refusal promises nothing: no place is free, a session was just closed.
        if result["isError"] != false {
            return;
        }
        match pending {
            // A run that the machine was too slow for leaves part of its files, and says so.
            Pending::Run(size) if told["status"] == "exited" && told["exit_code"] == 0 => {
                for artifact in told["artifacts"].as_array().into_iter().flatten() {
                    if let Some(id) = artifact["artifact_id"].as_str() {
                        self.artifacts.push((id.to_owned(), size));
                        promised.artifacts.push((id.to_owned(), size));
                    }
                }
            }
            Pending::Upload(size) => {
                if let Some(id) = told["file_id"].as_str() {
                    self.uploads.push((id.to_owned(), size));
                    promised.uploads.push((id.to_owned(), size));
                }
            }
            Pending::Open => self
                .sessions
                .push(told["session"].as_str().unwrap().to_owned()),
            Pending::Save(path, size) => promised.saved.push((path, size)),
            Pending::Run(_) | Pending::Other => {}
        }
    }
}
