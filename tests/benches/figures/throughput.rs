//! Submit, claim and complete, beside raw commands that make the same changes of data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::client::Task;
use selvedge::worker::{Context, Failed, Worker};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Fault, Figure, Stage, raw};

const EXECUTIONS: usize = 5_000;
/// Submitters, and handlers at a time: as many as raw connections' pipelines run side by side.
const SIDE_BY_SIDE: usize = 64;

pub(super) async fn measure(stage: &Stage) -> Result<Figure, Fault> {
    let ours = through_client_and_worker(stage).await?;
    let raw = raw::same_changes(&stage.server, EXECUTIONS, SIDE_BY_SIDE).await?;
    let rate = |took: Duration| {
        f64::from(u32::try_from(EXECUTIONS).unwrap_or(u32::MAX)) / took.as_secs_f64()
    };
    let (ours, raw) = (rate(ours), rate(raw));
    Ok(Figure {
        what: format!("submit → claim → complete, {SIDE_BY_SIDE} side by side"),
        found: format!("{ours:.0}/s; raw {raw:.0}/s; {:.2} of it", ours / raw),
        promised: "printed".to_owned(),
        holds: true,
    })
}

async fn through_client_and_worker(stage: &Stage) -> Result<Duration, Fault> {
    let (left, all) = (Arc::new(AtomicUsize::new(EXECUTIONS)), Arc::new(Notify::new()));
    let (count, done) = (left.clone(), all.clone());
    let stop = CancellationToken::new();
    let worker = Worker::builder(stage.client.clone())
        .lane("flood")
        .concurrency(SIDE_BY_SIDE)
        .handler("noop", move |_: Context| {
            if count.fetch_sub(1, Ordering::AcqRel) == 1 {
                done.notify_one();
            }
            async { Ok::<_, Failed>("done") }
        });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let began = Instant::now();
    let submitters: Vec<_> = (0..SIDE_BY_SIDE)
        .map(|nth| {
            let client = stage.client.clone();
            tokio::spawn(async move {
                for _ in (nth..EXECUTIONS).step_by(SIDE_BY_SIDE) {
                    client.start(Task::new("t", "noop").lane("flood").payload("input")).await?;
                }
                Ok::<_, selvedge::client::ClientError>(())
            })
        })
        .collect();
    for submitter in submitters {
        submitter.await??;
    }
    all.notified().await;
    let took = began.elapsed();
    stop.cancel();
    worker.await??;
    Ok(took)
}
