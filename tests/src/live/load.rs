//! The load: submits flows all the time, and records what callers were told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge::client::{
    BudgetSpec, Client, ClientError, Outcome, QuotaSpec, Signal, SubmittedFlow, TerminalOutcome,
};
use selvedge_core::error::Class;
use selvedge_core::id::ExecutionId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clock_ms;
use super::process_main::SIGNAL;
use super::shapes::{Action, Limits, Planned, SHAPES, Shape};
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
    /// Executions that accepted their signal, and when.
    pub signalled: BTreeMap<ExecutionId, u64>,
    /// Limits that were created, and later said not to be there.
    pub limits_denied: Vec<String>,
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
        let shape = &SHAPES[draws.index(SHAPES.len())];
        let watched = shape.tasks[draws.index(shape.tasks.len())].0;
        let pause = Duration::from_millis(u64::try_from(draws.index(800)).unwrap_or(0));
        let caller =
            Caller { client: client.clone(), key: format!("{seed}-{number}"), book: book.clone() };
        waiting.spawn(caller.submit(shape, watched, pause));
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

/// The caller of one flow.
struct Caller {
    client: Client,
    key: String,
    book: Arc<SharedRecord>,
}

impl Caller {
    /// Submits the flow, does what its shape says, and waits for the end of one of its tasks.
    async fn submit(self, shape: &'static Shape, watched: &'static str, pause: Duration) {
        let limits = match self.create_limits(shape.action).await {
            Ok(limits) => limits,
            Err(error) => return self.book.hear("create", &error),
        };
        self.book.ask();
        match self.client.submit(shape.flow(limits).idempotency_key(&self.key)).await {
            Ok(submitted) => {
                self.book.accept(&submitted, shape.tasks);
                match shape.action {
                    Action::Wait | Action::Limit => {}
                    Action::Cancel => {
                        tokio::time::sleep(pause).await;
                        self.cancel(&submitted).await;
                    }
                    Action::Signal => self.signal(&submitted[shape.tasks[0].0]).await,
                }
                self.wait(&submitted[watched]).await;
            }
            Err(ClientError::NotFound { kind, id }) if limits.is_some() => {
                self.book.deny_limit(format!("{kind} {id}"));
            }
            Err(error) => self.book.hear("submit", &error),
        }
    }

    async fn create_limits(&self, action: Action) -> Result<Limits, ClientError> {
        if action != Action::Limit {
            return Ok(None);
        }
        let budget = self.client.create_budget(BudgetSpec::new().hard("units", 100)).await?;
        let quota = self.client.create_quota(QuotaSpec::new().concurrency(1)).await?;
        Ok(Some((budget, quota)))
    }

    async fn wait(&self, id: &ExecutionId) {
        match self.client.wait_within(id, WAIT_MAX).await {
            Ok(end) => self.book.end(end),
            Err(ClientError::NotFound { .. }) => self.book.deny(id.clone()),
            Err(error) => self.book.hear("wait", &error),
        }
    }

    /// Cancels the flow; one that has ended meanwhile says so.
    async fn cancel(&self, submitted: &SubmittedFlow) {
        match self.client.cancel_flow(submitted.id, "no longer wanted").await {
            Ok(_) | Err(ClientError::Refused(_) | ClientError::NotFound { .. }) => {}
            Err(error) => self.book.hear("cancel", &error),
        }
    }

    /// Sends the signal as soon as the execution waits for it. One that has stopped waiting
    /// meanwhile, because its time was over, refuses it.
    async fn signal(&self, id: &ExecutionId) {
        for _ in 0..SIGNAL_TRIES {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let ticket = match self.client.ticket(id).await {
                Ok(Some(ticket)) => ticket,
                Ok(None) => continue,
                Err(error) => return self.book.hear_or_ignore_missing("ticket", &error),
            };
            let signal = Signal::new(SIGNAL).idempotency_key(&self.key);
            match self.client.signal(&ticket, signal).await {
                Ok(_) => return self.book.signalled(id.clone()),
                Err(ClientError::Refused(_)) => return,
                // Perhaps it was accepted: it is sent again, and counts once.
                Err(error) => self.book.hear_or_ignore_missing("signal", &error),
            }
        }
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

    fn signalled(&self, id: ExecutionId) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.signalled.insert(id, clock_ms());
    }

    fn deny_limit(&self, limit: String) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.unanswered -= 1;
        told.limits_denied.push(limit);
    }

    /// An execution that is missing is found by the judge.
    fn hear_or_ignore_missing(&self, asked: &str, error: &ClientError) {
        if !matches!(error, ClientError::NotFound { .. }) {
            self.hear(asked, error);
        }
    }

    fn deny(&self, id: ExecutionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).denied.push((id, clock_ms()));
    }

    /// A store that is away or slow is what faults are about; any other error is an answer, and no
    /// fault of ours makes a function raise.
    fn hear(&self, asked: &str, error: &ClientError) {
        let raised = error.server().is_some_and(|error| error.class == Class::Broken);
        let away = error.server().is_some()
            || matches!(error, ClientError::TimedOut(_) | ClientError::Store(_));
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

/// A flow every so often: enough that something is always under way.
const PAUSE: Duration = Duration::from_millis(120);

/// How often a caller looks whether an execution waits for its signal.
const SIGNAL_TRIES: usize = 100;

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
        let reply = |text: &str| ClientError::from(ServerError::from_reply(text));
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
            ClientError::InvalidInput(selvedge::client::InvalidInput::NoSignal),
        ] {
            let told = format!("submit was told: {answer}");
            assert_eq!(heard(answer), Some(told));
        }
    }
}
