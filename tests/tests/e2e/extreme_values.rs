//! Extreme values: large results and reasons, endless durations, streams that stay empty.

use std::time::Duration;

use selvedge::client::{
    Client, ClientError, DURATION_MAX, PAYLOAD_BYTES_MAX, PRIORITY_MAX, PublicState, Task,
    TerminalOutcome,
};
use selvedge::worker::{Context, Done, Failed, Suspend};
use selvedge_core::id::{AttemptIndex, ExecutionId};
use tokio::time::timeout;

use crate::fixture::{Fixture, PATIENCE, Served, check};

/// A result is kept up to the size of an input. A larger one is no success, and no retry helps;
/// of a reason that is too long the beginning is kept.
pub(crate) async fn sizes(fixture: Fixture) -> Served {
    let worker = fixture
        .worker("size")
        .handler("result", |context: Context| async move {
            let bytes = String::from_utf8_lossy(context.payload()).parse()?;
            Ok::<_, Failed>(vec![7_u8; bytes])
        })
        .handler("reason", |_: Context| async {
            Err::<(), _>(Failed::permanent("größer ".repeat(100_000)))
        });
    let worker = fixture.serve(worker);
    let client = &fixture.client;
    let start = |bytes: usize| {
        let task = Task::new("r", "result").lane("size").payload(bytes.to_string());
        client.start(task.retries(3, Duration::from_millis(10)))
    };
    let (fits, larger) = (start(PAYLOAD_BYTES_MAX).await?, start(PAYLOAD_BYTES_MAX + 1).await?);
    let ended = client.wait_within(&fits, PATIENCE).await?;
    check(ended.is_success() && ended.result.len() == PAYLOAD_BYTES_MAX, || ended.reason.clone())?;
    let ended = client.wait_within(&larger, PATIENCE).await?;
    check(ended.outcome == TerminalOutcome::Failed && ended.result.is_empty(), String::new)?;
    check(ended.reason.contains("16777217 bytes"), || ended.reason.clone())?;
    check(client.execution(&larger).await?.retries == 0, String::new)?;
    let long = client.start(Task::new("l", "reason").lane("size")).await?;
    let ended = client.wait_within(&long, PATIENCE).await?;
    check(ended.reason.starts_with("größer "), || ended.reason.clone())?;
    check(ended.reason.len() < 10_000 && ended.reason.ends_with('…'), || ended.reason.clone())?;
    worker.stop().await
}

/// The longest durations are waited for, whatever counts the time; longer ones are refused.
pub(crate) async fn for_ever(fixture: Fixture) -> Served {
    let patient = Client::builder(fixture.client.store().clone())
        .partitions(*fixture.client.partitions())
        .retry_for(Duration::MAX)
        .build()
        .await?;
    let worker = selvedge::worker::Worker::builder(patient.clone())
        .lane("ever")
        .lease(selvedge::worker::LEASE_MAX)
        .drain_within(Duration::MAX)
        .handler("later", |_: Context| async { Ok::<_, Failed>(Done::Later(DURATION_MAX)) })
        .handler("longer", |_: Context| async { Ok::<_, Failed>(Done::Later(Duration::MAX)) })
        .handler("ask", |context: Context| async move {
            let longer = context.suspend(Suspend::for_signal("x").timeout(Duration::MAX)).await;
            if !matches!(longer, Err(ClientError::InvalidInput(_))) {
                return Err(Failed::permanent(format!("{longer:?}")));
            }
            context.suspend(Suspend::for_signal("x").timeout(DURATION_MAX)).await?;
            Ok::<_, Failed>(Done::Suspended)
        });
    let worker = fixture.serve(worker);
    let later = patient.start(Task::new("a", "later").lane("ever")).await?;
    let ask = patient.start(Task::new("b", "ask").lane("ever")).await?;
    fixture.until(&later, |found| found.state == Some(PublicState::Delayed)).await?;
    fixture.until(&ask, |found| found.state == Some(PublicState::Suspended)).await?;
    let longer = patient.start(Task::new("c", "longer").lane("ever")).await?;
    let ended = patient.wait_within(&longer, PATIENCE).await?;
    check(ended.reason.contains("longer than 1,000 years"), || ended.reason.clone())?;
    worker.stop().await
}

/// A priority that the store would quietly lower is refused, when it is changed as when it is
/// given.
pub(crate) async fn priorities(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let id = client.start(Task::new("a", "none").lane("nobody").priority(PRIORITY_MAX)).await?;
    let refused = client.change_priority(&id, PRIORITY_MAX + 1).await;
    check(matches!(refused, Err(ClientError::InvalidInput(_))), || format!("{refused:?}"))?;
    client.change_priority(&id, 7).await?;
    check(client.execution(&id).await?.priority == 7, String::new)
}

/// The output of an attempt that will never be is over, and of an execution that is not there too.
pub(crate) async fn no_output(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let first = AttemptIndex(0);
    let early = Task::new("a", "none").lane("nobody");
    let id = client.start(early).await?;
    let mut tail = client.tail(&id, first);
    let canceller = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.cancel(&id, "not needed").await
    };
    let (frames, cancelled) = tokio::join!(timeout(PATIENCE, tail.next()), canceller);
    cancelled?;
    check(frames??.is_none(), || "frames of nobody".to_owned())?;
    let nobody: ExecutionId = "{fp:1}:9b484f5e-0c62-4000-8000-1d9a53df5f54".parse()?;
    let told = timeout(PATIENCE, client.tail(&nobody, first).next()).await?;
    check(matches!(told, Err(ClientError::NotFound { .. })), || format!("{told:?}"))
}
