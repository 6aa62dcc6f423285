//! What the cases share: a client, an engine with short intervals, workers, and waits.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::num::NonZeroU16;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::client::{Client, ClientError, Execution, PublicState, SignalTicket};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::store::{Store, StoreOptions};
use selvedge::worker::{Worker, WorkerBuilder};
use selvedge_core::engine::{AuditPace, EngineConfig, Observation, ScannerName};
use selvedge_core::id::ExecutionId;
use selvedge_core::partition::PartitionCounts;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Case;

/// What a case came to.
pub(crate) type Served = Result<(), Fault>;
/// Why a case failed.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Long enough for a busy machine; nothing in the suite takes a tenth of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One store, as the cases see it.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) client: Client,
    /// Scanners that were seen to do something.
    pub(crate) acted: Arc<Mutex<BTreeSet<ScannerName>>>,
}

impl Fixture {
    pub(crate) async fn open(url: &str) -> Result<Self, Fault> {
        let store = Store::open(&url.parse()?, StoreOptions::default()).await?;
        let client = Client::builder(store).partitions(COUNTS).build().await?;
        Ok(Self { client, acted: Arc::default() })
    }

    /// Starts an engine whose scanners run as often as they may.
    pub(crate) async fn engine(&self) -> Result<RunningEngine, Fault> {
        let every = Duration::from_millis(500);
        let intervals: BTreeMap<ScannerName, Duration> =
            ScannerName::ALL.iter().map(|name| (*name, every)).collect();
        let config = EngineConfig::default()
            .with_partitions(COUNTS)
            .with_intervals(intervals)
            .with_audit(AuditPace::UNPACED);
        let acted = self.acted.clone();
        let engine = Engine::builder(self.client.store().clone())
            .config(config)
            .secrets(SecretSource::Generate)
            .tap(move |seen| {
                if let Observation::ScanDone { scanner, counts, .. } = seen
                    && counts.processed > 0
                {
                    acted.lock().unwrap().insert(*scanner);
                }
            });
        Ok(RunningEngine(engine.start().await?))
    }

    /// The scanners that were not seen to do anything.
    pub(crate) fn idle_scanners(&self) -> Vec<ScannerName> {
        let acted = self.acted.lock().unwrap();
        ScannerName::ALL.iter().filter(|name| !acted.contains(name)).copied().collect()
    }

    /// A worker of this lane. Its lease is long, so that a busy machine does not let it expire.
    pub(crate) fn worker(&self, lane: &str) -> WorkerBuilder {
        Worker::builder(self.client.clone()).name(lane).lane(lane).lease(Duration::from_secs(30))
    }

    /// Lets a worker run beside the case.
    pub(crate) fn serve(&self, worker: WorkerBuilder) -> Serving {
        let stop = CancellationToken::new();
        Serving { task: tokio::spawn(worker.run_until(stop.clone().cancelled_owned())), stop }
    }

    /// Waits until a condition holds for an execution.
    pub(crate) async fn until(
        &self,
        id: &ExecutionId,
        holds: impl Fn(&Execution) -> bool,
    ) -> Result<Execution, Fault> {
        let began = tokio::time::Instant::now();
        loop {
            let found = self.client.execution(id).await?;
            if holds(&found) {
                return Ok(found);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("not within {PATIENCE:?}: {found:?}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) async fn until_running(&self, id: &ExecutionId) -> Served {
        self.until(id, |found| found.state == Some(PublicState::Active)).await.map(drop)
    }

    /// Waits until an execution is suspended; answers what signals it.
    pub(crate) async fn until_suspended(&self, id: &ExecutionId) -> Result<SignalTicket, Fault> {
        self.until(id, |found| found.state == Some(PublicState::Suspended)).await?;
        self.client.ticket(id).await?.ok_or_else(|| "no ticket".into())
    }

    /// Waits until something holds.
    pub(crate) async fn eventually(
        &self,
        what: &str,
        mut holds: impl AsyncFnMut() -> Result<bool, Fault>,
    ) -> Served {
        let began = tokio::time::Instant::now();
        while !holds().await? {
            check(began.elapsed() < PATIENCE, || format!("never: {what}"))?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// A worker that runs.
pub(crate) struct Serving {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ClientError>>,
}

impl Serving {
    /// Stops it and waits until it has drained.
    pub(crate) async fn stop(self) -> Served {
        self.stop.cancel();
        Ok(self.task.await??)
    }

    /// Aborts it, and waits until it has ended.
    pub(crate) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

/// An engine that runs.
pub(crate) struct RunningEngine(Engine);

impl RunningEngine {
    pub(crate) async fn stop(self) -> Served {
        Ok(self.0.shutdown(Duration::from_secs(5)).await?)
    }
}

/// Runs cases concurrently, and names all that failed.
pub(crate) async fn run_all(fixture: &Fixture, cases: &[(&str, Case)]) {
    // One case alone, for debugging.
    let only = std::env::var("SELVEDGE_E2E_ONLY").unwrap_or_default();
    let running: Vec<_> = cases
        .iter()
        .filter(|(name, _)| name.contains(&only))
        .map(|(name, case)| (*name, tokio::task::spawn_local(limited(case(fixture.clone())))))
        .collect();
    let mut failures = Vec::new();
    for (name, task) in running {
        match task.await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => failures.push(format!("{name}: {fault}")),
            Err(panic) => failures.push(format!("{name}: {panic}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

async fn limited(case: impl Future<Output = Served>) -> Served {
    tokio::time::timeout(PATIENCE * 2, case).await.unwrap_or_else(|_| Err("it hangs".into()))
}

/// Fails the case unless this holds.
#[track_caller]
pub(crate) fn check(holds: bool, found: impl FnOnce() -> String) -> Served {
    let at = Location::caller();
    if holds { Ok(()) } else { Err(format!("{at}: does not hold: {}", found()).into()) }
}

/// Few, because scanners that hurry over many would be all that a small machine does.
pub(crate) const COUNTS: PartitionCounts = {
    let eight = NonZeroU16::new(8).expect("eight is not zero");
    PartitionCounts { flow: eight, budget: eight, quota: eight }
};
const LOOK: Duration = Duration::from_millis(20);
