//! `belljar serve`: the server, until its input ends or a signal asks it to stop.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::app::App;
use crate::{
    broker::Broker,
    config::{Environment, Settings},
    transport,
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
}

/// Serves on standard input and output.
pub(super) fn run(
    args: Args,
    mut settings: Settings,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    settings.allow_folders(args.allow_dir, args.allow_dir_rw)?;
    let runtime = super::runtime()?;
    let outcome = runtime.block_on(serve(settings, environment));
    runtime.shutdown_timeout(RUNTIME_GRACE);
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn serve(settings: Settings, environment: &Environment) -> anyhow::Result<()> {
    let structured = settings.structured_content;
    let app = App::start(&settings, environment)?;
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(app.broker(), stop.clone()));
    let served = Box::pin(transport::stdio::serve(
        app.broker(),
        structured,
        tokio::io::stdin(),
        tokio::io::stdout(),
        stop,
    ))
    .await;
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
