//! Failures, signals, limits, output, lost workers, draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use selvedge::client::{
    BudgetSpec, ClientError, Flow, PublicState, QuotaSpec, Signal, Task, TerminalOutcome,
};
use selvedge::worker::{Context, Done, Failed, Suspend, SuspensionReason};
use selvedge_core::id::AttemptIndex;

use crate::fixture::{Fixture, PATIENCE, Served, check};

/// Executions of several lanes are started in bulk, and each runs once; what is invalid, or limited
/// by nothing that exists, starts nothing.
pub(crate) async fn many(fixture: Fixture) -> Served {
    let client = &fixture.client;
    let echo = |context: Context| async move { Ok::<_, Failed>(context.payload().to_vec()) };
    let worker = fixture.worker("many-0").lane("many-1").lane("many-2").handler("echo", echo);
    let worker = fixture.serve(worker);
    // The last two are the same one.
    let task = |number: usize| {
        let number = number.min(MANY - 2);
        let lane = format!("many-{}", number % 3);
        let task = Task::new("x", "echo").lane(lane).payload(format!("{number}"));
        let task = if number == 5 { task.delay(Duration::from_millis(300)) } else { task };
        task.idempotency_key(format!("many {number}"), PATIENCE * 10)
    };
    let ids = client.start_many((0..MANY).map(task)).await?;
    check(ids.len() == MANY, || format!("{} ids", ids.len()))?;
    check(ids[MANY - 1] == ids[MANY - 2], || format!("{:?}", &ids[MANY - 2..]))?;
    for (number, id) in ids.iter().enumerate() {
        let ended = client.wait_within(id, PATIENCE).await?;
        let expected = number.min(MANY - 2).to_string();
        check(ended.result == expected.as_bytes(), || format!("{number}: {ended:?}"))?;
    }
    check(client.start_many((0..MANY).map(task)).await? == ids, || "not the same".to_owned())?;
    let invalid = [task(0), Task::new("", "echo")];
    check(client.start_many(invalid).await.is_err(), || "an empty name".to_owned())?;
    let missing = selvedge_core::id::BudgetId::from(uuid::Uuid::new_v4());
    let limited = [task(0), Task::new("x", "echo").lane("many-0").budget(missing)];
    let error = client.start_many(limited).await.err().map(|error| error.to_string());
    check(error.is_some_and(|error| error.contains("budget")), || "no budget".to_owned())?;
    check(client.start_many([]).await?.is_empty(), String::new)?;
    worker.stop().await
}

const MANY: usize = 700;

/// A flaky task is tried again, a final failure is not, a panic is a failure, and work without a
/// handler waits for a worker that has one.
pub(crate) async fn failures(fixture: Fixture) -> Served {
    let worker = fixture
        .worker("fail")
        .handler("flaky", |context: Context| async move {
            match context.attempt().0 {
                0 | 1 => Err(Failed::transient("not yet")),
                _ => Ok(()),
            }
        })
        .handler("final", |_: Context| async { Err::<(), _>(Failed::permanent("never")) })
        .handler("panic", |context: Context| async move {
            assert!(context.attempt().0 > 0, "first attempts panic");
            Ok::<_, Failed>(())
        });
    let worker = fixture.serve(worker);
    let client = &fixture.client;
    let start = |kind: &str| {
        client.start(Task::new(kind, kind).lane("fail").retries(3, Duration::from_millis(50)))
    };
    let (flaky, last) = (start("flaky").await?, start("final").await?);
    let (panic, strange) = (start("panic").await?, start("strange").await?);
    let ended = client.wait_within(&flaky, PATIENCE).await?;
    check(ended.is_success(), || format!("{ended:?}"))?;
    check(client.execution(&flaky).await?.retries == 2, String::new)?;
    let ended = client.wait_within(&last, PATIENCE).await?;
    check(ended.outcome == TerminalOutcome::Failed, || format!("{ended:?}"))?;
    check(client.execution(&last).await?.retries == 0, String::new)?;
    check(client.wait_within(&panic, PATIENCE).await?.is_success(), String::new)?;
    let waits = client.execution(&strange).await?;
    check(waits.state == Some(PublicState::Waiting), || format!("{waits:?}"))?;
    worker.stop().await?;
    let newer = fixture.worker("fail").handler("strange", |_: Context| async { Ok(()) });
    let newer = fixture.serve(newer);
    check(client.wait_within(&strange, PATIENCE).await?.is_success(), String::new)?;
    newer.stop().await
}

