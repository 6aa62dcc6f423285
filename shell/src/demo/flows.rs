//! The sample work.

use std::time::Duration;

use selvedge_core::id::ExecutionId;

use super::Lanes;
use crate::client::{Client, ClientError, Flow, OnSatisfied, SubmittedFlow, Task, TerminalOutcome};

/// A piece of work, and how its tasks should end.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    pub(super) expected: Vec<(ExecutionId, TerminalOutcome)>,
}

/// Mirrors that answer, of all that are asked.
const QUORUM: u32 = 2;
const MIRRORS: [&str; 5] = ["mirror-1", "mirror-2", "mirror-3", "mirror-4", "mirror-5"];

/// Submits everything.
pub(super) async fn submit(client: &Client, lanes: &Lanes) -> Result<Vec<Sample>, ClientError> {
    Ok(vec![
        fan_out(client, lanes).await?,
        quorum(client, lanes).await?,
        flaky(client, lanes).await?,
        approval(client, lanes).await?,
        lost(client, lanes).await?,
    ])
}

async fn fan_out(client: &Client, lanes: &Lanes) -> Result<Sample, ClientError> {
    let task = |name: &str, kind: &str| Task::new(name, kind).lane(&lanes.all);
    let flow = Flow::new("demo.report")
        .task(task("fetch", "fetch").payload("https://example.org/data"))
        .tasks(["de", "en", "fr"].map(|language| {
            let name = format!("render-{language}");
            Task::new(name, "render").lane(&lanes.all).payload(language).after(["fetch"])
        }))
        .task(task("publish", "publish").after(["render-de", "render-en", "render-fr"]));
    let flow = client.submit(flow).await?;
    let shows = "one task feeds three, a last one joins them";
    Ok(Sample { name: "fan-out", shows, expected: all_succeed(&flow) })
}

async fn quorum(client: &Client, lanes: &Lanes) -> Result<Sample, ClientError> {
    let mirrors = MIRRORS.iter().enumerate().map(|(at, name)| {
        let answers = u32::try_from(at).is_ok_and(|at| at < QUORUM);
        let speed: &[u8] = if answers { b"fast" } else { b"slow" };
        Task::new(*name, "mirror").lane(&lanes.all).payload(speed)
    });
    let agree = Task::new("agree", "agree").lane(&lanes.all);
    let flow = Flow::new("demo.quorum").tasks(mirrors).task(agree.after_quorum(
        QUORUM,
        MIRRORS,
        OnSatisfied::CancelRemaining,
    ));
    let flow = client.submit(flow).await?;
    let winners = usize::try_from(QUORUM).unwrap_or(0);
    let mut expected = vec![(flow["agree"].clone(), TerminalOutcome::Success)];
    expected.extend(MIRRORS.iter().enumerate().map(|(at, name)| {
        let wins = at < winners;
        let outcome = if wins { TerminalOutcome::Success } else { TerminalOutcome::Cancelled };
        (flow[name].clone(), outcome)
    }));
    Ok(Sample { name: "quorum", shows: "two of five suffice, the rest is cancelled", expected })
}

async fn flaky(client: &Client, lanes: &Lanes) -> Result<Sample, ClientError> {
    let task = Task::new("flaky", "flaky").lane(&lanes.all).retries(5, Duration::from_millis(200));
    let expected = vec![(client.start(task).await?, TerminalOutcome::Success)];
    Ok(Sample { name: "flaky", shows: "fails twice, and is tried again", expected })
}

async fn approval(client: &Client, lanes: &Lanes) -> Result<Sample, ClientError> {
    let task = Task::new("approve", "approve").lane(&lanes.all);
    let expected = vec![(client.start(task).await?, TerminalOutcome::Success)];
    Ok(Sample { name: "approval", shows: "waits for a signal with a signed token", expected })
}

async fn lost(client: &Client, lanes: &Lanes) -> Result<Sample, ClientError> {
    let task = Task::new("mortal", "mortal").lane(&lanes.mortal);
    let expected = vec![(client.start(task).await?, TerminalOutcome::Success)];
    Ok(Sample { name: "lost", shows: "its worker is killed; the work comes back", expected })
}

fn all_succeed(flow: &SubmittedFlow) -> Vec<(ExecutionId, TerminalOutcome)> {
    flow.executions.values().map(|id| (id.clone(), TerminalOutcome::Success)).collect()
}
