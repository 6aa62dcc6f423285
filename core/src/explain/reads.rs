//! What must be read to explain an execution.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::audit::{Execution, Snapshot};
use crate::id::{EdgeId, ExecutionId, FlowId, LaneId, WaitpointId};
use crate::key::{Key, LaneIndex};

/// How many open edges an explanation lists; the rest is only counted.
pub const EDGES_MAX: usize = 50;

/// One thing to read, in one bounded command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// A whole hash of an execution, a flow or a waitpoint.
    Hash(Key),
    /// The score of one member of a sorted set.
    Score(Key, String),
    /// Some members of a set, at most [`EDGES_MAX`].
    Members(Key),
}

/// What to read about an execution, given what was read already. Call it again with what was read
/// until it lists nothing new: at most four rounds.
#[must_use]
pub fn reads(snapshot: &Snapshot, id: &ExecutionId) -> Vec<Read> {
    let keys = Key::execution(id);
    let mut reads = vec![Read::Hash(keys.core())];
    let Some(execution) = snapshot.execution(id) else { return reads };
    let index = Key::index(id.partition());
    reads.extend([
        Read::Hash(keys.claim_grant()),
        Read::Hash(keys.suspension()),
        Read::Hash(keys.dependency_meta()),
        Read::Members(keys.dependencies_unresolved()),
        Read::Score(index.execution_deadline(), id.to_string()),
        Read::Score(index.attempt_timeout(), id.to_string()),
        Read::Score(index.lane(&lane_id(&execution), LaneIndex::Delayed), id.to_string()),
    ]);
    if let Ok(flow) = execution.core.text("flow_id").parse::<FlowId>() {
        let flow = Key::flow(id.partition(), flow);
        reads.extend([Read::Hash(flow.core()), Read::Hash(flow.edge_group(id))]);
    }
    let suspension = snapshot.hash(&keys.suspension());
    let waitpoint = suspension.and_then(|open| open.text("waitpoint_id").parse().ok());
    if let Some(waitpoint) = waitpoint {
        reads.extend(of_waitpoint(id, waitpoint));
    }
    for edge in open_edges(snapshot, id) {
        reads.push(Read::Hash(keys.dependency(edge)));
        if let Some(upstream) = upstream_of(snapshot, id, edge) {
            reads.push(Read::Hash(Key::execution(&upstream).core()));
        }
    }
    reads
}

fn of_waitpoint(id: &ExecutionId, waitpoint: WaitpointId) -> [Read; 2] {
    let partition = id.partition();
    [
        Read::Hash(Key::waitpoint(partition, waitpoint)),
        Read::Hash(Key::waitpoint_condition(partition, waitpoint)),
    ]
}

/// Some edges that are still open.
pub(super) fn open_edges(snapshot: &Snapshot, id: &ExecutionId) -> Vec<EdgeId> {
    let open = snapshot.set(&Key::execution(id).dependencies_unresolved());
    open.iter().filter_map(|edge| edge.parse().ok()).take(EDGES_MAX).collect()
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
