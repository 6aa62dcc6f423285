//! What must be read to explain an execution.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::held::terms_of;
use crate::admission::budget_ids;
use crate::audit::{Entry, Execution, Snapshot, Stored};
use crate::call::quota::ADMISSION_DIMENSION;
use crate::command::Command;
use crate::id::{BudgetId, EdgeId, ExecutionId, FlowId, LaneId, WaitpointId};
use crate::key::{Key, LaneIndex};
use crate::partition::PartitionCounts;
use crate::reply::{as_bytes, fields, text};
use crate::state::{LifecyclePhase, TerminalOutcome};
use crate::value::Value;

/// How many edges an explanation lists; the rest is only counted.
pub const EDGES_MAX: usize = 50;

/// How many budgets of an execution are read.
const BUDGETS_MAX: usize = 32;

/// One thing to read, in one bounded command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// A whole hash of an execution, a flow, a waitpoint or a limit.
    Hash(Key),
    /// A string.
    Text(Key),
    /// The score of one member of a sorted set.
    Score(Key, String),
    /// The member of a sorted set that has this rank from its end, from 1, with its score.
    FromEnd(Key, u64),
    /// Some members of a set, at most [`EDGES_MAX`].
    Members(Key),
    /// Whether this is a member of a set.
    Member(Key, String),
}

impl Read {
    /// The command that reads it.
    #[must_use]
    pub fn command(&self) -> Command {
        match self {
            Self::Hash(key) => Command::read("HGETALL", key, &[]),
            Self::Text(key) => Command::read("GET", key, &[]),
            Self::Score(key, member) => Command::read("ZSCORE", key, &[member.as_bytes()]),
            Self::FromEnd(key, rank) => {
                let at = format!("-{rank}");
                Command::read("ZRANGE", key, &[at.as_bytes(), at.as_bytes(), b"WITHSCORES"])
            }
            Self::Members(key) => {
                Command::read("SRANDMEMBER", key, &[EDGES_MAX.to_string().as_bytes()])
            }
            Self::Member(key, member) => Command::read("SISMEMBER", key, &[member.as_bytes()]),
        }
    }

    /// Adds what was read to a snapshot; nothing if there is nothing.
    pub fn note(&self, snapshot: &mut Snapshot, reply: Value) {
        let (key, stored) = match self {
            Self::Hash(key) => {
                let flat = if let Value::Array(flat) = reply { flat } else { Vec::new() };
                let pairs = flat.chunks_exact(2).map(|pair| {
                    (text(pair[0].clone()), as_bytes(pair[1].clone()).unwrap_or_default())
                });
                (key, Stored::Hash(pairs.collect()))
            }
            Self::Text(key) => match as_bytes(reply) {
                Some(bytes) => (key, Stored::Text(bytes)),
                None => return,
            },
            Self::Score(key, member) => {
                let mut members = snapshot.zset(key).clone();
                members.extend(text(reply).parse().ok().map(|score| (member.clone(), score)));
                (key, Stored::Zset(members))
            }
            Self::FromEnd(key, _) => {
                let found = fields(reply);
                let score = found.get(1).and_then(|score| score.parse().ok());
                let member = found.first().cloned().zip(score);
                (key, Stored::Zset(member.into_iter().collect()))
            }
            Self::Members(key) => (key, Stored::Set(fields(reply).into_iter().collect())),
            Self::Member(key, member) => {
                let mut members = snapshot.set(key).clone();
                members.extend((reply == Value::Int(1)).then(|| member.clone()));
                (key, Stored::Set(members))
            }
        };
        let is_empty = match &stored {
            Stored::Hash(fields) => fields.is_empty(),
            Stored::Zset(members) => members.is_empty(),
            Stored::Set(members) => members.is_empty(),
            Stored::Text(_) | Stored::Stream(_) => false,
        };
        if !is_empty {
            snapshot.put(key.to_string().as_bytes(), Some(Entry { stored, expires_at: None }));
        }
    }
}

