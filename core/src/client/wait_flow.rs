//! Waits until all tasks of a flow have ended.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::wait::parse_outcome;
use super::{Failure, Procedure, Replies, Step, Wait};
use crate::command::Command;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::partition::Partition;
use crate::push::Hint;
use crate::reply::{fields, text};
use crate::state::{FlowState, MemberCounts, TerminalOutcome};
use crate::value::Value;

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
        let mut counts = MemberCounts::default();
        self.tasks.values().for_each(|outcome| counts.add_outcome(*outcome));
        counts.state(FlowState::Open.as_str()) != FlowState::Failed
    }
}

enum Stage {
    /// The members are being listed, from this cursor on.
    Listing(String),
    /// All known members are listed; the subscription is next.
    Listed,
    /// These members are being read.
    Reading(Vec<ExecutionId>),
    Waiting,
}

/// Waits until all tasks of a flow have ended, as [`Wait`] does for one. Tasks that are added while
/// it waits, by a submission in chunks, are waited for too.
pub struct WaitFlow {
    id: FlowId,
    partition: Partition,
    stage: Stage,
    /// How many members the flow had when they were listed.
    listed: i64,
    open: BTreeSet<ExecutionId>,
    /// Those of the open members that are not read yet since the last push.
    unread: Vec<ExecutionId>,
    tasks: BTreeMap<ExecutionId, TerminalOutcome>,
    /// Members whose record was deleted: they have ended, without a known outcome.
    deleted: BTreeSet<ExecutionId>,
}

impl WaitFlow {
    /// Waits for the flow of this partition.
    #[must_use]
    pub const fn new(id: FlowId, partition: Partition) -> Self {
        Self {
            id,
            partition,
            stage: Stage::Waiting,
            listed: 0,
            open: BTreeSet::new(),
            unread: Vec::new(),
            tasks: BTreeMap::new(),
            deleted: BTreeSet::new(),
        }
    }

    fn list(&mut self, cursor: String) -> Step<FlowOutcome> {
        let keys = Key::flow(self.partition, self.id);
        let page: [&[u8]; 3] = [cursor.as_bytes(), b"COUNT", PAGE.as_bytes()];
        let reads = vec![
            Command::read("EXISTS", &keys.core(), &[]),
            Command::read("SCARD", &keys.members(), &[]),
            Command::read("SSCAN", &keys.members(), &page),
        ];
        self.stage = Stage::Listing(cursor);
        Step::Send(reads)
    }

    fn on_page(&mut self, cursor: &str, mut replies: Replies) -> Step<FlowOutcome> {
        let (exists, count) = (replies.value(), replies.value());
        if exists == Value::Int(0) {
            return Step::Done(Err(Failure::not_found("flow", &self.id)));
        }
        if cursor == FIRST_PAGE {
            self.listed = number(&count);
        }
        let (next, members) = match replies.value() {
            Value::Array(parts) => {
                let mut parts = parts.into_iter();
                let next = parts.next().map(text).unwrap_or_default();
                (next, parts.next().map(fields).unwrap_or_default())
            }
            Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => {
                (String::new(), Vec::new())
            }
        };
        let known = |id: &ExecutionId| self.tasks.contains_key(id) || self.deleted.contains(id);
        let new: Vec<ExecutionId> =
            members.iter().filter_map(|id| id.parse().ok()).filter(|id| !known(id)).collect();
        self.open.extend(new);
        if next.is_empty() || next == FIRST_PAGE {
            self.stage = Stage::Listed;
            return Step::Listen(self.open.iter().cloned().collect());
        }
        self.list(next)
    }

    /// Reads the next of the open members, and how many members there are.
    fn read(&mut self) -> Step<FlowOutcome> {
        let from = self.unread.len().saturating_sub(READS_PER_STEP);
        let ids = self.unread.split_off(from);
        let members = Key::flow(self.partition, self.id).members();
        let mut reads = vec![Command::read("SCARD", &members, &[])];
        reads.extend(
            ids.iter().map(|id| {
                Command::read("HMGET", &Key::execution(id).core(), &[b"terminal_outcome"])
            }),
        );
        self.stage = Stage::Reading(ids);
        Step::Send(reads)
    }

    fn on_read(&mut self, ids: Vec<ExecutionId>, mut replies: Replies) -> Step<FlowOutcome> {
        let members = number(&replies.value());
        for id in ids {
            let word = fields(replies.value()).into_iter().next().unwrap_or_default();
            let outcome = match parse_outcome(&word) {
                Ok(outcome) => outcome,
                Err(failure) => return Step::Done(Err(failure)),
            };
            match outcome {
                TerminalOutcome::None if word.is_empty() => {
                    self.open.remove(&id);
                    self.deleted.insert(id);
                }
                TerminalOutcome::None => {}
                outcome @ (TerminalOutcome::Success
                | TerminalOutcome::Failed
                | TerminalOutcome::Cancelled
                | TerminalOutcome::Expired
                | TerminalOutcome::Skipped) => {
                    self.open.remove(&id);
                    self.tasks.insert(id, outcome);
                }
            }
        }
        if !self.unread.is_empty() {
            return self.read();
        }
        if members > self.listed {
            return self.list(FIRST_PAGE.to_string());
        }
        if self.open.is_empty() {
            let tasks = core::mem::take(&mut self.tasks);
            return Step::Done(Ok(FlowOutcome { id: self.id, tasks }));
        }
        self.stage = Stage::Waiting;
        Step::Wait { poll_within: Wait::POLL_EVERY, coalesce: COALESCE_WITHIN }
    }
}

impl Procedure for WaitFlow {
    type Output = FlowOutcome;

    fn begin(&mut self) -> Step<FlowOutcome> {
        self.list(FIRST_PAGE.to_string())
    }

    fn replied(&mut self, replies: Replies) -> Step<FlowOutcome> {
        match core::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Listing(cursor) => self.on_page(&cursor, replies),
            Stage::Reading(ids) => self.on_read(ids, replies),
            Stage::Listed | Stage::Waiting => self.resumed(),
        }
    }

    fn resumed(&mut self) -> Step<FlowOutcome> {
        self.unread = self.open.iter().cloned().collect();
        self.read()
    }

    fn pushed(&mut self, hint: &Hint) -> bool {
        matches!(hint, Hint::Ended(id) if self.open.contains(id))
    }
}

fn number(reply: &Value) -> i64 {
    if let Value::Int(number) = reply { *number } else { 0 }
}

/// The cursor of the first page, which is also the one after the last.
const FIRST_PAGE: &str = "0";
/// Members that are listed at a time.
const PAGE: &str = "500";
/// Members that are read at a time.
const READS_PER_STEP: usize = 500;
/// Tasks that end within this time are read together.
const COALESCE_WITHIN: Duration = Duration::from_millis(5);
