//! A scripted conversation with the real server, printed for a person: code in, labelled output, files, a
//! plot, a session, and attacks that fail. `make demo` runs it.
//!
//! It is a smoke test too: every claim that it prints is checked, and its exit status is 1 where one does
//! not hold. The server gets a state directory and a configuration of its own, which are removed at the
//! end; only the plot stays.
#![expect(
    clippy::print_stdout,
    reason = "a client for people: its standard output is no protocol"
)]

mod attacks;
mod client;

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use serde_json::json;

use client::{Answer, Client};

/// The plot, in the system's folder for temporary files.
const PLOT: &str = "belljar-demo-plot.png";
/// What every PNG file begins with.
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The conversation, and which of its claims did not hold.
struct Demo {
    client: Client,
    failures: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let server = match env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => client::server_beside_this_program()?,
    };
    let state = tempfile::tempdir().context("make a state directory")?;
    heading("A server is started, as a desktop client would start it");
    println!("  {} serve", server.display());
    let client = Client::start(&server, state.path(), "").await?;
    println!("  it offers: {}", client.tools().await?.join(", "));
    let mut demo = Demo {
        client,
        failures: Vec::new(),
    };
    demo.output().await?;
    demo.languages().await?;
    demo.files().await?;
    demo.plot(&env::temp_dir().join(PLOT)).await?;
    demo.session().await?;
    demo.attacks().await?;
    demo.injection().await?;

    let Demo { client, failures } = demo;
    client.stop().await?;
    println!();
    if failures.is_empty() {
        println!("Everything went as promised.");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} claims did not hold:", failures.len());
    for failure in &failures {
        println!("  {failure}");
    }
    Ok(ExitCode::FAILURE)
}

fn heading(text: &str) {
    println!("\n== {text}");
}

/// Prints text with a bar before each line, so that quoted text stands apart from the demo's own.
fn quote(text: &str) {
    for line in text.trim_end_matches('\n').lines() {
        println!("  | {line}");
    }
}

impl Demo {
    /// Prints a claim and whether it holds.
    fn claim(&mut self, text: &str, holds: bool) {
        if holds {
            println!("  ok: {text}");
        } else {
            println!("  FAILED: {text}");
            self.failures.push(text.to_owned());
        }
    }

    /// Like [`Self::claim`], and shows the whole answer where it does not hold.
    fn claim_of(&mut self, answer: &Answer, text: &str, holds: bool) {
        self.claim(text, holds);
        if !holds {
            quote(&answer.text);
        }
    }

    async fn output(&mut self) -> anyhow::Result<()> {
        heading("Code in, labelled output out");
        let code = "import sys\nprint(sum(range(101)))\nprint('a warning', file=sys.stderr)";
        quote(code);
        let answer = self.client.run("python", code).await?;
        println!("  The model reads:");
        quote(&answer.text);
        self.claim("it exited with 0", answer.exited(0));
        self.claim("standard output is 5050", answer.stdout() == "5050\n");
        self.claim(
            "standard error is kept apart",
            answer.string("/stderr/text") == "a warning\n",
        );
        self.claim(
            "it had no network",
            answer.string("/sandbox/network") == "none",
        );
        println!(
            "  image {}, runtime {}",
            answer.string("/sandbox/image"),
            answer.string("/sandbox/runtime")
        );

        let code = "print('before')\nraise SystemExit(3)";
        let answer = self.client.run("python", code).await?;
        self.claim_of(
            &answer,
            "a program that fails is a result, not an error of the tool",
            answer.exited(3) && answer.stdout() == "before\n",
        );
        Ok(())
    }

    async fn languages(&mut self) -> anyhow::Result<()> {
        heading("Other languages");
        let programs = [
            (
                "javascript",
                "console.log([3, 1, 2].sort().join('-'))",
                "1-2-3\n",
            ),
            ("bash", "printf '%s\\n' b a | sort | tr '\\n' ' '", "a b "),
        ];
        for (language, code, expected) in programs {
            let answer = self.client.run(language, code).await?;
            let claim = format!("{language}: {code}  gives  {}", expected.trim());
            self.claim_of(
                &answer,
                &claim,
                answer.exited(0) && answer.stdout() == expected,
            );
        }
        Ok(())
    }

