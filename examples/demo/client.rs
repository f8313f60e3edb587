//! The demo's side of the protocol: one server as a child process, calls with a deadline, answers made easy
//! to look into.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::{CallToolRequestParams, ContentBlock, object},
    service::RunningService,
    transport::TokioChildProcess,
};
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

/// The longest that any call of the demo may take, also the first one, for which the server prepares the
/// daemon. Stops a demo that hangs where it should fail.
const CALL_DEADLINE: Duration = Duration::from_mins(2);

/// A secret in the server's environment that no program in a sandbox may find.
pub(crate) const CANARY: &str = "canary-2b1f6c0e";

/// The configuration file, in the state directory.
const CONFIG: &str = "belljar.toml";

/// A command of belljar's about the server whose state is there.
pub(crate) fn command(server: &Path, state: &Path) -> Command {
    let mut command = Command::new(server);
    command
        .env("BELLJAR_CONFIG", state.join(CONFIG))
        .env("BELLJAR_STATE_DIR", state)
        .env("BELLJAR_LOG", "error");
    command
}

/// A running server and the connection to it.
pub(crate) struct Client(RunningService<RoleClient, ()>);

impl Client {
    /// Starts the server with its own state directory and this configuration; an empty one is the closed defaults.
    pub(crate) async fn start(server: &Path, state: &Path, config: &str) -> anyhow::Result<Self> {
        std::fs::write(state.join(CONFIG), config).context("write the configuration")?;
        let mut command = command(server, state);
        command.arg("serve").env("DEMO_TOKEN", CANARY);
        let transport = TokioChildProcess::new(command).with_context(|| {
            format!(
                "start {}: build it with `cargo build --release`",
                server.display()
            )
        })?;
        let service = timeout(CALL_DEADLINE, ().serve(transport))
            .await
            .context("the server did not answer in time")?
            .context("open the protocol")?;
        Ok(Self(service))
    }

    /// The names of the tools.
    pub(crate) async fn tools(&self) -> anyhow::Result<Vec<String>> {
        let tools = timeout(CALL_DEADLINE, self.0.list_all_tools())
            .await
            .context("tools/list was not answered in time")??;
        Ok(tools
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect())
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> anyhow::Result<Answer> {
        let request = CallToolRequestParams::new(tool).with_arguments(object(arguments));
        let result = timeout(CALL_DEADLINE, self.0.call_tool(request))
            .await
            .with_context(|| format!("{tool} was not answered in time"))?
            .with_context(|| format!("call {tool}"))?;
        let mut images = Vec::new();
        for image in result.content.iter().filter_map(ContentBlock::as_image) {
            images.push(Image {
                media_type: image.mime_type.clone(),
                bytes: STANDARD
                    .decode(&image.data)
                    .context("an image is not valid base64")?,
            });
        }
        let texts: Vec<&str> = result
            .content
            .iter()
            .filter_map(ContentBlock::as_text)
            .map(|block| block.text.as_str())
            .collect();
        Ok(Answer {
            text: texts.join("\n"),
            structured: result.structured_content.unwrap_or(Value::Null),
            images,
            is_error: result.is_error == Some(true),
        })
    }

    /// Runs a program in a fresh sandbox.
    pub(crate) async fn run(&self, language: &str, code: &str) -> anyhow::Result<Answer> {
        self.call("run_code", json!({ "language": language, "code": code }))
            .await
    }

    /// Ends the server's input and waits for it to stop.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.0.cancel().await.context("stop the server")?;
        Ok(())
    }
}

/// What a tool answered.
pub(crate) struct Answer {
    /// All text blocks: what a model reads.
    pub(crate) text: String,
    /// The structured result.
    pub(crate) structured: Value,
    /// The pictures.
    pub(crate) images: Vec<Image>,
    /// Whether the tool could not do its job.
    pub(crate) is_error: bool,
}

/// A picture in an answer.
pub(crate) struct Image {
    /// Its media type.
    pub(crate) media_type: String,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    /// The string at a JSON pointer of the structured result; empty where there is none.
    pub(crate) fn string(&self, pointer: &str) -> &str {
        self.structured
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The array at a JSON pointer of the structured result; empty where there is none.
    pub(crate) fn array(&self, pointer: &str) -> &[Value] {
        self.structured
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// What is shown of standard output.
    pub(crate) fn stdout(&self) -> &str {
        self.string("/stdout/text")
    }

    /// How the run ended.
    pub(crate) fn status(&self) -> &str {
        self.string("/status")
    }

    /// Whether the program ended by itself with this code.
    pub(crate) fn exited(&self, code: i64) -> bool {
        let found = self
            .structured
            .pointer("/exit_code")
            .and_then(Value::as_i64);
        self.status() == "exited" && found == Some(code)
    }
}

/// The server that was built along with this program: examples lie one folder below it.
pub(crate) fn server_beside_this_program() -> anyhow::Result<PathBuf> {
    let here = env::current_exe().context("find this program")?;
    let folder = here
        .ancestors()
        .nth(2)
        .context("this program's folder has no parent")?;
    Ok(folder.join(format!("belljar{}", env::consts::EXE_SUFFIX)))
}
