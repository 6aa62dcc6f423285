//! Scanners repair what no message announces. Each case creates a state that only one scanner
//! repairs, and waits until it is repaired.

use std::time::Duration;

use selvedge::client::{
    ClientError, ExecutionPolicy, Flow, OnSatisfied, PublicState, Task, TerminalOutcome,
};
use selvedge::worker::{Context, Failed};
use selvedge_core::call::execution::{Authority, CompleteExecution, Running};
use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::call::suspension::{CreatePendingWaitpoint, NewWaitpoint};
use selvedge_core::capability::Capabilities;
use selvedge_core::command::Command;
use selvedge_core::engine::ScannerName;
use selvedge_core::id::{ExecutionId, FlowId, LaneId, WaitpointKey, WorkerId, WorkerInstanceId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::policy::StreamPolicy;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_core::work_filter::WorkFilter;

use crate::fixture::{Fixture, PATIENCE, Served, check};

/// An execution that lost its place in the index comes back to it (index reconciler).
pub(crate) async fn lost_place(fixture: Fixture) -> Served {
    let lane: LaneId = "place".parse()?;
    // On a busy machine the reply to the repair may be lost, and the scanner does not count it.
    let mut repaired = false;
    while !repaired {
        let id = fixture.client.start(Task::new("x", "noop").lane("place")).await?;
        let index = Key::index(id.partition()).lane(&lane, LaneIndex::Eligible);
        fixture.write("ZREM", &index, &[id.to_string().as_bytes()]).await?;
        let worker =
            fixture.worker("place").handler("noop", |_: Context| async { Ok::<_, Failed>(()) });
        let worker = fixture.serve(worker);
        check(fixture.client.wait_within(&id, PATIENCE).await?.is_success(), String::new)?;
        worker.stop().await?;
        repaired = fixture.acted.lock().unwrap().contains(&ScannerName::IndexReconciler);
    }
    Ok(())
}

/// A flow that was cancelled by somebody who then vanished loses its members (cancel reconciler).
pub(crate) async fn abandoned_cancels(fixture: Fixture) -> Served {
    let flow = Flow::new("abandoned").task(Task::new("a", "noop").lane("abandoned"));
    let flow = fixture.client.submit(flow).await?;
    let call = CancelFlow {
        partition: fixture.client.partitions().of_flow(flow.id),
        flow_id: flow.id,
        reason: "and then it vanished".to_owned(),
        policy: CancellationPolicy::CancelAll,
        grace_ms: Some(0),
    };
    fixture.client.store().call(&call).await?;
    let ended = fixture.client.wait_flow_within(flow.id, PATIENCE).await?;
    check(ended.count(TerminalOutcome::Cancelled) == 1, || format!("{ended:?}"))
}

/// A quota slot whose holder ended without giving it back is free again (quota reconciler), and
/// what waits for it is let go (unblock).
pub(crate) async fn leaked_slot(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let quota = client.create_quota(selvedge::client::QuotaSpec::new().concurrency(1)).await?;
    let task = |name: &str| Task::new(name, "noop").lane("slot").quota(quota);
    let holder = client.start(task("holder")).await?;
    let keys = Key::quota(client.partitions().of_quota(quota), quota);
    let id = holder.to_string();
    fixture.write("SET", &keys.concurrency(), &[b"1"]).await?;
    fixture.write("SADD", &keys.admitted_set(), &[id.as_bytes()]).await?;
    fixture.write("SET", &keys.admitted(&holder), &[b"1"]).await?;
    client.cancel(&holder, "it is gone").await?;
    let waits = client.start(task("waits")).await?;
    let worker = fixture.worker("slot").handler("noop", |_: Context| async { Ok::<_, Failed>(()) });
    let worker = fixture.serve(worker);
    check(client.wait_within(&waits, PATIENCE).await?.is_success(), String::new)?;
    worker.stop().await
}

/// A budget starts its next period when that is due (budget reset), and a mark of a breach that is
/// over goes (budget reconciler).
pub(crate) async fn budget_period(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let spec = selvedge::client::BudgetSpec::new()
        .hard("tokens", 10)
        .resets_every(Duration::from_millis(300));
    let budget = client.create_budget(spec).await?;
    client.spend(budget, "r1", &[("tokens", 7)]).await?;
    fixture
        .eventually("the budget starts anew", async || {
            Ok(client.budget(budget).await?.used.get("tokens").copied().unwrap_or(0) == 0)
        })
        .await?;
    let lasting = client.create_budget(selvedge::client::BudgetSpec::new().hard("t", 5)).await?;
    let keys = Key::budget(client.partitions().of_budget(lasting), lasting);
    fixture.write("HSET", &keys.usage(), &[b"t", b"9"]).await?;
    fixture
        .eventually("the breach is marked", async || {
            let mark = fixture.read("HGET", &keys.usage(), &[b"breached_at"]).await?;
            Ok(mark != Value::Nil)
        })
        .await
}

/// A waitpoint that nobody suspended on is closed when its time is over.
pub(crate) async fn pending_waitpoint(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let id = client.start(Task::new("x", "noop").lane("pending")).await?;
    let work = fixture.claim(&id, "pending").await?;
    let waitpoint = uuid::Uuid::new_v4().into();
    let now = client.store().server_time().await?;
    let call = CreatePendingWaitpoint {
        execution_id: id.clone(),
        attempt_index: work.attempt_index,
        waitpoint: NewWaitpoint { id: waitpoint, key: WaitpointKey::new("wpk:pending") },
        expires_at: ServerTime(now.0 + 200),
    };
    client.store().call(&call).await?;
    let key = Key::waitpoint(id.partition(), waitpoint);
    fixture
        .eventually("the waitpoint is closed", async || {
            let state = fixture.read("HGET", &key, &[b"state"]).await?;
            Ok(matches!(state, Value::Bulk(word) if word != b"pending"))
        })
        .await
}

/// Losers are cancelled by whichever finds their group first, the dispatcher or the reconciler.
/// This is repeated until the dispatcher was first.
pub(crate) async fn losers(fixture: Fixture) -> Served {
    let acted = fixture.acted.clone();
    fixture
        .eventually("the dispatcher cancelled a loser", async || {
            loser(&fixture).await?;
            Ok(acted.lock().unwrap().contains(&ScannerName::EdgeCancelDispatcher))
        })
        .await
}

/// A lease that nobody renews is taken back (lease expiry).
pub(crate) async fn expired_leases(fixture: Fixture) -> Served {
    let acted = fixture.acted.clone();
    fixture
        .eventually("a lease was marked", async || {
            let id = fixture.client.start(Task::new("x", "noop").lane("expired")).await?;
            fixture.claim_for(&id, "expired", 100).await?;
            fixture.until(&id, |found| found.reclaims == 1).await?;
            fixture.client.cancel(&id, "seen").await?;
            Ok(acted.lock().unwrap().contains(&ScannerName::LeaseExpiry))
        })
        .await
}

/// The loser of a race is cancelled (edge cancel dispatcher or reconciler), and the flow gets a
/// summary (flow projector).
async fn loser(fixture: &Fixture) -> Served {
    let task = |name: &str| Task::new(name, "noop").lane("loser");
    let flow = Flow::new("loser")
        .task(task("fast").priority(9))
        .task(task("loser"))
        .task(task("use").after_any(["fast", "loser"], OnSatisfied::CancelRemaining));
    let flow = fixture.client.submit(flow).await?;
    let work = fixture.claim(&flow["fast"], "loser").await?;
    fixture.complete(&work, "loser").await?;
    let ended = fixture.client.wait_within(&flow["loser"], PATIENCE).await?;
    check(ended.outcome == TerminalOutcome::Cancelled, || format!("{ended:?}"))?;
    let client = &fixture.client;
    fixture
        .eventually("the flow is summarised", async || {
            Ok(!client.flow(flow.id).await?.summary.is_empty())
        })
        .await
}

/// What is kept for a moment only is gone afterwards (retention trimmer).
pub(crate) async fn retention(fixture: Fixture) -> Served {
    let mut policy = ExecutionPolicy::default();
    policy.stream_policy.get_or_insert_with(StreamPolicy::default).retention_ttl_ms = Some(1);
    let client = &fixture.client;
    let id = client.start(Task::new("x", "noop").lane("brief").policy(policy)).await?;
    client.cancel(&id, "it is not needed").await?;
    fixture
        .eventually("it is gone", async || match client.execution(&id).await {
            Err(ClientError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(false),
        })
        .await
}

/// An entry for sibling cancels whose group does not exist is removed. The dispatcher may be faster
/// than the reconciler, so it is added until both have removed one.
pub(crate) async fn stale_debt(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let flow = FlowId::from(uuid::Uuid::new_v4());
    let child = client.execution_of(flow, "child");
    let notes = Key::index(child.partition()).pending_cancel_groups();
    let note = format!("{flow}|{child}");
    fixture
        .eventually("the reconciler removed it", async || {
            fixture.write("SADD", &notes, &[note.as_bytes()]).await?;
            Ok(fixture.acted.lock().unwrap().contains(&ScannerName::EdgeCancelReconciler))
        })
        .await
}

/// A completion that no engine heard of is found by looking (dependency reconciler): the engine of
/// this one starts after it. A scanner whose reply was lost does not count, hence the repetition.
pub(crate) async fn unheard(fixture: Fixture) -> Served {
    let lane = "unheard";
    let seen = || !fixture.idle_scanners().contains(&ScannerName::DependencyReconciler);
    fixture
        .eventually("the reconciler found one", async || {
            let flow = Flow::new(lane)
                .task(Task::new("a", "noop").lane(lane).priority(1))
                .task(Task::new("b", "noop").lane(lane).after(["a"]));
            let flow = fixture.client.submit(flow).await?;
            let work = fixture.claim(&flow["a"], lane).await?;
            fixture.complete(&work, lane).await?;
            let child = fixture.client.execution(&flow["b"]).await?;
            check(child.state == Some(PublicState::WaitingChildren), || format!("{child:?}"))?;
            let engine = fixture.engine().await?;
            fixture.until(&flow["b"], |found| found.state == Some(PublicState::Waiting)).await?;
            // The visit goes on for a moment.
            for _ in 0..100 {
                if !seen() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            engine.stop().await?;
            Ok(seen())
        })
        .await
}

impl Fixture {
    /// Claims one execution by hand, as a worker without pushes would.
    pub(crate) async fn claim(
        &self,
        id: &ExecutionId,
        lane: &str,
    ) -> Result<ClaimedWork, crate::fixture::Fault> {
        self.claim_for(id, lane, 60_000).await
    }

    /// The same, for so many milliseconds.
    pub(crate) async fn claim_for(
        &self,
        id: &ExecutionId,
        lane: &str,
        lease_ttl_ms: u64,
    ) -> Result<ClaimedWork, crate::fixture::Fault> {
        let call = ClaimNext {
            partition: id.partition(),
            lane: lane.parse()?,
            worker_id: WorkerId::new("by-hand"),
            worker_instance_id: WorkerInstanceId::new("by-hand-1"),
            capabilities: Capabilities::default(),
            lease_id: uuid::Uuid::new_v4().into(),
            lease_ttl_ms,
            attempt_id: uuid::Uuid::new_v4().into(),
            window: None,
            after: None,
            admitted: None,
            filter: WorkFilter::all(),
        };
        let reply = self.client.store().call(&call).await?;
        if let ClaimNextReply::Claimed(work) = &reply
            && work.execution_id == *id
        {
            return Ok(work.clone());
        }
        Err(format!("{id} was not claimed: {reply:?}").into())
    }

    /// Completes it by hand.
    pub(crate) async fn complete(&self, work: &ClaimedWork, lane: &str) -> Served {
        let call = CompleteExecution {
            running: Running {
                execution_id: work.execution_id.clone(),
                attempt_index: work.attempt_index,
                lane: lane.parse()?,
                worker_instance_id: WorkerInstanceId::new("by-hand-1"),
            },
            authority: Authority::Holder(work.fence),
            result_payload: Vec::new(),
        };
        self.client.store().call(&call).await?;
        Ok(())
    }

    /// Reads by hand.
    pub(crate) async fn read(
        &self,
        name: &str,
        key: &Key,
        rest: &[&[u8]],
    ) -> Result<Value, crate::fixture::Fault> {
        Ok(self.client.store().command(Command::read(name, key, rest)).await?)
    }

    /// Writes by hand: damage, mostly.
    pub(crate) async fn write(&self, name: &str, key: &Key, rest: &[&[u8]]) -> Served {
        self.client.store().command(Command::write(name, key, rest)).await?;
        Ok(())
    }
}
