//! `selvedge serve`: an engine as a daemon.

use std::io::IsTerminal as _;
use std::net::SocketAddr;

use clap::Args;
use selvedge::serve::{self, ServeError};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::context::Context;
use super::failure::{Exit, Failure};

/// What may be said on the command line; the environment says the rest.
#[derive(Args)]
pub(crate) struct Options {
    /// Where to answer for /metrics, /livez and /readyz; otherwise SELVEDGE_LISTEN says.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let mut settings = context.settings.clone();
    if let Some(address) = options.listen {
        settings.listen = address;
    }
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(stop_on_signal(stop.clone()));
        serve::serve(settings, stop, |address| {
            let url = format!("http://{address}");
            // Whoever started it may not want to know; it serves all the same.
            let _ = context.output.say(&format!("listening on {url}"), json!({ "listening": url }));
        })
        .await
    })?;
    Ok(())
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match error {
            ServeError::Store(error) => return error.into(),
            ServeError::Deployment(_) => Exit::Refused,
            ServeError::Listen { .. } | ServeError::Metrics(_) | ServeError::Shutdown(_) => {
                Exit::Error
            }
        };
        Self::new(exit, error)
    }
}

/// SIGTERM and Ctrl-C mean the same; a second one does not wait.
async fn stop_on_signal(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        if stop.is_cancelled() {
            std::process::exit(1);
        }
        stop.cancel();
    }
}
