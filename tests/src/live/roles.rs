//! The engines and workers that schedules start as processes. The environment says all they need.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use selvedge::client::{Client, ClientError};
use selvedge::config::Settings;
use selvedge::serve::serve;
use selvedge::store::Store;
use selvedge::worker::{Context, Done, Failed, Suspend, TimeoutBehavior, Worker};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use uuid::Uuid;

use super::runs::{Notes, Run};

/// Why a process ends by itself, which none should.
pub type Deserted = Box<dyn std::error::Error>;

/// What `selvedge serve` does, for ever or until it is killed.
///
/// # Errors
/// When the environment or the deployment is not as it should be.
pub async fn engine() -> Result<(), Deserted> {
    log_to_stderr();
    serve(Settings::from_env()?, CancellationToken::new(), |_| {}).await?;
    Ok(())
}

/// Works for ever, or until it is killed; notes what it runs.
///
/// # Errors
/// When the store or the notes cannot be used.
pub async fn worker(notes: &Path) -> Result<(), Deserted> {
    log_to_stderr();
    let settings = Settings::from_env()?;
    let notes = Arc::new(Notes::open(notes)?);
    // The servers may be under fire while it starts.
    while let Err(error) = work(&settings, &notes).await {
        eprintln!("not started: {error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn work(settings: &Settings, notes: &Arc<Notes>) -> Result<(), ClientError> {
    let store = Store::open(&settings.store, settings.options.clone()).await?;
    let client = Client::builder(store).partitions(settings.engine.partitions).build().await?;
    let mut worker = Worker::builder(client)
        .name("live")
        .concurrency(4)
        .lease(LEASE)
        .poll_every(Duration::from_millis(200));
    for kind in [Kind::Plain, Kind::Flaky, Kind::Patient, Kind::Doomed] {
        let notes = notes.clone();
        worker = worker.handler(kind.name(), move |context| run(kind, context, notes.clone()));
    }
    worker.run_until(CancellationToken::new()).await
}

fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

/// What a task is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Does a little and succeeds.
    Plain,
    /// Fails at first, and succeeds when it is tried again.
    Flaky,
    /// Suspends itself for a while, goes on and succeeds.
    Patient,
    /// Fails for good.
    Doomed,
}

impl Kind {
    /// The name by which tasks ask for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Flaky => "flaky",
            Self::Patient => "patient",
            Self::Doomed => "doomed",
        }
    }
}

async fn run(kind: Kind, context: Context, notes: Arc<Notes>) -> Result<Done, Failed> {
    let result = Uuid::new_v4().to_string();
    let attempt = context.attempt().0;
    let begun = Run::now(context.id().to_string(), attempt, context.is_resumed(), result.clone());
    notes.begin(&begun)?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    match kind {
        Kind::Flaky if attempt == 0 => Err(Failed::transient("the first time always fails")),
        Kind::Doomed => Err(Failed::permanent("doomed")),
        Kind::Patient if !context.is_resumed() => {
            let pause = Duration::from_millis(500);
            let wait =
                Suspend::for_signal("never").timeout_then(pause, TimeoutBehavior::AutoResume);
            context.suspend(wait).await?;
            Ok(Done::Suspended)
        }
        Kind::Plain | Kind::Flaky | Kind::Patient => Ok(Done::from(result)),
    }
}

/// Short, so that the work of a dead worker comes back within a schedule.
const LEASE: Duration = Duration::from_secs(2);
