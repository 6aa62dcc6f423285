//! Dependencies, edge groups, large flows, order, idempotency, lists.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::client::{Flow, MemberCursor, OnSatisfied, PublicState, Task, TerminalOutcome};
use selvedge::worker::{Context, Done, Failed};
use selvedge_core::key::LaneIndex;

use crate::fixture::{Fixture, PATIENCE, Served, check};

/// A fan-out that joins: inputs and results are bytes, and tasks find each other by name.
pub(crate) async fn fan_out(fixture: Fixture) -> Served {
    let worker = fixture.worker("fan").handler("bytes", |context: Context| async move {
        let mut result = context.payload().to_vec();
        if context.sibling("join").as_ref() == Some(context.id()) {
            for name in ["left", "right"] {
                result.extend(context.result_of(name).await?.unwrap_or_default());
            }
        }
        Ok::<_, Failed>(result)
    });
    let worker = fixture.serve(worker);
    let task = |name: &str| Task::new(name, "bytes").lane("fan");
    let flow = Flow::new("fan")
        .task(task("root").payload(b"\x00\xff".as_slice()))
        .task(task("left").payload(b"\r\n".as_slice()).after(["root"]))
        .task(task("right").payload(b"\x80".as_slice()).after(["root"]))
        .task(task("join").after(["left", "right"]))
        .tag("e2e.kind", "fan");
    let flow = fixture.client.submit(flow).await?;
    let ended = fixture.client.wait_flow_within(flow.id, PATIENCE).await?;
    check(ended.count(TerminalOutcome::Success) == 4, || format!("{ended:?}"))?;
    let joined = fixture.client.wait_within(&flow["join"], PATIENCE).await?;
    check(joined.result == b"\r\n\x80", || format!("{:?}", joined.result))?;
    let record = fixture.client.flow(flow.id).await?;
    check(record.node_count == 4 && record.edge_count == 4, || format!("{record:?}"))?;
    check(record.tags["e2e.kind"] == "fan", || format!("{record:?}"))?;
    worker.stop().await
}

/// The first of three wins, the losers are cancelled while they run; a quorum lets its rest run.
pub(crate) async fn groups(fixture: Fixture) -> Served {
    let worker = fixture.worker("group").handler("race", |context: Context| async move {
        if context.payload() == b"slow" {
            context.cancelled().await;
        }
        Ok::<_, Failed>(())
    });
    let worker = fixture.serve(worker);
    let task = |name: &str| Task::new(name, "race").lane("group");
    let any = Flow::new("any")
        .task(task("a"))
        .task(task("b").payload("slow"))
        .task(task("c").payload("slow"))
        .task(task("use").after_any(["a", "b", "c"], OnSatisfied::CancelRemaining));
    let any = fixture.client.submit(any).await?;
    let quorum = Flow::new("quorum")
        .tasks(["a", "b", "c"].map(task))
        .task(task("use").after_quorum(2, ["a", "b", "c"], OnSatisfied::LetRun));
    let quorum = fixture.client.submit(quorum).await?;
    let ended = fixture.client.wait_flow_within(any.id, PATIENCE).await?;
    check(ended.tasks[&any["use"]] == TerminalOutcome::Success, || format!("{ended:?}"))?;
    check(ended.count(TerminalOutcome::Cancelled) == 2, || format!("{ended:?}"))?;
    let ended = fixture.client.wait_flow_within(quorum.id, PATIENCE).await?;
    check(ended.count(TerminalOutcome::Success) == 4, || format!("{ended:?}"))?;
    worker.stop().await
}

/// A flow of 700 tasks is sent in chunks, runs as a whole, and is listed page by page.
pub(crate) async fn large(fixture: Fixture) -> Served {
    let tasks = (0..700).map(|n| {
        let task = Task::new(format!("t{n}"), "noop").lane("large");
        if n == 0 { task } else { task.after([format!("t{}", (n - 1) / 30)]) }
    });
    let flow = fixture.client.submit(Flow::new("large").tasks(tasks)).await?;
    let (mut seen, mut from) = (BTreeSet::new(), Some(MemberCursor::default()));
    while let Some(cursor) = from {
        let (page, next) = fixture.client.flow_members(flow.id, cursor, 100).await?;
        seen.extend(page.into_iter().map(|listed| listed.id));
        from = next;
    }
    check(seen.len() == 700, || format!("{} tasks listed", seen.len()))?;
    let worker = fixture
        .worker("large")
        .concurrency(32)
        .handler("noop", |_: Context| async { Ok::<_, Failed>(()) });
    let worker = fixture.serve(worker);
    let ended = fixture.client.wait_flow_within(flow.id, PATIENCE).await?;
    check(ended.count(TerminalOutcome::Success) == 700, || format!("{}", ended.tasks.len()))?;
    worker.stop().await
}

