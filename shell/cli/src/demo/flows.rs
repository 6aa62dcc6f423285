//! The sample work.

use std::time::Duration;

use selvedge_core::id::ExecutionId;

use super::Lanes;
use selvedge::client::{Client, ClientError, Flow, OnSatisfied, Task, TerminalOutcome};

/// A piece of work before it is submitted, and how its tasks should end, by name.
pub(super) struct DemoFlow {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    work: Work,
    pub(super) expected: Vec<(String, TerminalOutcome)>,
}

enum Work {
    Flow(Flow),
    Alone(Box<Task>),
}

/// A piece of work that was submitted, and how its tasks should end.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    pub(super) expected: Vec<(ExecutionId, TerminalOutcome)>,
}

/// Mirrors that answer, of all that are asked.
const QUORUM: u32 = 2;
const MIRRORS: [&str; 5] = ["mirror-1", "mirror-2", "mirror-3", "mirror-4", "mirror-5"];

/// Everything that is to be submitted.
pub(super) fn demo_flows(lanes: &Lanes) -> Vec<DemoFlow> {
    vec![fan_out(lanes), quorum(lanes), flaky(lanes), approval(lanes), lost(lanes)]
}

/// Submits everything.
pub(super) async fn submit(client: &Client, lanes: &Lanes) -> Result<Vec<Sample>, ClientError> {
    let mut samples = Vec::new();
    for DemoFlow { name, shows, work, expected } in demo_flows(lanes) {
        let expected = match work {
            Work::Flow(flow) => {
                let flow = client.submit(flow).await?;
                let id_of = |name: String| flow[name.as_str()].clone();
                expected.into_iter().map(|(name, outcome)| (id_of(name), outcome)).collect()
            }
            Work::Alone(task) => {
                let id = client.start(*task).await?;
                expected.into_iter().map(|(_, outcome)| (id.clone(), outcome)).collect()
            }
        };
        samples.push(Sample { name, shows, expected });
    }
    Ok(samples)
}

fn fan_out(lanes: &Lanes) -> DemoFlow {
    let task = |name: &str, kind: &str| Task::new(name, kind).lane(&lanes.all);
    let flow = Flow::new("demo.report")
        .task(task("fetch", "fetch").payload("https://example.org/data"))
        .tasks(["de", "en", "fr"].map(|language| {
            let name = format!("render-{language}");
            Task::new(name, "render").lane(&lanes.all).payload(language).after(["fetch"])
        }))
        .task(task("publish", "publish").after(["render-de", "render-en", "render-fr"]));
    DemoFlow {
        name: "fan-out",
        shows: "one task feeds three, a last one joins them",
        expected: flow.names().map(|name| (name.to_owned(), TerminalOutcome::Success)).collect(),
        work: Work::Flow(flow),
    }
}

fn quorum(lanes: &Lanes) -> DemoFlow {
    let answers = |at: usize| u32::try_from(at).is_ok_and(|at| at < QUORUM);
    let mirrors = MIRRORS.iter().enumerate().map(|(at, name)| {
        let speed: &[u8] = if answers(at) { b"fast" } else { b"slow" };
        Task::new(*name, "mirror").lane(&lanes.all).payload(speed)
    });
    let agree = Task::new("agree", "agree").lane(&lanes.all);
    let flow = Flow::new("demo.quorum").tasks(mirrors).task(agree.after_quorum(
        QUORUM,
        MIRRORS,
        OnSatisfied::CancelRemaining,
    ));
    let mut expected = vec![("agree".to_owned(), TerminalOutcome::Success)];
    expected.extend(MIRRORS.iter().enumerate().map(|(at, name)| {
        let outcome =
            if answers(at) { TerminalOutcome::Success } else { TerminalOutcome::Cancelled };
        ((*name).to_owned(), outcome)
    }));
    let shows = "two of five suffice, the rest is cancelled";
    DemoFlow { name: "quorum", shows, work: Work::Flow(flow), expected }
}

fn flaky(lanes: &Lanes) -> DemoFlow {
    let task = Task::new("flaky", "flaky").lane(&lanes.all).retries(5, Duration::from_millis(200));
    alone("flaky", "fails twice, and is tried again", task)
}

fn approval(lanes: &Lanes) -> DemoFlow {
    let task = Task::new("approve", "approve").lane(&lanes.all);
    alone("approval", "waits for a signal with a signed token", task)
}

fn lost(lanes: &Lanes) -> DemoFlow {
    let task = Task::new("recover", "recover").lane(&lanes.recover);
    alone("lost", "its worker is killed; the work comes back", task)
}

/// A task that belongs to no flow, and that should succeed.
fn alone(name: &'static str, shows: &'static str, task: Task) -> DemoFlow {
    let expected = vec![(task.name().to_owned(), TerminalOutcome::Success)];
    DemoFlow { name, shows, work: Work::Alone(Box::new(task)), expected }
}