/// A suspended execution goes on with a signed signal, and with nothing less.
pub(crate) async fn signals(fixture: Fixture) -> Served {
    let worker = fixture.worker("signal").handler("ask", |context: Context| async move {
        if context.is_resumed() {
            let came = context.signals().await?;
            return Ok::<Done, Failed>(
                came.into_iter().flat_map(|s| s.payload).collect::<Vec<_>>().into(),
            );
        }
        let suspend = Suspend::for_signal("approved").because(SuspensionReason::WaitingForApproval);
        context.suspend(suspend).await?;
        Ok(Done::Suspended)
    });
    let worker = fixture.serve(worker);
    let client = &fixture.client;
    let asks = client.start(Task::new("ask", "ask").lane("signal")).await?;
    let ticket = fixture.until_suspended(&asks).await?;
    let mut forged = ticket.clone();
    forged.token = "k:0000000000000000000000000000000000000000".parse()?;
    let refused = client.signal(&forged, Signal::new("approved")).await;
    check(refused.is_err(), || format!("a forged token passed: {refused:?}"))?;
    client.signal(&ticket, Signal::new("other")).await?;
    check(client.execution(&asks).await?.state == Some(PublicState::Suspended), String::new)?;
    let yes = || Signal::new("approved").payload(b"\xffyes".as_slice()).idempotency_key("once");
    client.signal(&ticket, yes()).await?;
    let ended = client.wait_within(&asks, PATIENCE).await?;
    check(ended.result == b"\xffyes", || format!("{ended:?}"))?;
    worker.stop().await
}

/// Suspensions, attempts and executions that take too long end by themselves.
pub(crate) async fn timeouts(fixture: Fixture) -> Served {
    let worker = fixture
        .worker("late")
        .handler("ask", |context: Context| async move {
            let suspend = Suspend::for_signal("never").timeout(Duration::from_millis(200));
            context.suspend(suspend).await?;
            Ok::<_, Failed>(Done::Suspended)
        })
        .handler("hang", |context: Context| async move {
            context.cancelled().await;
            Ok::<_, Failed>(())
        });
    let worker = fixture.serve(worker);
    let client = &fixture.client;
    let short = Duration::from_millis(200);
    let ask = client.start(Task::new("a", "ask").lane("late")).await?;
    let attempt = client.start(Task::new("b", "hang").lane("late").attempt_timeout(short)).await?;
    let whole = client.start(Task::new("c", "hang").lane("late").deadline(short)).await?;
    let ended = client.wait_within(&ask, PATIENCE).await?;
    check(ended.outcome == TerminalOutcome::Failed, || format!("{ended:?}"))?;
    for id in [&attempt, &whole] {
        let ended = client.wait_within(id, PATIENCE).await?;
        check(ended.outcome == TerminalOutcome::Expired, || format!("{ended:?}"))?;
    }
    worker.stop().await
}