    async fn files(&mut self) -> anyhow::Result<()> {
        heading("A file in, a file out");
        let table = "name,price\npear,2\nfig,5\nplum,3\n";
        let answer = self
            .client
            .call("upload_file", json!({ "path": "in.csv", "text": table }))
            .await?;
        self.claim_of(&answer, "a table was uploaded", !answer.is_error);
        let code = "import pandas\n\
                    table = pandas.read_csv('in.csv')\n\
                    table.nlargest(2, 'price').to_json('top.json', orient='records')";
        quote(code);
        let arguments = json!({
            "language": "python",
            "code": code,
            "files": [{ "path": "in.csv", "file_id": answer.string("/file_id") }],
        });
        let answer = self.client.call("run_code", arguments).await?;
        self.claim_of(
            &answer,
            "the run left one artifact, top.json",
            answer.string("/artifacts/0/path") == "top.json"
                && answer.array("/artifacts").len() == 1,
        );
        let id = answer.string("/artifacts/0/artifact_id");
        let answer = self
            .client
            .call("fetch_artifact", json!({ "artifact_id": id }))
            .await?;
        quote(answer.string("/text"));
        self.claim_of(
            &answer,
            "it can be fetched, and is what the code wrote",
            answer.string("/text") == r#"[{"name":"fig","price":5},{"name":"plum","price":3}]"#,
        );
        Ok(())
    }

    async fn plot(&mut self, path: &Path) -> anyhow::Result<()> {
        heading("A plot");
        let code = "import numpy, matplotlib.pyplot as plt\n\
                    x = numpy.linspace(0, 12, 400)\n\
                    plt.plot(x, numpy.exp(-x / 4) * numpy.cos(3 * x))\n\
                    plt.title('a bell, fading under its jar')\n\
                    plt.savefig('plot.png', dpi=100)";
        quote(code);
        let answer = self.client.run("python", code).await?;
        let picture = answer.images.iter().find(|image| {
            image.media_type == "image/png" && image.bytes.starts_with(PNG_SIGNATURE)
        });
        self.claim_of(
            &answer,
            "the picture came back as an image that the model can look at",
            picture.is_some(),
        );
        if let Some(picture) = picture {
            write_anew(path, &picture.bytes)?;
            println!("  written to {}", path.display());
        }
        Ok(())
    }

    async fn session(&mut self) -> anyhow::Result<()> {
        heading("A session keeps its files until it is closed; plain runs keep nothing");
        let opened = self
            .client
            .call("open_session", json!({ "language": "python" }))
            .await?;
        if opened.is_error {
            bail!("no session could be opened: {}", opened.text);
        }
        let session = opened.string("/session").to_owned();
        println!("  open until {}", opened.string("/expires_at"));
        let run = |language: &str, code: &str| json!({ "language": language, "code": code, "session": session });
        let write = run("python", "open('notes.txt', 'w').write('remember me')");
        let answer = self.client.call("run_code", write).await?;
        self.claim_of(&answer, "the first run writes notes.txt", answer.exited(0));
        let answer = self
            .client
            .call("run_code", run("bash", "cat notes.txt"))
            .await?;
        self.claim_of(
            &answer,
            "the second run, in another language, reads it",
            answer.stdout() == "remember me",
        );
        let answer = self
            .client
            .call("list_files", json!({ "session": session }))
            .await?;
        self.claim_of(
            &answer,
            "list_files shows it",
            answer
                .array("/entries")
                .iter()
                .any(|entry| entry["path"] == "notes.txt"),
        );
        let answer = self
            .client
            .run("bash", "cat notes.txt 2>/dev/null || echo nothing here")
            .await?;
        self.claim_of(
            &answer,
            "a run outside the session sees nothing of it",
            answer.stdout() == "nothing here\n",
        );
        let answer = self
            .client
            .call("close_session", json!({ "session": session }))
            .await?;
        self.claim_of(&answer, "it is closed", !answer.is_error);
        let answer = self.client.call("run_code", run("bash", "true")).await?;
        self.claim_of(&answer, "and then it is gone", answer.is_error);
        Ok(())
    }
}

/// Writes a new file in place of an old one. The folder may be everybody's, so that a link somebody put
/// there is never followed.
fn write_anew(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("replace {}", path.display()));
        }
        _ => {}
    }
    File::create_new(path)
        .and_then(|mut file| file.write_all(bytes))
        .with_context(|| format!("write {}", path.display()))
}
