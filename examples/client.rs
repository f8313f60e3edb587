//! The smallest useful client: starts the server, runs one program, prints the answer.
//!
//! ```text
//! cargo build --release
//! cargo run --release --example client -- python 'print(6 * 7)'
//! ```
//!
//! The exit status is that of the program, so that the client can be used in scripts.
#![expect(
    clippy::print_stdout,
    reason = "a client for people: its standard output is no protocol"
)]

use std::{env, process::ExitCode};

use anyhow::Context as _;
use rmcp::{
    ServiceExt as _,
    model::{CallToolRequestParams, ContentBlock},
    object,
    transport::TokioChildProcess,
};
use tokio::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let language = arguments.next().context("usage: client LANGUAGE CODE")?;
    let code = arguments.next().context("usage: client LANGUAGE CODE")?;

    // The examples are built into a folder beside the server.
    let here = env::current_exe()?;
    let server = here
        .ancestors()
        .nth(2)
        .context("the examples' folder has no parent")?
        .join(format!("belljar{}", env::consts::EXE_SUFFIX));
    let mut command = Command::new(&server);
    command.arg("serve");
    let transport = TokioChildProcess::new(command)
        .with_context(|| format!("start {}: is it built?", server.display()))?;
    let client = ().serve(transport).await?;

    let call = CallToolRequestParams::new("run_code")
        .with_arguments(object!({ "language": language, "code": code }));
    let result = client.call_tool(call).await?;
    for block in result.content.iter().filter_map(ContentBlock::as_text) {
        println!("{}", block.text);
    }
    client.cancel().await?;

    if result.is_error == Some(true) {
        return Ok(ExitCode::FAILURE);
    }
    // Absent where a signal, a limit or the deadline ended the program.
    let code = result
        .structured_content
        .and_then(|structured| structured.get("exit_code")?.as_u64())
        .and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
