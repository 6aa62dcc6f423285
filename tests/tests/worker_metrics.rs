//! What a worker counts, by name, in a process whose recorder is the test's.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use selvedge::client::{Client, ClientError, Task};
use selvedge::engine::Engine;
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::id::ExecutionId;
use tokio_util::sync::CancellationToken;

#[test]
fn a_worker_counts_claims_renewals_completions_and_saturation() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::set_global_recorder(recorder).expect("nobody else is in this process");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(one_of_each()).expect("the store in memory does not fail");
    let page = page.render();
    for (line, least) in [
        (r#"ff_attempt_outcome_total{lane="m",outcome="ok"}"#, 2.0),
        (r#"ff_attempt_outcome_total{lane="m",outcome="retry"}"#, 1.0),
        (r#"ff_attempt_outcome_total{lane="m",outcome="error"}"#, 1.0),
        (r#"ff_attempt_outcome_total{lane="m",outcome="cancelled"}"#, 1.0),
        (r#"ff_attempt_outcome_total{lane="m",outcome="timeout"}"#, 1.0),
        (r#"selvedge_retries_total{lane="m",namespace="default"}"#, 1.0),
        (r#"ff_claim_from_grant_duration_seconds_count{lane="m"}"#, 6.0),
        (r#"selvedge_schedule_to_start_seconds_count{lane="m",namespace="default"}"#, 6.0),
        // The task that found the only hand taken waited for it.
        (r#"selvedge_schedule_to_start_seconds_sum{lane="m",namespace="default"}"#, 0.2),
        (r#"ff_lease_renewal_total{outcome="ok"}"#, 1.0),
        (r#"ff_lease_renewal_total{outcome="err"}"#, 1.0),
        ("ff_worker_at_capacity_total", 1.0),
    ] {
        let found = figure(&page, line);
        assert!(found >= Some(least), "{line} is {found:?}, not {least}:\n{page}");
    }
    let ends: f64 = page.lines().filter_map(|line| figure(line, "ff_attempt_outcome_total")).sum();
    assert!((ends - 6.0).abs() < 0.1, "each attempt ends once, so 6 and not {ends}:\n{page}");
}

/// The value of the first line that begins so.
fn figure(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// An attempt of each end: ok, retry, error, cancelled, timeout; and one that meets a full worker.
async fn one_of_each() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect("memory://").await?;
    let engine = Engine::builder(client.store().clone()).lanes(["m".parse()?]).start().await?;
    let stop = CancellationToken::new();
    let worker = Worker::builder(client.clone())
        .lane("m")
        .concurrency(1)
        .lease(Duration::from_millis(600))
        .handler("slow", |_: Context| async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok::<_, Failed>(())
        })
        .handler("flaky", |context: Context| async move {
            if context.attempt().0 == 0 {
                return Err(Failed::transient("the first time"));
            }
            Err::<(), _>(Failed::permanent("the second time"))
        })
        .handler("hang", |context: Context| async move {
            context.cancelled().await;
            Ok::<_, Failed>(())
        });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));

    let first = client.start(Task::new("first", "slow").lane("m")).await?;
    until_taken(&client, &first).await?;
    let second = client.start(Task::new("second", "slow").lane("m")).await?;
    client.wait(&first).await?;
    client.wait(&second).await?;
    let flaky = Task::new("flaky", "flaky").lane("m").retries(3, Duration::from_millis(10));
    client.wait(&client.start(flaky).await?).await?;
    let late = Task::new("late", "hang").lane("m").attempt_timeout(Duration::from_millis(100));
    client.wait(&client.start(late).await?).await?;
    let doomed = client.start(Task::new("doomed", "hang").lane("m")).await?;
    until_taken(&client, &doomed).await?;
    client.cancel(&doomed, "seen").await?;
    stop.cancel();
    worker.await??;
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn until_taken(client: &Client, id: &ExecutionId) -> Result<(), ClientError> {
    while client.execution(id).await?.worker.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
