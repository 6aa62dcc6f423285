//! The engine and worker processes of schedules, and their environment.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use selvedge::client::{Client, ClientError};
use selvedge::store::Store;
use selvedge::worker::{Context, Done, Failed, Suspend, TimeoutBehavior, Worker};
use selvedge_cli::daemon::serve;
use selvedge_cli::logging::log_to_stderr;
use selvedge_cli::settings::Settings;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use uuid::Uuid;

use super::handler_runs::{Run, RunLog};

/// Why a process ends by itself, which none should.
pub type ProcessError = Box<dyn std::error::Error>;

/// What `selvedge serve` does, for ever or until it is killed.
///
/// # Errors
/// When the environment or the deployment is not as it should be.
pub async fn engine() -> Result<(), ProcessError> {
    log_to_stderr(LevelFilter::ERROR)?;
    serve(Settings::from_env()?, CancellationToken::new(), |_| {}).await?;
    Ok(())
}

/// Works for ever, or until it is killed; notes what it runs.
///
/// # Errors
/// When the store or the notes cannot be used.
pub async fn worker(notes: &Path) -> Result<(), ProcessError> {
    log_to_stderr(LevelFilter::ERROR)?;
    let settings = Settings::from_env()?;
    let notes = Arc::new(RunLog::open(notes)?);
    // The servers may be under fire while it starts.
    while let Err(error) = work(&settings, &notes).await {
        eprintln!("not started: {error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn work(settings: &Settings, notes: &Arc<RunLog>) -> Result<(), ClientError> {
    let store = Store::open(&settings.store, settings.options.clone()).await?;
    let client = Client::builder(store).partitions(settings.engine.partitions).build().await?;
    let mut worker = Worker::builder(client)
        .name("live")
        .concurrency(16)
        .lease(LEASE)
        .poll_every(Duration::from_millis(200));
    for kind in Kind::ALL {
        let notes = notes.clone();
        worker = worker.handler(kind.name(), move |context| run(kind, context, notes.clone()));
    }
    worker.run_until(std::future::pending()).await
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
    /// Takes longer than a lease lasts, and succeeds.
    Slow,
    /// Waits for a signal, goes on and succeeds.
    Signalled,
    /// Spends from its budget, and succeeds.
    Spending,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Plain,
        Self::Flaky,
        Self::Patient,
        Self::Doomed,
        Self::Slow,
        Self::Signalled,
        Self::Spending,
    ];

    /// The name by which tasks ask for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Flaky => "flaky",
            Self::Patient => "patient",
            Self::Doomed => "doomed",
            Self::Slow => "slow",
            Self::Signalled => "signalled",
            Self::Spending => "spending",
        }
    }
}

async fn run(kind: Kind, context: Context, notes: Arc<RunLog>) -> Result<Done, Failed> {
    let mut result = Uuid::new_v4().to_string();
    let attempt = context.attempt().0;
    if kind == Kind::Signalled && context.is_resumed() && context.signals().await?.is_empty() {
        result = format!("{TIMED_OUT}{result}");
    }
    let begun = Run::now(context.id().to_string(), attempt, context.is_resumed(), result.clone());
    notes.begin(&begun)?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    match kind {
        Kind::Flaky if attempt == 0 => Err(Failed::transient("the first time always fails")),
        Kind::Doomed => Err(Failed::permanent("doomed")),
        Kind::Patient if !context.is_resumed() => {
            suspend(&context, "never", Duration::from_millis(500)).await
        }
        Kind::Signalled if !context.is_resumed() => suspend(&context, SIGNAL, SIGNAL_WITHIN).await,
        Kind::Slow => {
            tokio::time::sleep(LEASE + Duration::from_millis(500)).await;
            Ok(Done::from(result))
        }
        Kind::Spending => {
            context.spend("run", &[("units", 1)]).await?;
            Ok(Done::from(result))
        }
        Kind::Plain | Kind::Flaky | Kind::Patient | Kind::Signalled => Ok(Done::from(result)),
    }
}

async fn suspend(context: &Context, signal: &str, pause: Duration) -> Result<Done, Failed> {
    let wait = Suspend::for_signal(signal).timeout_then(pause, TimeoutBehavior::AutoResume);
    context.suspend(wait).await?;
    Ok(Done::Suspended)
}

/// The signal that tasks of the kind `signalled` wait for, and how long they do.
pub const SIGNAL: &str = "go";
const SIGNAL_WITHIN: Duration = Duration::from_secs(15);

/// With this begins the result of a run that was resumed without its signal.
pub const TIMED_OUT: &str = "timed-out-";

/// Short, so that the work of a dead worker comes back within a schedule.
const LEASE: Duration = Duration::from_secs(2);

/// A small deployment whose scanners come often, so that a schedule of seconds sees many cycles.
pub(super) fn environment(url: &str) -> Vec<(String, String)> {
    let pairs = [
        ("SELVEDGE_URL", url.to_owned()),
        ("SELVEDGE_LISTEN", "127.0.0.1:0".to_owned()),
        ("FF_FLOW_PARTITIONS", PARTITIONS.to_string()),
        ("FF_BUDGET_PARTITIONS", "2".to_owned()),
        ("FF_QUOTA_PARTITIONS", "2".to_owned()),
        ("FF_LEASE_EXPIRY_INTERVAL_MS", "300".to_owned()),
        ("FF_DELAYED_PROMOTER_INTERVAL_MS", "200".to_owned()),
        ("FF_SUSPENSION_TIMEOUT_INTERVAL_MS", "300".to_owned()),
        ("FF_DEPENDENCY_RECONCILER_INTERVAL_MS", "1000".to_owned()),
        ("RUST_LOG", "info".to_owned()),
    ];
    let secret = ("SELVEDGE_WAITPOINT_SECRET".to_owned(), "5e".repeat(32));
    pairs.map(|(name, value)| (name.to_owned(), value)).into_iter().chain([secret]).collect()
}

/// Few partitions, so that each is visited often.
pub(super) const PARTITIONS: u16 = 8;
