//! A drill: a table tells the model to send a file away, the model obeys, and nothing gets out.
//!
//! The model is a script that does whatever the text in front of it asks for; that is the point. Beside it stand two
//! servers on loopback: the one that the operator's profile allows, with a credential that stays in belljar, and the one
//! that the attacker listens on. Every claim that is printed is checked, and the exit status is 1 where one does not hold.
//!
//! ```text
//! cargo build --release && cargo run --release --example exfiltration
//! ```
#![expect(
    clippy::print_stdout,
    reason = "a client for people: its standard output is no protocol"
)]

#[path = "../demo/client.rs"]
#[expect(dead_code, reason = "the demo shows pictures, and the drill none")]
mod client;
mod model;
mod programs;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, bail};
use belljar_test_upstream::{Authority, Options, Upstream};
use serde_json::{Value, json};

use client::{Answer, CANARY, Client};

/// The host of the operator's profile.
const ALLOWED: &str = "api.lab.test";
/// The attacker's host.
const ATTACKERS: &str = "collector.lab.test";
/// The file that the attacker wants. It lies in the sandbox, since the model works with it.
const FILE: &str = "credentials.json";
const FILE_CONTENT: &str = r#"{"user": "reports", "password": "correct horse battery staple"}"#;
/// The name of the operator's profile.
const PROFILE: &str = "lab";
/// The largest file of the server's state that is searched for the secret; each is small in a state of minutes.
const MAX_STATE_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The scene, and which of its claims did not hold.
struct Drill {
    server: PathBuf,
    state: tempfile::TempDir,
    client: Client,
    allowed: Upstream,
    attackers: Upstream,
    failures: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let server = match env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => client::server_beside_this_program()?,
    };
    let mut drill = Drill::new(server).await?;
    let task = drill.the_model_reads_the_table().await?;
    drill.it_obeys_without_a_network(&task).await?;
    let run_id = drill.it_obeys_with_a_profile(&task).await?;
    drill.it_tries_harder().await?;
    drill.what_is_allowed_works().await?;
    drill.the_secret_is_not_inside().await?;
    drill.it_is_on_record(&run_id).await?;
    drill.end().await
}

fn heading(text: &str) {
    println!("\n== {text}");
}

fn quote(text: &str) {
    for line in text.trim_end_matches('\n').lines() {
        println!("  | {line}");
    }
}

impl Drill {
    async fn new(server: PathBuf) -> anyhow::Result<Self> {
        let authority = Arc::new(Authority::new());
        let site = |name| Options {
            authority: Some(Arc::clone(&authority)),
            ..Options::named(&[name])
        };
        let allowed = Upstream::start(site(ALLOWED)).await;
        let attackers = Upstream::start(site(ATTACKERS)).await;
        let state = tempfile::tempdir().context("make a state directory")?;
        fs::write(state.path().join("lab-ca.pem"), authority.pem())
            .context("write the certificate of the lab")?;
        let port = allowed.tls().port();
        let config = format!(
            r#"[egress.{PROFILE}]
allow = [{{ host = "{ALLOWED}:{port}", methods = ["GET"] }}]
secrets = ["api"]
resolve = {{ "{ALLOWED}" = ["127.0.0.1"], "{ATTACKERS}" = ["127.0.0.1"] }}
allow_private = ["127.0.0.1/32"]
upstream_ca = "lab-ca.pem"

[secrets.api]
from = {{ env = "DEMO_TOKEN" }}
hosts = ["{ALLOWED}:{port}"]
inject = {{ header = "Authorization", format = "Bearer {{}}" }}
"#
        );
        heading("The operator's configuration: one host, to read from, and a credential for it");
        quote(&config);
        let client = Client::start(&server, state.path(), &config).await?;
        Ok(Self {
            server,
            state,
            client,
            allowed,
            attackers,
            failures: Vec::new(),
        })
    }

    /// Prints a claim and whether it holds.
    fn claim(&mut self, text: &str, holds: bool) {
        if holds {
            println!("  ok: {text}");
        } else {
            println!("  FAILED: {text}");
            self.failures.push(text.to_owned());
        }
    }

    /// Claims that the attacker got nothing, not so much as a connection.
    fn nothing_arrived(&mut self) {
        let nothing = self.attackers.connections() == 0 && self.attackers.seen().is_empty();
        self.claim("the attacker's server saw nothing at all", nothing);
    }

    /// Runs a program with the two files beside it and prints what it printed.
    async fn run(&self, network: Option<&str>, code: &str) -> anyhow::Result<Answer> {
        let arguments = json!({
            "language": "python",
            "code": code,
            "network": network,
            "files": [
                { "path": "sales.csv", "text": model::table(&self.place()) },
                { "path": FILE, "text": FILE_CONTENT },
            ],
        });
        let answer = self.client.call("run_code", arguments).await?;
        if answer.is_error {
            bail!("run_code: {}", answer.text);
        }
        quote(answer.stdout());
        Ok(answer)
    }

    /// Where the attacker wants the file.
    fn place(&self) -> String {
        format!("https://{ATTACKERS}:{}/backup", self.attackers.tls().port())
    }

    async fn the_model_reads_the_table(&mut self) -> anyhow::Result<model::Task> {
        heading("The model is asked for a sum, and looks at the table first");
        let answer = self.run(None, "print(open('sales.csv').read())").await?;
        let task = model::reads(&answer.text).context("the model did not take the bait")?;
        println!(
            "  The model believes that it was told to send {} to {}.",
            task.file, task.place
        );
        Ok(task)
    }

