//! The load: submits flows all the time, and records what callers were told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge::client::{
    Client, ClientError, Flow, OnSatisfied, Outcome, SubmittedFlow, Task, TerminalOutcome,
};
use selvedge_core::error::Class;
use selvedge_core::id::ExecutionId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clock_ms;
use super::process_main::Kind;
use selvedge_sim::search::Draws;

/// What callers were told.
#[derive(Clone, Debug, Default)]
pub struct CallerRecord {
    /// Executions that were accepted: when, and how they may end.
    pub accepted: BTreeMap<ExecutionId, Accepted>,
    /// Executions that are said to have ended.
    pub ended: Vec<Ended>,
    /// Executions that were accepted, and later said not to be there, and when.
    pub denied: Vec<(ExecutionId, u64)>,
    /// Errors that callers got although only faults were injected.
    pub refused: Vec<String>,
    /// Submissions without an acknowledgement.
    pub unanswered: usize,
}

/// An execution whose submission was acknowledged.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// When the caller was told.
    pub at_ms: u64,
    /// How it may end.
    pub outcomes: &'static [TerminalOutcome],
}

/// An end that was reported to a caller.
#[derive(Clone, Debug)]
pub struct Ended {
    /// When the caller was told.
    pub at_ms: u64,
    /// Which execution.
    pub id: ExecutionId,
    /// How it ended.
    pub outcome: TerminalOutcome,
    /// What it gave back.
    pub result: Vec<u8>,
}

