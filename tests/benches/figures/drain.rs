//! Five thousand due timeouts over 256 partitions: the engine, beside the same calls pipelined.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::store::Push;
use selvedge_core::call::execution::{CreateExecution, ExpireIfDue, ExpireReason};
use selvedge_core::id::{ExecutionId, Namespace};
use selvedge_core::partition::Partition;
use selvedge_core::push::{Channel, Hint};
use selvedge_core::time::ServerTime;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Fault, Figure, Stage};

const DUE: usize = 5_000;
const PARTITIONS: u16 = 256;
/// Calls in one pipeline; each pipeline has a deadline, whatever else the machine does.
const AT_ONCE: usize = 1_000;
const RATIO: f64 = 0.5;
const RATE: f64 = 5_000.0;

pub(super) async fn measure() -> Result<Figure, Fault> {
    let raw = {
        let stage = Stage::open().await?;
        let due = prepare(&stage).await?;
        pipelined(&stage, due).await?
    };
    let stage = Stage::open().await?;
    prepare(&stage).await?;
    let engine = by_engine(&stage).await?;
    let count = f64::from(u32::try_from(DUE)?);
    let (ours, raw) = (count / engine.as_secs_f64(), count / raw.as_secs_f64());
    Ok(Figure {
        what: format!("engine drains {DUE} due timeouts over {PARTITIONS} partitions"),
        found: format!("{ours:.0}/s; raw {raw:.0}/s; {:.2} of it", ours / raw),
        promised: format!("≥ {RATIO} of it, ≥ {RATE:.0}/s"),
        holds: ours / raw >= RATIO && ours >= RATE,
    })
}

/// Executions whose deadline has passed, spread over all partitions.
async fn prepare(stage: &Stage) -> Result<Vec<ExecutionId>, Fault> {
    let now = stage.client.store().server_time().await?;
    let partitions = (0..PARTITIONS).cycle().take(DUE);
    let calls: Vec<CreateExecution> = partitions
        .map(|partition| CreateExecution {
            execution_id: ExecutionId::new(partition, Uuid::new_v4()),
            namespace: Namespace::new("default"),
            lane_id: "default".parse().expect("`default` is printable ASCII"),
            execution_kind: "never".to_owned(),
            priority: 0,
            creator_identity: "bench".to_owned(),
            policy_json: String::new(),
            input_payload: Vec::new(),
            delay_until: None,
            idempotency: None,
            tags_json: String::new(),
            execution_deadline_at: Some(ServerTime(now.0 - 1)),
        })
        .collect();
    for some in calls.chunks(AT_ONCE) {
        for reply in stage.client.store().call_all(some).await {
            reply?;
        }
    }
    Ok(calls.into_iter().map(|call| call.execution_id).collect())
}

async fn pipelined(stage: &Stage, due: Vec<ExecutionId>) -> Result<Duration, Fault> {
    let calls: Vec<ExpireIfDue> = due
        .into_iter()
        .map(|execution_id| ExpireIfDue {
            execution_id,
            expected_attempt_index: None,
            reason: ExpireReason::ExecutionDeadline,
        })
        .collect();
    let began = Instant::now();
    for some in calls.chunks(AT_ONCE) {
        for reply in stage.client.store().call_all(some).await {
            reply?;
        }
    }
    Ok(began.elapsed())
}

/// From the start of the engine to the last end, as the store tells of it.
async fn by_engine(stage: &Stage) -> Result<Duration, Fault> {
    let channels: Vec<String> =
        (0..PARTITIONS).map(|at| Channel::Ended(Partition::flow(at)).to_string()).collect();
    let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
    let mut pushes = stage.client.store().subscribe(&channels);
    let (left, ready, all) =
        (Arc::new(AtomicUsize::new(DUE)), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (count, listening, done) = (left.clone(), ready.clone(), all.clone());
    let listener = tokio::spawn(async move {
        loop {
            match pushes.next().await {
                Push::Gap => listening.notify_one(),
                Push::Message { channel, payload }
                    if matches!(Hint::read(&channel, &payload), Ok(Hint::Ended(_)))
                        && count.fetch_sub(1, Ordering::AcqRel) == 1 =>
                {
                    done.notify_one();
                }
                Push::Message { .. } | _ => {}
            }
        }
    });
    ready.notified().await;
    let began = Instant::now();
    let engine = stage.engine().await?;
    if tokio::time::timeout(Duration::from_secs(60), all.notified()).await.is_err() {
        return Err(format!("{} were never expired", left.load(Ordering::Acquire)).into());
    }
    let took = began.elapsed();
    listener.abort();
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(took)
}