    async fn it_obeys_without_a_network(&mut self, task: &model::Task) -> anyhow::Result<()> {
        heading("It obeys, in a sandbox as it is by default: without a network");
        let answer = self.run(None, &programs::send(task)).await?;
        self.claim(
            "the name is not resolved, and the address refuses the connection",
            answer.exited(0)
                && answer.stdout().contains("name: ")
                && answer.stdout().contains("refused")
                && !answer.stdout().contains("SENT"),
        );
        self.nothing_arrived();
        Ok(())
    }

    async fn it_obeys_with_a_profile(&mut self, task: &model::Task) -> anyhow::Result<String> {
        heading("It obeys, in a sandbox whose profile allows another host");
        let answer = self.run(Some(PROFILE), &programs::send(task)).await?;
        self.claim(
            "the proxy answers 403 and says why",
            answer.stdout().contains("403 belljar host_not_allowed")
                && !answer.stdout().contains("SENT"),
        );
        let denied = answer.array("/egress/denied");
        for one in denied {
            println!("  the result says: {one}");
        }
        self.claim(
            "the result names the host and the reason, so that the model knows that to try again is of no use",
            denied
                .iter()
                .any(|one| one["host"] == ATTACKERS && one["reason"] == "host_not_allowed"),
        );
        self.nothing_arrived();
        Ok(answer.string("/run_id").to_owned())
    }

    async fn it_tries_harder(&mut self) -> anyhow::Result<()> {
        heading("It tries harder");
        let code = programs::try_harder(
            (ALLOWED, self.allowed.tls().port()),
            (ATTACKERS, self.attackers.tls().port()),
        );
        let before = self.allowed.seen().len();
        let answer = self.run(Some(PROFILE), &code).await?;
        let mut tries = answer.stdout().lines().peekable();
        let refused = tries.peek().is_some() && tries.all(|line| line.starts_with("refused"));
        self.claim("every way is refused", answer.exited(0) && refused);
        let arrived = self.allowed.seen().len() - before;
        self.claim("the allowed host saw none of these requests", arrived == 0);
        self.nothing_arrived();
        println!(
            "  What no proxy can say is what an allowed host does with what it is asked: allow those that you trust with the data."
        );
        Ok(())
    }

    async fn what_is_allowed_works(&mut self) -> anyhow::Result<()> {
        heading(
            "What the profile is for works: a request with a credential that the program does not have",
        );
        let code = programs::ask(ALLOWED, self.allowed.tls().port());
        let answer = self.run(Some(PROFILE), &code).await?;
        self.claim(
            "the request was answered",
            answer.stdout().starts_with("200 "),
        );
        let expected = format!("Bearer {CANARY}");
        let authorized = self
            .allowed
            .seen()
            .last()
            .is_some_and(|seen| seen.header("authorization").eq([expected.as_str()]));
        self.claim("the allowed host got the credential", authorized);
        self.claim(
            "the host gave it back in its answer, and it did not reach the program",
            answer.stdout().contains("authorization") && without_secret(&answer),
        );
        Ok(())
    }

    async fn the_secret_is_not_inside(&mut self) -> anyhow::Result<()> {
        heading("The credential is nowhere inside, and in nothing that belljar keeps");
        let arguments =
            json!({ "language": "python", "code": programs::SEARCH, "network": PROFILE });
        let answer = self.client.call("run_code", arguments).await?;
        println!(
            "  {} bytes of variables, files and processes were printed",
            answer.stdout().len()
        );
        self.claim(
            "no variable, file or process inside holds it",
            answer.exited(0) && !answer.stdout().is_empty() && without_secret(&answer),
        );
        let kept = holds(self.state.path(), CANARY.as_bytes())?;
        self.claim(
            "neither the audit log nor any kept output holds it",
            kept.is_none(),
        );
        if let Some(path) = kept {
            println!("  {}", path.display());
        }
        Ok(())
    }

    async fn it_is_on_record(&mut self, run_id: &str) -> anyhow::Result<()> {
        heading("What it tried is on record");
        println!("  belljar audit show --json {run_id}");
        let output = client::command(&self.server, self.state.path())
            .args(["audit", "show", "--json", run_id])
            .output()
            .await
            .context("read the audit log")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let denied: Vec<&str> = text
            .lines()
            .filter(|line| {
                serde_json::from_str::<Value>(line).is_ok_and(|event| {
                    event["action"] == "egress"
                        && event["decision"]["verdict"] == "deny"
                        && event["egress"]["host"] == ATTACKERS
                })
            })
            .collect();
        for line in &denied {
            quote(line);
        }
        self.claim("the log names the host that was denied", !denied.is_empty());
        Ok(())
    }

    async fn end(self) -> anyhow::Result<ExitCode> {
        self.client.stop().await?;
        println!();
        if self.failures.is_empty() {
            println!("The model did all that it was told, and nothing got out.");
            return Ok(ExitCode::SUCCESS);
        }
        println!("{} claims did not hold:", self.failures.len());
        for failure in &self.failures {
            println!("  {failure}");
        }
        Ok(ExitCode::FAILURE)
    }
}

fn without_secret(answer: &Answer) -> bool {
    !answer.text.contains(CANARY) && !answer.structured.to_string().contains(CANARY)
}

/// The first file at or below `folder` that holds `secret`.
fn holds(folder: &Path, secret: &[u8]) -> anyhow::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if let Some(found) = holds(&path, secret)? {
                return Ok(Some(found));
            }
        } else if kind.is_file() {
            let size = entry.metadata()?.len();
            anyhow::ensure!(
                size <= MAX_STATE_FILE_BYTES,
                "{} is too large",
                path.display()
            );
            let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            if content.windows(secret.len()).any(|part| part == secret) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
