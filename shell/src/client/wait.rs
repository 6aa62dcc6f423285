//! Waiting until executions or flows have ended.
//!
//! A waiter registers with the [`CompletionListener`](super::completions::CompletionListener)
//! before it reads, so that an end in between wakes it. It reads again when pushes may have been
//! missed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_core::command::Command;
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::Key;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use tokio::time::timeout;

use super::reply::{as_bytes, fields};
use super::{Client, ClientError, MemberCursor};

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The execution.
    pub id: ExecutionId,
    /// How it ended.
    pub outcome: TerminalOutcome,
    /// The result of its handler; empty if there is none.
    pub result: Vec<u8>,
    /// Why it failed, expired or was cancelled; empty otherwise.
    pub reason: String,
}

impl Outcome {
    /// Whether it succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome == TerminalOutcome::Success
    }
}

/// How a flow ended, task by task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowOutcome {
    /// The flow.
    pub id: FlowId,
    /// How each of its tasks ended.
    pub tasks: BTreeMap<ExecutionId, TerminalOutcome>,
}

impl FlowOutcome {
    /// How many tasks ended with this outcome.
    #[must_use]
    pub fn count(&self, outcome: TerminalOutcome) -> usize {
        self.tasks.values().filter(|ended| **ended == outcome).count()
    }

    /// Whether no task failed or expired.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.count(TerminalOutcome::Failed) + self.count(TerminalOutcome::Expired) == 0
    }
}

impl Client {
    /// Waits until an execution has ended, without a time limit. Woken by pushes; reads at least
    /// every 15 seconds.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist or was deleted; otherwise when the store
    /// does not answer.
    pub async fn wait(&self, id: &ExecutionId) -> Result<Outcome, ClientError> {
        let waiter = self.completions().register(std::slice::from_ref(id));
        loop {
            if let Some(outcome) = self.outcome(id).await? {
                return Ok(outcome);
            }
            waiter.changed().await;
        }
    }

    /// [`Client::wait`] with a time limit.
    ///
    /// # Errors
    /// As for [`Client::wait`]; [`ClientError::TimedOut`] when the limit is reached.
    pub async fn wait_within(
        &self,
        id: &ExecutionId,
        limit: Duration,
    ) -> Result<Outcome, ClientError> {
        timeout(limit, self.wait(id)).await.unwrap_or(Err(ClientError::TimedOut(limit)))
    }

    /// How an execution ended; `None` while it has not. One round trip.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn outcome(&self, id: &ExecutionId) -> Result<Option<Outcome>, ClientError> {
        let keys = Key::execution(id);
        let names: [&[u8]; 3] = [b"terminal_outcome", b"failure_reason", b"cancellation_reason"];
        let reads = vec![
            Command::read("HMGET", &keys.core(), &names),
            Command::read("GET", &keys.result(), &[]),
        ];
        let mut replies = self.read(reads).await?.into_iter();
        let record = replies.next().unwrap_or(Value::Nil);
        if matches!(&record, Value::Array(all) if all.first() == Some(&Value::Nil)) {
            return Err(ClientError::NotFound { kind: "execution", id: id.to_string() });
        }
        let record = fields(record);
        let field = |at: usize| record.get(at).map(String::as_str).unwrap_or_default();
        let outcome = field(0).parse().unwrap_or(TerminalOutcome::None);
        if outcome == TerminalOutcome::None {
            return Ok(None);
        }
        let reason = if outcome == TerminalOutcome::Cancelled { field(2) } else { field(1) };
        let result = replies.next().and_then(as_bytes).unwrap_or_default();
        Ok(Some(Outcome { id: id.clone(), outcome, result, reason: reason.to_owned() }))
    }

    /// Waits until all tasks of a flow have ended, without a time limit.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when the flow does not exist; otherwise when the store does not
    /// answer.
    pub async fn wait_flow(&self, id: FlowId) -> Result<FlowOutcome, ClientError> {
        let mut open = self.members(id).await?;
        let mut tasks = BTreeMap::new();
        let watched: Vec<ExecutionId> = open.iter().cloned().collect();
        let waiter = self.completions().register(&watched);
        loop {
            for id in self.ended(&open, &mut tasks).await? {
                open.remove(&id);
            }
            if open.is_empty() {
                return Ok(FlowOutcome { id, tasks });
            }
            waiter.changed().await;
        }
    }

    /// [`Client::wait_flow`] with a time limit.
    ///
    /// # Errors
    /// As for [`Client::wait_flow`]; [`ClientError::TimedOut`] when the limit is reached.
    pub async fn wait_flow_within(
        &self,
        id: FlowId,
        limit: Duration,
    ) -> Result<FlowOutcome, ClientError> {
        timeout(limit, self.wait_flow(id)).await.unwrap_or(Err(ClientError::TimedOut(limit)))
    }

    async fn members(&self, id: FlowId) -> Result<BTreeSet<ExecutionId>, ClientError> {
        self.flow(id).await?;
        let mut members = BTreeSet::new();
        let mut from = Some(MemberCursor::default());
        while let Some(cursor) = from {
            let (page, next) = self.flow_members(id, cursor, READS_PER_ROUND_TRIP).await?;
            members.extend(page.into_iter().map(|listed| listed.id));
            from = next;
        }
        Ok(members)
    }

    /// Returns which of the open executions have ended, and adds their outcomes to `tasks`. One
    /// whose record is deleted has ended, without a known outcome.
    async fn ended(
        &self,
        open: &BTreeSet<ExecutionId>,
        tasks: &mut BTreeMap<ExecutionId, TerminalOutcome>,
    ) -> Result<Vec<ExecutionId>, ClientError> {
        let open: Vec<ExecutionId> = open.iter().cloned().collect();
        let mut over = Vec::new();
        for ids in open.chunks(usize::try_from(READS_PER_ROUND_TRIP).unwrap_or(usize::MAX)) {
            let reads = ids
                .iter()
                .map(|id| {
                    Command::read("HMGET", &Key::execution(id).core(), &[b"terminal_outcome"])
                })
                .collect();
            for (id, reply) in ids.iter().zip(self.read(reads).await?) {
                let word = fields(reply).into_iter().next().unwrap_or_default();
                let outcome = word.parse().unwrap_or(TerminalOutcome::None);
                if outcome != TerminalOutcome::None {
                    tasks.insert(id.clone(), outcome);
                    over.push(id.clone());
                } else if word.is_empty() {
                    over.push(id.clone());
                }
            }
        }
        Ok(over)
    }
}

/// Executions read in one round trip.
const READS_PER_ROUND_TRIP: u32 = 500;