/// What to read about an execution, given what was read already. Call it again with what was read
/// until it lists nothing new: at most four times.
#[must_use]
pub fn reads(snapshot: &Snapshot, id: &ExecutionId, partitions: PartitionCounts) -> Vec<Read> {
    let keys = Key::execution(id);
    let index = Key::index(id.partition());
    // What can be named by the id alone is read with the record.
    let mut reads = vec![
        Read::Hash(keys.core()),
        Read::Hash(keys.claim_grant()),
        Read::Hash(keys.suspension()),
        Read::Hash(keys.dependency_meta()),
        Read::Members(keys.dependencies_unresolved()),
        Read::Score(index.execution_deadline(), id.to_string()),
        Read::Score(index.attempt_timeout(), id.to_string()),
    ];
    let Some(execution) = snapshot.execution(id) else { return reads };
    reads.push(Read::Score(index.lane(&lane_id(&execution), LaneIndex::Delayed), id.to_string()));
    let flow = execution.core.text("flow_id").parse::<FlowId>().ok();
    if let Some(flow) = flow {
        let keys = Key::flow(id.partition(), flow);
        reads.extend([
            Read::Hash(keys.core()),
            Read::Hash(keys.edge_group(id)),
            Read::Member(keys.pending_cancels(), id.to_string()),
            Read::Score(index.cancel_backlog(), flow.to_string()),
        ]);
    }
    if execution.core.text("lifecycle_phase") == LifecyclePhase::Runnable.as_str() {
        reads.extend(of_limits(snapshot, &execution, partitions));
    }
    let suspension = snapshot.hash(&keys.suspension());
    let waitpoint = suspension.and_then(|open| open.text("waitpoint_id").parse().ok());
    if let Some(waitpoint) = waitpoint {
        reads.extend(of_waitpoint(id, waitpoint));
    }
    if was_skipped(&execution) {
        reads.push(Read::Members(keys.dependencies_all()));
    }
    for edge in edges_of(snapshot, &execution) {
        reads.push(Read::Hash(keys.dependency(edge)));
        if let Some(upstream) = upstream_of(snapshot, id, edge) {
            let core = Key::execution(&upstream).core();
            if let (Some(flow), None) = (flow, snapshot.hash(&core)) {
                let members = Key::flow(id.partition(), flow).members();
                reads.push(Read::Member(members, upstream.to_string()));
            }
            reads.push(Read::Hash(core));
        }
    }
    reads
}

/// The budgets and the quota that decide whether it may start.
fn of_limits(
    snapshot: &Snapshot,
    execution: &Execution<'_>,
    partitions: PartitionCounts,
) -> Vec<Read> {
    let mut reads = Vec::new();
    for id in budgets(execution) {
        let keys = Key::budget(partitions.of_budget(id), id);
        reads.extend([keys.record(), keys.limits(), keys.usage()].map(Read::Hash));
    }
    if let Ok(id) = execution.core.text("quota_policy_id").parse() {
        let keys = Key::quota(partitions.of_quota(id), id);
        reads.extend([Read::Hash(keys.record()), Read::Text(keys.concurrency())]);
        if let Some(record) = snapshot.hash(&keys.record())
            && let rate @ 1.. = terms_of(&record).rate
        {
            reads.push(Read::FromEnd(keys.window(ADMISSION_DIMENSION), rate));
        }
    }
    reads
}

/// The budgets that an execution names, as many as are read.
pub(super) fn budgets(execution: &Execution<'_>) -> Vec<BudgetId> {
    budget_ids(execution.core.text("budget_ids")).take(BUDGETS_MAX).collect()
}

fn of_waitpoint(id: &ExecutionId, waitpoint: WaitpointId) -> [Read; 2] {
    let partition = id.partition();
    [
        Read::Hash(Key::waitpoint(partition, waitpoint)),
        Read::Hash(Key::waitpoint_condition(partition, waitpoint)),
    ]
}

fn was_skipped(execution: &Execution<'_>) -> bool {
    execution.core.text("terminal_outcome") == TerminalOutcome::Skipped.as_str()
}

/// Some of its edges: those that are open, or all if it was skipped.
pub(super) fn edges_of(snapshot: &Snapshot, execution: &Execution<'_>) -> Vec<EdgeId> {
    let keys = Key::execution(execution.id);
    let edges = match was_skipped(execution) {
        true => snapshot.set(&keys.dependencies_all()),
        false => snapshot.set(&keys.dependencies_unresolved()),
    };
    edges.iter().filter_map(|edge| edge.parse().ok()).take(EDGES_MAX).collect()
}

/// The upstream execution of an edge, if its record was read.
pub(super) fn upstream_of(
    snapshot: &Snapshot,
    id: &ExecutionId,
    edge: EdgeId,
) -> Option<ExecutionId> {
    let dependency = snapshot.hash(&Key::execution(id).dependency(edge))?;
    dependency.text("upstream_execution_id").parse().ok()
}

/// The lane in the record of an execution.
pub(super) fn lane_text<'a>(execution: &Execution<'a>) -> &'a str {
    [execution.core.text("lane_id"), execution.core.text("current_lane")]
        .into_iter()
        .find(|lane| !lane.is_empty())
        .unwrap_or("default")
}

/// The lane of an execution; the default lane if the record holds no valid one.
pub(super) fn lane_id(execution: &Execution<'_>) -> LaneId {
    lane_text(execution).parse().unwrap_or_else(|_| LaneId::default_lane())
}