/// Work waits while its budget is used up, and while its quota is.
pub(crate) async fn limits(fixture: Fixture) -> Served {
    let most = Arc::new(AtomicU32::new(0));
    let now = Arc::new(AtomicU32::new(0));
    let (peak, running) = (most.clone(), now.clone());
    let worker = fixture
        .worker("limit")
        .handler("spend", |context: Context| async move {
            let verdicts = context.spend("all", &[("tokens", 10)]).await?;
            check(verdicts.len() == 1, || format!("{verdicts:?}"))
                .map_err(|error| Failed::permanent(error.to_string()))?;
            Ok::<_, Failed>(())
        })
        .handler("slot", move |_: Context| {
            let (peak, running) = (peak.clone(), running.clone());
            async move {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Failed>(())
            }
        });
    let worker = fixture.serve(worker);
    let client = &fixture.client;
    // The second passes the limit: what it used counts, and the third waits for a new period.
    let budget = client.create_budget(BudgetSpec::new().hard("tokens", 15)).await?;
    let spend = |name: &str| client.start(Task::new(name, "spend").lane("limit").budget(budget));
    for (name, used) in [("first", 10), ("second", 20)] {
        client.wait_within(&spend(name).await?, PATIENCE).await?;
        let counted = client.budget(budget).await?.used["tokens"];
        check(counted == used, || format!("{counted} instead of {used}"))?;
    }
    let third = spend("third").await?;
    fixture.until(&third, |found| found.state == Some(PublicState::RateLimited)).await?;
    client.reset_budget(budget).await?;
    let ended = client.wait_within(&third, PATIENCE).await?;
    check(ended.is_success(), || format!("{ended:?}"))?;

    let quota = client.create_quota(QuotaSpec::new().concurrency(1)).await?;
    let mut slots = Vec::new();
    for n in 0..3 {
        let task = Task::new(format!("s{n}"), "slot").lane("limit").quota(quota);
        slots.push(client.start(task).await?);
    }
    for id in &slots {
        check(client.wait_within(id, PATIENCE).await?.is_success(), String::new)?;
    }
    check(most.load(Ordering::SeqCst) == 1, || {
        format!("{} at a time", most.load(Ordering::SeqCst))
    })?;
    worker.stop().await
}

/// Frames are read and followed as they come, binary as they are; progress and summaries too.
pub(crate) async fn output(fixture: Fixture) -> Served {
    let worker = fixture.worker("output").handler("talk", |context: Context| async move {
        context.progress(40, "talking").await?;
        for n in 0..3_u8 {
            context.frame("blob", vec![0xff, n]).await?;
        }
        context.summarize(&serde_json::json!({ "lines": 3 })).await?;
        context.progress(100, "done").await?;
        Ok::<_, Failed>(())
    });
    let client = &fixture.client;
    let id = client.start(Task::new("t", "talk").lane("output")).await?;
    let mut tail = client.tail(&id, AttemptIndex(0));
    let following = tokio::spawn(async move {
        let mut frames = Vec::new();
        while let Some(more) = tail.next().await? {
            frames.extend(more);
        }
        Ok::<_, ClientError>(frames)
    });
    let worker = fixture.serve(worker);
    client.wait_within(&id, PATIENCE).await?;
    let followed = tokio::time::timeout(PATIENCE, following).await???;
    let blobs: Vec<_> = followed.iter().filter(|frame| frame.kind == "blob").collect();
    check(blobs.len() == 3 && blobs[2].payload == [0xff, 2], || format!("{followed:?}"))?;
    let page = client.frames(&id, AttemptIndex(0), None, 2).await?;
    check(page.frames.len() == 2 && page.closed.is_some(), || format!("{page:?}"))?;
    let summary = client.summary(&id, AttemptIndex(0)).await?.unwrap_or_default();
    check(summary == br#"{"lines":3}"#, || String::from_utf8_lossy(&summary).into_owned())?;
    let found = client.execution(&id).await?;
    check(found.progress_percent == Some(100), || format!("{found:?}"))?;
    worker.stop().await
}

/// The work of a worker that dies in the middle comes back after its lease, once.
pub(crate) async fn lost_worker(fixture: Fixture) -> Served {
    let lease = Duration::from_millis(500);
    let dying = fixture.worker("lost").lease(lease).handler("lost", |_: Context| async {
        std::future::pending::<()>().await;
        Ok::<_, Failed>(())
    });
    let dying = fixture.serve(dying);
    let id = fixture.client.start(Task::new("m", "lost").lane("lost")).await?;
    fixture.until_running(&id).await?;
    dying.kill().await;
    // On a busy machine it may have lost its lease before it died, once or more often.
    let before = fixture.client.execution(&id).await?;
    let is_held = before.state == Some(PublicState::Active);
    let expected = before.reclaims + u32::from(is_held);
    let heir =
        fixture.worker("lost").handler("lost", |_: Context| async { Ok::<_, Failed>("came back") });
    let heir = fixture.serve(heir);
    let ended = fixture.client.wait_within(&id, PATIENCE).await?;
    check(ended.result == b"came back", || format!("{ended:?}"))?;
    let after = fixture.client.execution(&id).await?.reclaims;
    check(after == expected, || format!("reclaimed {after} times, {expected} expected"))?;
    check(expected > 0, || "nobody had to reclaim it".to_owned())?;
    heir.stop().await
}

/// A worker that is told to stop lets handlers finish, and gives back what does not.
pub(crate) async fn drain(fixture: Fixture) -> Served {
    let worker = fixture
        .worker("drain")
        .drain_within(Duration::from_secs(2))
        .handler("slow", |_: Context| async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok::<_, Failed>("finished")
        })
        .handler("stuck", |context: Context| async move {
            if !context.is_resumed() {
                std::future::pending::<()>().await;
            }
            Ok::<_, Failed>("taken over")
        });
    let first = fixture.serve(worker);
    let slow = fixture.client.start(Task::new("a", "slow").lane("drain")).await?;
    let stuck = fixture.client.start(Task::new("b", "stuck").lane("drain")).await?;
    fixture.until(&slow, |found| found.started_at.is_some()).await?;
    fixture.until_running(&stuck).await?;
    first.stop().await?;
    let ended = fixture.client.outcome(&slow).await?;
    let result = ended.map(|ended| ended.result);
    check(result.as_deref() == Some(b"finished"), || format!("{result:?}"))?;
    let second = fixture
        .worker("drain")
        .handler("stuck", |_: Context| async { Ok::<_, Failed>("taken over") });
    let second = fixture.serve(second);
    let ended = fixture.client.wait_within(&stuck, PATIENCE).await?;
    check(ended.result == b"taken over", || format!("{ended:?}"))?;
    second.stop().await
}

