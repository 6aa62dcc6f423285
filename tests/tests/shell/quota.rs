//! Work that a quota holds back is released as soon as a slot is free, without waiting for the next
//! scan. A worker that names an unknown quota is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::client::{BudgetSpec, Client, Flow, QuotaSpec, Task};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::store::StoreUrl;
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::call::lease::RevokeLease;
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::id::{ExecutionId, QuotaPolicyId};
use selvedge_core::state::PublicState;
use selvedge_tests::server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::kit::{
    Hands, PATIENCE as SOON, block_on, brisk, client_on, engine_on, open, until, url_of,
};

const HELD_BACK: usize = 6;

/// An engine that looks by itself at what is held back, and at who holds a slot, once an hour.
fn patient() -> EngineConfig {
    let mut config = brisk();
    for name in [ScannerName::Unblock, ScannerName::QuotaReconciler] {
        config.intervals.insert(name, Duration::from_secs(3_600));
    }
    config
}

/// A worker that takes one task of the kind `hold` and has it for as long as it likes.
struct Holder {
    runs: Arc<AtomicUsize>,
    enough: CancellationToken,
    stop: CancellationToken,
    worker: JoinHandle<()>,
}

impl Holder {
    fn on(client: &Client, lane: &str) -> Self {
        let (enough, stop) = (CancellationToken::new(), CancellationToken::new());
        let runs = Arc::new(AtomicUsize::new(0));
        let (count, told) = (runs.clone(), enough.clone());
        let worker = Worker::builder(client.clone())
            .lane(lane)
            .lease(SOON * 2)
            .concurrency(1)
            .handler("hold", move |_: Context| {
                count.fetch_add(1, Ordering::SeqCst);
                let told = told.clone();
                async move {
                    told.cancelled().await;
                    Ok::<_, Failed>("held")
                }
            })
            .run_until(stop.clone().cancelled_owned());
        let worker = tokio::spawn(async { worker.await.unwrap() });
        Self { runs, enough, stop, worker }
    }

    fn has_one(&self) -> bool {
        self.runs.load(Ordering::SeqCst) == 1
    }

    /// Lets it end what it has, and waits until it has put everything in order.
    async fn end(self) {
        self.enough.cancel();
        self.stop.cancel();
        self.worker.await.unwrap();
    }
}

async fn start(client: &Client, kind: &str, lane: &str, quota: QuotaPolicyId) -> ExecutionId {
    client.start(Task::new("task", kind).lane(lane).quota(quota)).await.unwrap()
}

async fn state_of(client: &Client, id: &ExecutionId) -> PublicState {
    client.execution(id).await.unwrap().state.expect("a known state")
}

async fn succeeds(client: &Client, id: &ExecutionId) -> bool {
    client.wait_within(id, SOON).await.unwrap().is_success()
}

#[test]
fn free_quota_slots_release_one_execution_each() {
    let server = Server::valkey().unwrap();
    block_on(async {
        for url in [StoreUrl::memory(), url_of(&server)] {
            let store = open(&url).await;
            let engine = Engine::builder(store.clone()).config(patient());
            let engine = engine.secrets(SecretSource::Generate).start().await.unwrap();
            let client = client_on(&store).await;
            let quota = client.create_quota(QuotaSpec::new().concurrency(1)).await.unwrap();
            let holder = Holder::on(&client, "holder");
            let held = start(&client, "hold", "holder", quota).await;
            until("held", SOON, || async { holder.has_one() }).await;
            let mut tasks = Vec::new();
            for _ in 0..HELD_BACK {
                tasks.push(start(&client, "ok", "slots", quota).await);
            }
            let hands = Hands::steady(&client, "slots");
            for id in &tasks {
                until("held back", SOON, || async {
                    state_of(&client, id).await == PublicState::RateLimited
                })
                .await;
            }
            holder.end().await;
            for id in tasks.iter().chain([&held]) {
                assert!(succeeds(&client, id).await);
            }
            assert_eq!(hands.runs(), HELD_BACK);
            engine.shutdown(SOON).await.unwrap();
        }
    });
}

/// A worker that lost its lease ends while another one runs the task instead of it, in the same
/// slot.
#[test]
fn a_worker_that_lost_its_lease_keeps_the_slot_of_the_next_holder() {
    block_on(async {
        let store = open(&StoreUrl::memory()).await;
        let engine = engine_on(&store).start().await.unwrap();
        let client = client_on(&store).await;
        let quota = client.create_quota(QuotaSpec::new().concurrency(1)).await.unwrap();
        let loser = Holder::on(&client, "slots");
        let contested = start(&client, "hold", "slots", quota).await;
        until("taken", SOON, || async { loser.has_one() }).await;
        let winner = Holder::on(&client, "slots");
        let revoke = RevokeLease {
            execution_id: contested.clone(),
            worker_instance_id: client.execution(&contested).await.unwrap().worker.unwrap(),
            expected_lease_id: None,
            reason: "to be run by another".into(),
        };
        store.call(&revoke).await.unwrap();
        until("taken over", SOON, || async { winner.has_one() }).await;
        loser.end().await;

        let next = start(&client, "ok", "others", quota).await;
        let hands = Hands::steady(&client, "others");
        until("asked", SOON, || async { state_of(&client, &next).await != PublicState::Waiting })
            .await;
        assert_eq!(state_of(&client, &next).await, PublicState::RateLimited);
        winner.end().await;
        for id in [&contested, &next] {
            assert!(succeeds(&client, id).await);
        }
        assert_eq!(hands.runs(), 1);
        engine.shutdown(SOON).await.unwrap();
    });
}

/// A limit that nobody made limits nothing: whoever names one has made a mistake.
#[test]
fn a_task_with_an_unknown_limit_is_refused() {
    block_on(async {
        let client = client_on(&open(&StoreUrl::memory()).await).await;
        let quota = client.create_quota(QuotaSpec::new().concurrency(1)).await.unwrap();
        let budget = client.create_budget(BudgetSpec::new().hard("tokens", 9)).await.unwrap();
        let limited = |name: &str| Task::new(name, "ok").quota(quota).budget(budget);
        client.start(limited("one")).await.unwrap();
        client.submit(Flow::new("fine").task(limited("a")).task(limited("b"))).await.unwrap();
        let nobody: Uuid = "00000000-0000-4000-8000-000000000001".parse().unwrap();
        for (task, told) in [
            (limited("c").quota(nobody.into()), format!("there is no quota {nobody}")),
            (limited("c").budget(nobody.into()), format!("there is no budget {nobody}")),
        ] {
            let refused = client.start(task.clone()).await.unwrap_err();
            assert_eq!(refused.to_string(), told);
            let flow = Flow::new("not").task(limited("a")).task(task);
            assert_eq!(client.submit(flow).await.unwrap_err().to_string(), told);
        }
    });
}

/// Other clients may store a window of zero, which means the default window. Nobody asks for that
/// on purpose.
#[test]
fn a_rate_without_a_window_is_refused() {
    block_on(async {
        let client = client_on(&open(&StoreUrl::memory()).await).await;
        let refused = client.create_quota(QuotaSpec::new().rate(1, Duration::ZERO)).await;
        let reason = "a quota with a rate needs a window of at least one second";
        assert_eq!(refused.unwrap_err().to_string(), reason);
    });
}
