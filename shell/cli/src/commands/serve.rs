//! `selvedge serve`: an engine as a daemon.

use std::net::SocketAddr;

use crate::daemon::{self, ServeError};
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;

use super::context::Context;
use super::failure::{Exit, Failure};
use crate::logging::log_to_stderr;

/// The options; all other settings come from the environment.
#[derive(Args)]
pub(crate) struct Options {
    /// Address of /metrics, /livez and /readyz. Default: SELVEDGE_LISTEN, or 127.0.0.1:9180.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    context.refuse_memory()?;
    let mut settings = context.settings.clone();
    if let Some(address) = options.listen {
        settings.listen = address;
    }
    log_to_stderr(LevelFilter::INFO).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(stop_on_signal(stop.clone()));
        daemon::serve(settings, stop, |address| {
            let url = format!("http://{address}");
            // A closed standard output does not keep it from serving.
            let _ =
                context.output.message(&format!("listening on {url}"), json!({ "listening": url }));
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

/// Stops on SIGTERM and Ctrl-C; a second one exits at once.
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