/// Work goes to those who can do it.
pub(crate) async fn capabilities(fixture: Fixture) -> Served {
    let plain =
        fixture.worker("able").handler("any", |_: Context| async { Ok::<_, Failed>("plain") });
    let able = fixture
        .worker("able")
        .capabilities(["gpu"])
        .handler("any", |_: Context| async { Ok::<_, Failed>("able") });
    let client = &fixture.client;
    let needs = client.start(Task::new("n", "any").lane("able").needs(["gpu"])).await?;
    let plain = fixture.serve(plain);
    let other = client.start(Task::new("o", "any").lane("able")).await?;
    let ended = client.wait_within(&other, PATIENCE).await?;
    check(ended.result == b"plain", || format!("{ended:?}"))?;
    check(client.outcome(&needs).await?.is_none(), String::new)?;
    let able = fixture.serve(able);
    let ended = client.wait_within(&needs, PATIENCE).await?;
    check(ended.result == b"able", || format!("{ended:?}"))?;
    plain.stop().await?;
    able.stop().await
}

/// A chain gets on, link by link, past many that the worker cannot do: each becomes ready at the
/// front while the worker is still on its way through those.
pub(crate) async fn past_others(fixture: Fixture) -> Served {
    let mut flow = Flow::new("past others");
    for nth in 0..OTHERS {
        let other = Task::new(format!("other-{nth}"), "any").lane("crowd");
        flow = flow.task(other.needs(["gpu"]).priority(1));
    }
    for nth in 0..LINKS {
        let link = Task::new(format!("link-{nth}"), "any").lane("crowd").priority(9_000);
        let before = nth.checked_sub(1).map(|before| format!("link-{before}"));
        flow = flow.task(link.after(before));
    }
    let worker =
        fixture.worker("crowd").handler("any", |_: Context| async { Ok::<_, Failed>("done") });
    let serving = fixture.serve(worker);
    let flow = fixture.client.submit(flow).await?;
    let last = &flow[format!("link-{}", LINKS - 1).as_str()];
    let ended = fixture.client.wait_within(last, PATIENCE).await;
    fixture.client.cancel_flow(flow.id, "over").await?;
    serving.stop().await?;
    let ended = ended?;
    check(ended.result == b"done", || format!("{ended:?}"))
}

/// More than a claim looks at, several times over.
const OTHERS: u32 = 300;
const LINKS: u32 = 12;
