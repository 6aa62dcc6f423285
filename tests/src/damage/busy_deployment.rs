//! A small deployment with work in every state.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use selvedge::client::{BudgetSpec, Client, Flow, OnSatisfied, QuotaSpec, Signal, Task};
use selvedge::engine::Engine;
use selvedge::inspect::fsck::{self, Repaired};
use selvedge::secret::SecretSource;
use selvedge::store::Store;
use selvedge::worker::{Context, Done, Failed, Suspend, Worker};
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::id::{BudgetId, ExecutionId, FlowId, QuotaPolicyId};
use selvedge_core::partition::PartitionCounts;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::judge::{self, Fates};
use super::report::Fate;
use super::text;

const COUNTS: PartitionCounts = PartitionCounts {
    flow: NonZeroU16::new(2).unwrap(),
    budget: NonZeroU16::MIN,
    quota: NonZeroU16::MIN,
};
const SIGNAL: &str = "go";
/// How long the deployment runs before it is damaged, and after a damage is repaired before the
/// first look.
const WARMS_UP: Duration = Duration::from_millis(700);

/// Its client, and everything that was submitted.
pub(super) struct BusyDeployment {
    client: Client,
    store: Store,
    executions: BTreeMap<ExecutionId, FlowId>,
}

impl BusyDeployment {
    /// Submits flows and lets them run for a moment. Then its worker and its engine die.
    pub(super) async fn build(store: &Store, seed: u64) -> Result<Self, String> {
        let client =
            Client::builder(store.clone()).partitions(COUNTS).build().await.map_err(text)?;
        let engine = start_engine(store).await?;
        let budget = BudgetSpec::new().hard("tokens", 1_000);
        let budget = client.create_budget(budget).await.map_err(text)?;
        let quota = client.create_quota(QuotaSpec::new().concurrency(2)).await.map_err(text)?;
        let mut executions = BTreeMap::new();
        for flow in flows(seed, budget, quota) {
            let submitted = client.submit(flow).await.map_err(text)?;
            let flow = submitted.id;
            executions.extend(submitted.executions.into_values().map(|id| (id, flow)));
        }
        let (_closed, gate) = watch::channel(false);
        let worker = start_worker(&client, gate);
        sleep(WARMS_UP).await;
        worker.abort();
        engine.shutdown(Duration::from_secs(5)).await.map_err(text)?;
        Ok(Self { client, store: store.clone(), executions })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Lets an engine and a worker run until everything has ended or is named, or time is up.
    pub(super) async fn settle(self, done: &Repaired, within: Duration) -> Result<Fates, String> {
        let engine = match start_engine(&self.store).await {
            Ok(engine) => engine,
            Err(error) => return self.without_engine(&error).await,
        };
        let (_open, gate) = watch::channel(true);
        let worker = start_worker(&self.client, gate);
        let until = Instant::now() + within;
        let mut fates = loop {
            sleep(WARMS_UP).await;
            self.send_signals().await;
            let fates = judge::fates(&self.client, &self.executions, None, done).await?;
            if fates.are_good() || Instant::now() > until {
                break fates;
            }
        };
        if !fates.are_good() {
            let report = fsck::check(&self.client, |_, _| {}).await.map_err(text)?;
            fates = judge::fates(&self.client, &self.executions, Some(&report), done).await?;
        }
        worker.abort();
        engine.shutdown(Duration::from_secs(5)).await.map_err(text)?;
        Ok(fates)
    }

    /// The engine says that it cannot start. `fsck` must name the key that is to blame, unless the
    /// key only differs from the settings of the engine, which says so.
    async fn without_engine(&self, error: &str) -> Result<Fates, String> {
        let report = fsck::check(&self.client, |_, _| {}).await.map_err(text)?;
        let fate = match error {
            _ if !report.is_clean() => Fate::NamedByFsck,
            error if error.contains("partition counts differ") => Fate::NamedByEngine,
            _ => Fate::Silent,
        };
        let told = |id: &ExecutionId| (id.clone(), (fate, error.to_owned()));
        Ok(Fates { by_id: self.executions.keys().map(told).collect() })
    }

    async fn send_signals(&self) {
        for id in self.executions.keys() {
            if let Ok(Some(ticket)) = self.client.ticket(id).await {
                drop(self.client.signal(&ticket, Signal::new(SIGNAL)).await);
            }
        }
    }
}

/// Flows of every shape; those whose tasks are `now` have mostly ended before the damage.
fn flows(seed: u64, budget: BudgetId, quota: QuotaPolicyId) -> Vec<Flow> {
    let task = |name: &str, kind: &str| {
        Task::new(name, kind).payload("some input").retries(3, Duration::from_millis(50))
    };
    let flow = |name: &str| Flow::new(name).idempotency_key(format!("{name}-{seed}"));
    vec![
        flow("chain")
            .task(task("a", "now"))
            .task(task("b", "gated").after(["a"]))
            .task(task("c", "now").after(["b"])),
        flow("all")
            .task(task("a", "now"))
            .task(task("b", "gated").lane("slow"))
            .task(task("c", "now").after(["a", "b"]))
            .task(task("d", "now").after(["c"])),
        flow("any")
            .task(task("a", "gated"))
            .task(task("b", "gated").delay(Duration::from_secs(2)))
            .task(task("c", "now").after_any(["a", "b"], OnSatisfied::CancelRemaining)),
        flow("quorum")
            .task(task("a", "now"))
            .task(task("b", "gated"))
            .task(task("c", "ask"))
            .task(task("d", "now").after_quorum(2, ["a", "b", "c"], OnSatisfied::LetRun)),
        flow("asks").task(task("a", "ask")).task(task("b", "now").after(["a"])),
        flow("fails").task(task("a", "fail")).task(task("b", "now").after(["a"])),
        ["a", "b", "c"].into_iter().fold(flow("limited"), |flow, name| {
            let task = task(name, "gated").budget(budget).quota(quota);
            flow.task(task.attempt_timeout(Duration::from_secs(60)))
        }),
    ]
}

async fn start_engine(store: &Store) -> Result<Engine, String> {
    let quick = Duration::from_millis(150);
    let intervals = ScannerName::ALL.iter().map(|&name| (name, quick)).collect();
    let config = EngineConfig::default().with_partitions(COUNTS).with_intervals(intervals);
    let engine = Engine::builder(store.clone()).config(config).secrets(SecretSource::Generate);
    engine.start().await.map_err(text)
}

fn start_worker(client: &Client, gate: watch::Receiver<bool>) -> JoinHandle<()> {
    let worker = |lane: &str| {
        let gate = gate.clone();
        Worker::builder(client.clone())
            .lane(lane)
            .concurrency(5)
            .lease(Duration::from_secs(1))
            .poll_every(Duration::from_millis(200))
            .handler("now", |_: Context| async { Ok::<_, Failed>("done") })
            .handler("fail", |_: Context| async { Err::<&str, _>(Failed::permanent("as told")) })
            .handler("ask", |context: Context| async move {
                if context.is_resumed() {
                    return Ok(Done::from("answered"));
                }
                context.suspend(Suspend::for_signal(SIGNAL)).await?;
                Ok::<_, Failed>(Done::Suspended)
            })
            .handler("gated", move |_: Context| {
                let mut gate = gate.clone();
                async move {
                    if gate.wait_for(|open| *open).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Failed>("done")
                }
            })
            .run_until(std::future::pending())
    };
    let (first, second) = (worker("default"), worker("slow"));
    tokio::spawn(async move {
        let (first, second) = tokio::join!(first, second);
        drop((first, second));
    })
}
