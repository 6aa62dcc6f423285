//! An engine is killed with SIGKILL in the middle of its work; another one finishes it, and nothing
//! is lost or done twice. The same for a server with an append-only file.

use std::time::Duration;

use selvedge::client::{Client, Flow, OnSatisfied, SubmittedFlow, Task};
use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::id::ExecutionId;
use selvedge_core::state::{PublicState, TerminalOutcome};
use selvedge_tests::server::{Kind, Options, Server};

use crate::kit::{
    EngineProcess, Hands, PATIENCE as SOON, block_on, client_on, engine_on, open, sound, until,
    url_of,
};

/// Long enough to be killed in the middle of, in several batches.
const MANY: usize = 600;

/// The engine may be too quick to be caught; then the same is tried with another flow.
const TRIES: usize = 20;

async fn in_state(client: &Client, ids: &[ExecutionId], state: PublicState) -> usize {
    let listed = client.states(ids.to_vec()).await.unwrap();
    listed.iter().filter(|listed| listed.state == Some(state)).count()
}

/// A piece of work of many steps, and what must have become of it.
struct Work {
    flow: SubmittedFlow,
    /// Those that the engine brings into `state`, one after the other.
    steps: Vec<ExecutionId>,
    state: PublicState,
    ends: &'static [(TerminalOutcome, usize)],
    /// How many handlers may run for it.
    runs: usize,
}

impl Work {
    fn new(flow: SubmittedFlow, steps: &str, state: PublicState) -> Self {
        let steps = flow.executions.iter().filter(|(name, _)| name.starts_with(steps));
        let steps = steps.map(|(_, id)| id.clone()).collect();
        Self { flow, steps, state, ends: &[], runs: 0 }
    }
}

/// Kills an engine when some but not all steps of a piece of work are done, and holds the second
/// one to the outcome.
fn a_second_engine_finishes(begin: impl AsyncFn(Client) -> Work) {
    let server = Server::valkey().unwrap();
    let url = url_of(&server);
    block_on(async {
        let store = open(&url).await;
        let client = client_on(&store).await;
        let mut caught = false;
        for _ in 0..TRIES {
            let engine = EngineProcess::start(&url.to_string(), &[]);
            let hands = Hands::steady(&client, "quick");
            let Work { flow, steps, state, ends, runs } = begin(client.clone()).await;
            until("the first step", SOON, || async { in_state(&client, &steps, state).await > 0 })
                .await;
            engine.kill_9();
            caught = in_state(&client, &steps, state).await < steps.len();

            let second = EngineProcess::start(&url.to_string(), &[]);
            let outcome = client.wait_flow_within(flow.id, SOON).await.unwrap();
            for (end, count) in ends {
                assert_eq!(outcome.count(*end), *count, "{end:?}");
            }
            assert_eq!(hands.runs(), runs, "nothing runs twice, or for nothing");
            drop(second);
            if caught {
                break;
            }
        }
        assert!(caught, "no engine was killed in the middle");
        sound(&client).await;
    });
}

#[test]
fn a_second_engine_finishes_the_cancel_of_siblings() {
    a_second_engine_finishes(async |client| {
        let names: Vec<String> = (0..MANY).map(|n| format!("slow-{n}")).collect();
        let racers = names.iter().map(|name| Task::new(name, "ok").lane("nobody"));
        let all = names.iter().cloned().chain(["winner".to_owned()]);
        let join = Task::new("join", "ok").lane("quick");
        let flow = Flow::new("race")
            .tasks(racers)
            .task(Task::new("winner", "ok").lane("quick"))
            .task(join.after_any(all, OnSatisfied::CancelRemaining));
        let flow = client.submit(flow).await.unwrap();
        let ends = &[(TerminalOutcome::Cancelled, MANY), (TerminalOutcome::Success, 2)];
        Work { ends, runs: 2, ..Work::new(flow, "slow-", PublicState::Cancelled) }
    });
}

#[test]
fn a_second_engine_finishes_a_cascade() {
    a_second_engine_finishes(async |client| {
        // A tree three deep: its root fails, and nobody below can ever run.
        let mut flow = Flow::new("tree").task(Task::new("root", "fail").lane("quick"));
        for branch in 0..20 {
            let name = format!("node-{branch}");
            flow = flow.task(Task::new(&name, "ok").lane("quick").after(["root"]));
            for leaf in 0..20 {
                let leaf = format!("node-{branch}-{leaf}");
                flow = flow.task(Task::new(leaf, "ok").lane("quick").after([name.clone()]));
            }
        }
        let flow = client.submit(flow).await.unwrap();
        let ends = &[(TerminalOutcome::Skipped, 420), (TerminalOutcome::Failed, 1)];
        Work { ends, runs: 1, ..Work::new(flow, "node-", PublicState::Skipped) }
    });
}

#[test]
fn a_second_engine_finishes_the_cancel_of_a_flow() {
    a_second_engine_finishes(async |client| {
        let tasks = (0..MANY).map(|n| Task::new(format!("task-{n}"), "ok").lane("nobody"));
        let flow = client.submit(Flow::new("doomed").tasks(tasks)).await.unwrap();
        // The caller says it and is gone: every single cancel is left to the engine.
        let cancel = CancelFlow {
            partition: client.partitions().of_flow(flow.id),
            flow_id: flow.id,
            reason: "enough".to_owned(),
            policy: CancellationPolicy::CancelAll,
            grace_ms: Some(0),
        };
        client.store().call(&cancel).await.unwrap();
        let ends = &[(TerminalOutcome::Cancelled, MANY)];
        Work { ends, ..Work::new(flow, "task-", PublicState::Cancelled) }
    });
}

#[test]
fn work_continues_after_a_kill_of_an_append_only_server() {
    let options = Options::default().line("appendonly yes").line("appendfsync always");
    let mut server = Server::start(Kind::Valkey, options).unwrap();
    let url = url_of(&server);
    block_on(async {
        let store = open(&url).await;
        let engine = engine_on(&store).start().await.unwrap();
        let client = client_on(&store).await;
        let hands = Hands::on(&client, "quick");
        let mut flows = Vec::new();
        for round in 0..10 {
            let mut flow = Flow::new("chain");
            for step in 0..10 {
                let task = Task::new(format!("{step}"), "ok").lane("quick");
                let before = (step > 0).then(|| format!("{}", step - 1));
                flow = flow.task(task.after(before));
            }
            flows.push(client.submit(flow).await.unwrap().id);
            if round == 4 {
                until("some are done", SOON, || async { hands.runs() > 5 }).await;
                server.kill_9().unwrap();
                until("it is noticed", SOON, || async { !engine.health().is_ready() }).await;
                let health = engine.health();
                assert!(health.is_live(), "{health:?}");
                server.restart().unwrap();
            }
        }
        for flow in flows {
            let outcome = client.wait_flow_within(flow, SOON).await.unwrap();
            assert_eq!(outcome.count(TerminalOutcome::Success), 10);
        }
        until("it is ready again", SOON, || async { engine.health().is_ready() }).await;
        engine.shutdown(Duration::from_secs(5)).await.unwrap();
        sound(&client).await;
    });
}
