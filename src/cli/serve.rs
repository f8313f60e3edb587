//! `belljar serve`: the server, until its input ends or a signal asks it to stop. Over HTTP only a signal does.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use anyhow::Context as _;

use super::app::App;
use crate::{
    broker::Broker,
    config::{Environment, Settings},
    transport::{
        self,
        http::{self, Listener, LoopbackAddr, Token},
    },
};

/// How long the runtime waits for what still runs once everything was cleaned up: a thread that reads standard
/// input can be blocked for ever.
const RUNTIME_GRACE: Duration = Duration::from_millis(200);

/// What `belljar serve` takes.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Args {
    /// Let tools read files beneath this folder (`upload_file` with `local_path`). May be given several times.
    #[arg(long, value_name = "DIR")]
    allow_dir: Vec<PathBuf>,
    /// Let tools read and write files beneath this folder (`fetch_artifact` with `save_to` too).
    #[arg(long, value_name = "DIR")]
    allow_dir_rw: Vec<PathBuf>,
    /// Serve MCP over HTTP at this address, such as 127.0.0.1:8080, instead of standard input and output.
    ///
    /// Loopback addresses only. Every request must show a token: that of `$BELLJAR_HTTP_TOKEN` (at least 32
    /// characters), else one that is made at each start and shown once on standard error. Local files cannot be
    /// reached over HTTP.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["allow_dir", "allow_dir_rw"])]
    http: Option<LoopbackAddr>,
}

/// Where clients come in.
enum Entrance {
    Stdio,
    Http(Listener, Token),
}

impl Entrance {
    /// Opens it before anything else is started: a port that is taken or a token that is too short ends it here.
    async fn open(http: Option<LoopbackAddr>, environment: &Environment) -> anyhow::Result<Self> {
        let Some(addr) = http else {
            return Ok(Self::Stdio);
        };
        let token = match &environment.http_token {
            Some(secret) => Token::parse(secret)?,
            None => Token::random(),
        };
        let listener = Listener::bind(addr).await.with_context(|| {
            format!(
                "cannot listen at {addr}: take another port (0 is any that is free), or end what listens there"
            )
        })?;
        Ok(Self::Http(listener, token))
    }

    /// Says where clients come in, once they can.
    fn announce(&self, environment: &Environment) {
        let Self::Http(listener, token) = self else {
            return;
        };
        eprintln!("belljar: MCP at http://{}{}", listener.addr(), http::PATH);
        if environment.http_token.is_none() {
            // The only place where it ever stands.
            eprintln!("belljar: token: {}", token.expose());
        }
    }
}

/// Lets the server open as many files and connections as the system allows at all: the limit that a shell hands down
/// is for programs without clients, and many runs with a way out take more. Where it fails, the lower limit stays.
#[cfg(unix)]
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

#[cfg(not(unix))]
fn raise_descriptor_limit() {}

/// Serves on standard input and output, or over HTTP.
pub(super) fn run(
    args: Args,
    mut settings: Settings,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    settings.allow_folders(args.allow_dir, args.allow_dir_rw)?;
    let runtime = super::runtime()?;
    let outcome = runtime.block_on(serve(settings, environment, args.http));
    runtime.shutdown_timeout(RUNTIME_GRACE);
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn serve(
    settings: Settings,
    environment: &Environment,
    http: Option<LoopbackAddr>,
) -> anyhow::Result<()> {
    let entrance = Entrance::open(http, environment).await?;
    raise_descriptor_limit();
    let app = App::start(&settings, environment)?;
    entrance.announce(environment);
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(app.broker(), stop.clone()));
    let served = match entrance {
        Entrance::Stdio => {
            Box::pin(transport::stdio::serve(
                app.broker(),
                settings.structured_content,
                tokio::io::stdin(),
                tokio::io::stdout(),
                stop,
            ))
            .await
        }
        Entrance::Http(listener, token) => {
            app.broker().stock();
            let options = http::Options::from(&settings);
            Box::pin(http::serve(app.broker(), options, listener, token, stop)).await;
            Ok(())
        }
    };
    app.stop().await;
    signals.abort();
    served.map_err(Into::into)
}

/// The first signal asks for an orderly end: the broker stops first, while those who wait for an answer can still be
/// told so, and then the transport. A second signal does not wait for it: the sandboxes end with their tethers in any
/// case.
async fn stop_on_signal(broker: Arc<Broker>, transport: CancellationToken) {
    if let Err(error) = wait_for_signal().await {
        tracing::error!(%error, "signals cannot be received");
        return;
    }
    tracing::info!("stopping");
    tokio::select! {
        () = broker.stop() => transport.cancel(),
        _ = wait_for_signal() => {
            tracing::warn!("stopping at once");
            #[expect(clippy::exit, reason = "the second signal asks for exactly this")]
            std::process::exit(1);
        }
    }
}

#[cfg(unix)]
async fn wait_for_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn wait_for_signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{cli::Cli, types::Secret};

    #[test]
    fn the_command_line_opens_nothing_but_loopback() {
        let parse = |more: &[&str]| {
            let words = ["belljar", "serve"].iter().chain(more);
            Cli::try_parse_from(words)
        };
        assert!(parse(&["--http", "127.0.0.1:8080"]).is_ok());
        for (open, words) in [
            (&["--http", "0.0.0.0:8080"][..], "reverse proxy with TLS"),
            (&["--http", "[::]:8080"], "reverse proxy with TLS"),
            (&["--http", "8080"], "127.0.0.1:8080"),
            (&["--http"], "ADDR"),
            (
                &["--http", "127.0.0.1:0", "--allow-dir", "/tmp"],
                "cannot be used with",
            ),
            (
                &["--http", "127.0.0.1:0", "--allow-dir-rw", "/tmp"],
                "cannot be used with",
            ),
        ] {
            let refused = parse(open).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_weak_token_or_a_taken_port_opens_nothing() {
        let any: LoopbackAddr = "127.0.0.1:0".parse().unwrap();
        let environment = |text: &str| Environment {
            http_token: Some(Secret::new(text.to_owned())),
            ..Environment::default()
        };
        let refused = Entrance::open(Some(any), &environment("hunter2")).await;
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("at least 32"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
        let opened = Entrance::open(Some(any), &environment(&"x".repeat(32))).await;
        let Ok(Entrance::Http(listener, token)) = opened else {
            panic!("a good token opens");
        };
        assert_eq!(token.expose(), "x".repeat(32));
        let same = listener.addr().to_string().parse().unwrap();
        assert!(
            Entrance::open(Some(same), &Environment::default())
                .await
                .is_err()
        );
    }
}
