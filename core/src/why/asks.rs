//! What an explanation needs to be read.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::audit::{Execution, Snapshot};
use crate::id::{EdgeId, ExecutionId, FlowId, LaneId, WaitpointId};
use crate::key::{Key, LaneIndex};

/// How many open edges an explanation looks at; the rest is only counted.
pub const EDGES_MAX: usize = 50;

/// One thing to read, in one bounded command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// A whole hash of an execution, a flow or a waitpoint.
    Hash(Key),
    /// The score of one member of a sorted set.
    Score(Key, String),
    /// Some members of a set, at most [`EDGES_MAX`].
    Members(Key),
}

/// What there is to read about an execution, given what is known already. Ask again with what was
/// read until nothing new comes up; that is the case after four rounds.
#[must_use]
pub fn asks(snapshot: &Snapshot, id: &ExecutionId) -> Vec<Ask> {
    let keys = Key::execution(id);
    let mut asks = vec![Ask::Hash(keys.core())];
    let Some(execution) = snapshot.execution(id) else { return asks };
    let index = Key::index(id.partition());
    asks.extend([
        Ask::Hash(keys.claim_grant()),
        Ask::Hash(keys.suspension()),
        Ask::Hash(keys.dependency_meta()),
        Ask::Members(keys.dependencies_unresolved()),
        Ask::Score(index.execution_deadline(), id.to_string()),
        Ask::Score(index.attempt_timeout(), id.to_string()),
        Ask::Score(index.lane(&lane_id(&execution), LaneIndex::Delayed), id.to_string()),
    ]);
    if let Ok(flow) = execution.core.text("flow_id").parse::<FlowId>() {
        let flow = Key::flow(id.partition(), flow);
        asks.extend([Ask::Hash(flow.core()), Ask::Hash(flow.edge_group(id))]);
    }
    let suspension = snapshot.hash(&keys.suspension());
    let waitpoint = suspension.and_then(|open| open.text("waitpoint_id").parse().ok());
    if let Some(waitpoint) = waitpoint {
        asks.extend(of_waitpoint(id, waitpoint));
    }
    for edge in open_edges(snapshot, id) {
        asks.push(Ask::Hash(keys.dependency(edge)));
        if let Some(upstream) = upstream_of(snapshot, id, edge) {
            asks.push(Ask::Hash(Key::execution(&upstream).core()));
        }
    }
    asks
}

fn of_waitpoint(id: &ExecutionId, waitpoint: WaitpointId) -> [Ask; 2] {
    let partition = id.partition();
    [
        Ask::Hash(Key::waitpoint(partition, waitpoint)),
        Ask::Hash(Key::waitpoint_condition(partition, waitpoint)),
    ]
}

/// Some edges that are still open.
pub(super) fn open_edges(snapshot: &Snapshot, id: &ExecutionId) -> Vec<EdgeId> {
    let open = snapshot.set(&Key::execution(id).dependencies_unresolved());
    open.iter().filter_map(|edge| edge.parse().ok()).take(EDGES_MAX).collect()
}

/// Where an edge comes from, if its record is known.
pub(super) fn upstream_of(
    snapshot: &Snapshot,
    id: &ExecutionId,
    edge: EdgeId,
) -> Option<ExecutionId> {
    let dependency = snapshot.hash(&Key::execution(id).dependency(edge))?;
    dependency.text("upstream_execution_id").parse().ok()
}

/// The lane of an execution, as its record says it.
pub(super) fn lane_text<'a>(execution: &Execution<'a>) -> &'a str {
    [execution.core.text("lane_id"), execution.core.text("current_lane")]
        .into_iter()
        .find(|lane| !lane.is_empty())
        .unwrap_or("default")
}

/// The lane of an execution; the default one where the record names none that can be.
pub(super) fn lane_id(execution: &Execution<'_>) -> LaneId {
    lane_text(execution)
        .parse()
        .unwrap_or_else(|_| "default".parse().expect("`default` is printable ASCII"))
}