/// Higher priorities first, a changed one too; a delay is kept.
pub(crate) async fn order(fixture: Fixture) -> Served {
    let lane = "order";
    let task = |name: &str| Task::new(name, "note").lane(lane).payload(name);
    let client = &fixture.client;
    let low = client.start(task("low")).await?;
    let last = client.start(task("last").priority(1)).await?;
    let high = client.start(task("high").priority(9)).await?;
    client.change_priority(&low, 5).await?;
    check(client.execution(&low).await?.priority == 5, String::new)?;
    let (waiting, _) =
        client.executions(&lane.parse()?, LaneIndex::Eligible, Default::default(), 100).await?;
    check(waiting.len() == 3, || format!("{waiting:?}"))?;
    // Last, so that a busy machine does not let its time come before all others are there.
    let delayed = client.start(task("delayed").delay(Duration::from_secs(4))).await?;
    check(client.execution(&delayed).await?.state == Some(PublicState::Delayed), String::new)?;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = seen.clone();
    let worker = fixture.worker(lane).concurrency(1).handler("note", move |context: Context| {
        let name = String::from_utf8_lossy(context.payload()).into_owned();
        notes.lock().unwrap().push(name);
        async { Ok::<_, Failed>(()) }
    });
    let worker = fixture.serve(worker);
    for id in [&delayed, &low, &last, &high] {
        fixture.until(id, |found| found.outcome.is_some()).await?;
    }
    let seen = seen.lock().unwrap().clone();
    check(seen == ["high", "low", "last", "delayed"], || format!("{seen:?}"))?;
    worker.stop().await
}

/// The same key submits the same thing once: flows and executions alike.
pub(crate) async fn idempotency(fixture: Fixture) -> Served {
    let flow =
        || Flow::new("once").idempotency_key("e2e-once").task(Task::new("a", "noop").lane("once"));
    let (first, second) =
        (fixture.client.submit(flow()).await?, fixture.client.submit(flow()).await?);
    check((first.before, second.before) == (false, true), || format!("{first:?} {second:?}"))?;
    let known = (second.id, &second.executions) == (first.id, &first.executions);
    check(known, || format!("{first:?} {second:?}"))?;
    let task = || Task::new("x", "noop").lane("once").idempotency_key("k", PATIENCE);
    let (first, second) =
        (fixture.client.start(task()).await?, fixture.client.start(task()).await?);
    check(first == second, || format!("{first} {second}"))?;
    let (waiting, _) = fixture
        .client
        .executions(&"once".parse()?, LaneIndex::Eligible, Default::default(), 100)
        .await?;
    check(waiting.len() == 2, || format!("{waiting:?}"))
}

/// A cancelled flow starts nothing more and ends what runs; a cancelled execution tells its
/// handler at once; what has ended can be replayed.
pub(crate) async fn cancel_and_replay(fixture: Fixture) -> Served {
    let worker = fixture.worker("cancel").lease(Duration::from_secs(60)).handler(
        "hang",
        |context: Context| async move {
            if context.payload().is_empty() {
                context.cancelled().await;
            }
            Ok::<Done, Failed>(().into())
        },
    );
    let worker = fixture.serve(worker);
    let client = &fixture.client;
    let alone = client.start(Task::new("x", "hang").lane("cancel")).await?;
    let flow = Flow::new("cancelled")
        .task(Task::new("a", "hang").lane("cancel"))
        .task(Task::new("b", "hang").lane("cancel").after(["a"]));
    let flow = client.submit(flow).await?;
    fixture.until_running(&alone).await?;
    fixture.until_running(&flow["a"]).await?;
    client.cancel(&alone, "not wanted").await?;
    client.cancel(&alone, "repeated, it is harmless").await?;
    let ended = client.wait_within(&alone, PATIENCE).await?;
    check(ended.outcome == TerminalOutcome::Cancelled, || format!("{ended:?}"))?;
    check(ended.reason == "not wanted", || format!("{ended:?}"))?;
    let done = client.cancel_flow(flow.id, "over").await?;
    check(done.cancelled == 2 && done.left_to_engine == 0, || format!("{done:?}"))?;
    let ended = client.wait_flow_within(flow.id, PATIENCE).await?;
    check(ended.count(TerminalOutcome::Cancelled) == 2, || format!("{ended:?}"))?;
    // The lease is a minute: only the push can have freed the handlers by now.
    let quick = client.start(Task::new("y", "hang").lane("cancel").payload("quick")).await?;
    client.wait_within(&quick, PATIENCE).await?;
    client.replay(&quick).await?;
    client.wait_within(&quick, PATIENCE).await?;
    check(client.execution(&quick).await?.replays == 1, String::new)?;
    worker.stop().await
}