/// Submits flows until `stop` is cancelled, and waits for the ends of some.
pub async fn submit_until(client: Client, seed: u64, stop: CancellationToken) -> CallerRecord {
    let book = Arc::new(SharedRecord::default());
    let mut draws = Draws::seeded(seed, 1);
    let mut waiting = JoinSet::new();
    let mut number = 0_u64;
    while !stop.is_cancelled() {
        number += 1;
        let shape = SHAPES[draws.index(SHAPES.len())];
        let watched = shape[draws.index(shape.len())].0;
        let key = format!("{seed}-{number}");
        waiting.spawn(submit(client.clone(), shape, watched, key, book.clone()));
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    // No more faults: those that still wait get some time, in which all work ends.
    let all = async { while waiting.join_next().await.is_some() {} };
    // Whoever still waits then gets no reply; the judge looks at the work itself.
    let _ = tokio::time::timeout(WAIT_IN_PEACE, all).await;
    waiting.shutdown().await;
    std::mem::take(&mut book.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Submits one flow and waits for the end of one of its tasks.
async fn submit(
    client: Client,
    shape: &'static [Planned],
    watched: &'static str,
    key: String,
    book: Arc<SharedRecord>,
) {
    book.ask();
    match client.submit(flow(shape).idempotency_key(key)).await {
        Ok(submitted) => {
            book.accept(&submitted, shape);
            match client.wait_within(&submitted[watched], WAIT_MAX).await {
                Ok(end) => book.end(end),
                Err(ClientError::NotFound { .. }) => book.deny(submitted[watched].clone()),
                Err(error) => book.hear("wait", &error),
            }
        }
        Err(error) => book.hear("submit", &error),
    }
}

/// The record that all submitters share.
#[derive(Default)]
struct SharedRecord(Mutex<CallerRecord>);

impl SharedRecord {
    fn accept(&self, submitted: &SubmittedFlow, shape: &[Planned]) {
        let at_ms = clock_ms();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.unanswered -= 1;
        for (name, _, _, outcomes) in shape {
            told.accepted.insert(submitted[*name].clone(), Accepted { at_ms, outcomes });
        }
    }

    fn end(&self, end: Outcome) {
        let Outcome { id, outcome, result, .. } = end;
        let ended = Ended { at_ms: clock_ms(), id, outcome, result };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ended.push(ended);
    }

    fn deny(&self, id: ExecutionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).denied.push((id, clock_ms()));
    }

    /// A store that is away or slow is what faults are about; any other error is an answer, and no
    /// fault of ours makes a function raise.
    fn hear(&self, asked: &str, error: &ClientError) {
        let raised =
            matches!(error, ClientError::Unavailable(error) if error.class == Class::Broken);
        let away = matches!(
            error,
            ClientError::Unavailable(_) | ClientError::TimedOut(_) | ClientError::Store(_)
        );
        if raised || !away {
            let told = format!("{asked} was told: {error}");
            self.0.lock().unwrap_or_else(PoisonError::into_inner).refused.push(told);
        }
    }

    /// A submission begins; it counts as unanswered until a reply comes.
    fn ask(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unanswered += 1;
    }
}

/// A task of a shape: its name, its kind, after whom it comes, and how it may end.
type Planned = (&'static str, Kind, &'static [&'static str], &'static [TerminalOutcome]);

fn flow(shape: &[Planned]) -> Flow {
    shape.iter().fold(Flow::new("live"), |flow, (name, kind, after, _)| {
        let task = Task::new(*name, kind.name()).retries(5, Duration::from_millis(50));
        let task = match (*name, after.is_empty()) {
            (_, true) => task,
            (RACE, false) => task.after_any(after.iter().copied(), OnSatisfied::CancelRemaining),
            (_, false) => task.after(after.iter().copied()),
        };
        flow.task(task)
    })
}

/// The one task that goes as soon as any of those before it has succeeded.
const RACE: &str = "race";

const SUCCESS: &[TerminalOutcome] = &[TerminalOutcome::Success];
const FAILED: &[TerminalOutcome] = &[TerminalOutcome::Failed];
const SKIPPED: &[TerminalOutcome] = &[TerminalOutcome::Skipped];
/// Of several that race, the slower ones are cancelled, or skipped where they never began.
const RACING: &[TerminalOutcome] =
    &[TerminalOutcome::Success, TerminalOutcome::Cancelled, TerminalOutcome::Skipped];

const SHAPES: [&[Planned]; 5] = [
    &[("only", Kind::Plain, &[], SUCCESS)],
    &[
        ("first", Kind::Plain, &[], SUCCESS),
        ("second", Kind::Flaky, &["first"], SUCCESS),
        ("third", Kind::Plain, &["second"], SUCCESS),
    ],
    &[
        ("source", Kind::Plain, &[], SUCCESS),
        ("left", Kind::Plain, &["source"], SUCCESS),
        ("right", Kind::Patient, &["source"], SUCCESS),
        ("sink", Kind::Plain, &["left", "right"], SUCCESS),
    ],
    &[
        ("hare", Kind::Plain, &[], RACING),
        ("tortoise", Kind::Patient, &[], RACING),
        (RACE, Kind::Plain, &["hare", "tortoise"], SUCCESS),
    ],
    &[("doomed", Kind::Doomed, &[], FAILED), ("orphan", Kind::Plain, &["doomed"], SKIPPED)],
];

/// A flow every so often: enough that something is always under way.
const PAUSE: Duration = Duration::from_millis(120);

/// After the last fault.
const WAIT_IN_PEACE: Duration = Duration::from_secs(45);

/// Past the end of any schedule.
const WAIT_MAX: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::error::ServerError;

    #[test]
    fn an_unreachable_store_is_no_answer_and_a_script_error_is_one() {
        let heard = |error: ClientError| {
            let book = SharedRecord::default();
            book.hear("submit", &error);
            book.0.lock().unwrap().refused.pop()
        };
        let reply = |text: &str| ClientError::Unavailable(ServerError::from_reply(text));
        for away in [
            reply("LOADING Valkey is loading the dataset in memory"),
            reply("CLUSTERDOWN The cluster is down"),
            ClientError::Unavailable(ServerError::silence("the connection broke")),
            ClientError::TimedOut(WAIT_MAX),
        ] {
            assert_eq!(heard(away), None);
        }
        let raised = "ERR user_function:7: attempt to index a nil value, script: ff_submit_flow";
        for answer in [
            reply(raised),
            ClientError::NotFound { kind: "execution", id: "some".to_owned() },
            ClientError::InvalidInput("no flow".to_owned()),
        ] {
            let told = format!("submit was told: {answer}");
            assert_eq!(heard(answer), Some(told));
        }
    }
}
