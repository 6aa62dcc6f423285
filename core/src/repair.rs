//! Which calls repair what an audit has found, and what an operator has to decide.
//!
//! A repair only says where to look: each function decides inside its call, by the records that are
//! there then.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::audit::{Snapshot, Violation, unreadable_entries};
use crate::call::library::{RepairIndex, SetAside};
use crate::call::repair::{FoundEdge, RepairExecution, RepairFlow};
use crate::id::{AttemptIndex, EdgeId, ExecutionId, FlowId, LaneId};
use crate::key::{AttemptPart, ExecutionPart, FlowPart, IndexPart, Key};
use crate::partition::Partition;
use crate::state::LifecyclePhase;

/// What to call for the violations of one partition, in this order.
#[derive(Clone, Debug, Default)]
pub struct Repairs {
    /// Index entries that cannot be read, to be set aside.
    pub set_aside: Vec<SetAside>,
    /// Index entries of executions.
    pub indexes: Vec<RepairIndex>,
    /// What surrounds the records of flows.
    pub flows: Vec<RepairFlow>,
    /// What surrounds the records of executions.
    pub executions: Vec<RepairExecution>,
}

/// The repairs for these violations.
#[must_use]
pub fn repairs(snapshot: &Snapshot, violations: &[Violation]) -> Repairs {
    let (mut executions, mut flows, mut keys) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for violation in violations {
        let text = [violation.subject.as_str(), " ", violation.what.as_str()].concat();
        executions.extend(execution_ids(&text));
        if let Ok(flow) = violation.subject.parse::<FlowId>() {
            flows.extend(
                snapshot.flows().find(|(_, id, _)| *id == flow).map(|(at, id, _)| (at, id)),
            );
        }
        if let Ok(key) = violation.subject.parse::<Key>() {
            if let Key::Flow(partition, flow, _) = &key {
                flows.insert((*partition, *flow));
            }
            keys.insert(key);
        }
    }
    // A record of a flow and one of a member often lack the same thing.
    for id in &executions {
        let flow = snapshot.execution(id).and_then(|one| one.core.text("flow_id").parse().ok());
        flows.extend(flow.map(|flow| (id.partition(), flow)));
    }
    Repairs {
        set_aside: keys.iter().flat_map(|key| set_aside(snapshot, key)).collect(),
        indexes: executions.iter().map(|id| index(snapshot, id)).collect(),
        flows: flows.iter().filter_map(|(at, id)| flow(snapshot, *at, *id)).collect(),
        executions: executions.iter().map(|id| execution(snapshot, id, false)).collect(),
    }
}

/// The lanes of executions that have not ended.
#[must_use]
pub fn lanes_in_use(snapshot: &Snapshot) -> BTreeSet<LaneId> {
    let ended = LifecyclePhase::Terminal.as_str();
    let open = snapshot.executions().filter(|one| one.core.text("lifecycle_phase") != ended);
    open.filter_map(|one| one.core.text("lane_id").parse().ok()).collect()
}

/// All ids of executions in a text.
fn execution_ids(text: &str) -> impl Iterator<Item = ExecutionId> + '_ {
    const UUID: usize = 36;
    text.match_indices("{fp:").filter_map(|(from, _)| {
        let rest = &text[from..];
        let tag = rest.find("}:")? + "}:".len();
        rest.get(..tag + UUID)?.parse().ok()
    })
}

fn set_aside(snapshot: &Snapshot, key: &Key) -> Vec<SetAside> {
    let Key::Index(partition, _) = key else { return Vec::new() };
    let unreadable = unreadable_entries(snapshot, key);
    let entries = unreadable.map(|member| SetAside {
        partition: *partition,
        index: key.clone(),
        member: member.as_bytes().to_vec(),
        reason: String::from("cannot be read"),
    });
    entries.collect()
}

fn index(snapshot: &Snapshot, id: &ExecutionId) -> RepairIndex {
    let lane = snapshot.indexes_listing(id.as_str()).find_map(|key| {
        if let Key::Index(_, IndexPart::Lane(lane, _)) = key { Some(lane.clone()) } else { None }
    });
    RepairIndex { execution_id: id.clone(), lane }
}

/// What surrounds the record of an execution.
#[must_use]
pub fn execution(snapshot: &Snapshot, id: &ExecutionId, accept: bool) -> RepairExecution {
    let own = |key: &&Key| matches!(key, Key::Index(at, _) if *at == id.partition());
    let strays = snapshot.indexes_listing(id.as_str()).filter(own).cloned().collect();
    let (mut attempts, mut edges) = (Vec::new(), Vec::new());
    for (key, _) in snapshot.named_after(id) {
        if let Key::Execution(_, ExecutionPart::Dependency(edge)) = key {
            edges.push(*edge);
        } else if let Key::Attempt(_, index, AttemptPart::Record) = key {
            attempts.push(*index);
        }
    }
    attempts.sort_by_key(|AttemptIndex(index)| *index);
    RepairExecution { execution_id: id.clone(), strays, accept, attempts, edges }
}

fn flow(snapshot: &Snapshot, partition: Partition, id: FlowId) -> Option<RepairFlow> {
    let keys = Key::flow(partition, id);
    let core = snapshot.hash(&keys.core())?;
    let named = id.to_string();
    let members: BTreeSet<ExecutionId> = snapshot
        .executions()
        .filter(|one| one.partition() == partition && one.core.text("flow_id") == named)
        .map(|one| one.id.clone())
        .collect();
    let edges = edges_of(snapshot, partition, id, &members);
    let with_record = edges.keys().filter(|edge| snapshot.holds(&keys.edge(**edge))).count();
    let found = edges.into_iter().map(|(edge_id, [downstream, upstream])| FoundEdge {
        edge_id,
        downstream,
        upstream,
    });
    Some(RepairFlow {
        partition,
        flow_id: id,
        graph_revision: core.text("graph_revision").to_string(),
        edge_count: Some(with_record),
        edges: found.collect(),
        members: members.into_iter().collect(),
    })
}

/// The edges that anything names: `[downstream, upstream]` of each, as far as it says.
fn edges_of(
    snapshot: &Snapshot,
    partition: Partition,
    id: FlowId,
    members: &BTreeSet<ExecutionId>,
) -> BTreeMap<EdgeId, [Option<ExecutionId>; 2]> {
    let mut edges: BTreeMap<EdgeId, [Option<ExecutionId>; 2]> = BTreeMap::new();
    let mut listed = |set: &Key, end: usize, of: &ExecutionId| {
        for edge in snapshot.set(set).iter().filter_map(|edge| edge.parse().ok()) {
            edges.entry(edge).or_default()[end] = Some(of.clone());
        }
    };
    for (part, _) in snapshot.of_flow(partition, id) {
        let key = Key::Flow(partition, id, part.clone());
        if let FlowPart::In(of) = part {
            listed(&key, 0, of);
        } else if let FlowPart::Out(of) = part {
            listed(&key, 1, of);
        }
    }
    for (part, _) in snapshot.of_flow(partition, id) {
        if let FlowPart::Edge(edge) = part {
            edges.entry(*edge).or_default();
        }
    }
    for member in members {
        for (part, entry) in snapshot.of_execution(member) {
            let (ExecutionPart::Dependency(edge), Some(fields)) = (part, entry.fields()) else {
                continue;
            };
            let ends = edges.entry(*edge).or_default();
            ends[0] = Some(member.clone());
            ends[1] = fields.text("upstream_execution_id").parse().ok().or(ends[1].take());
        }
    }
    edges
}
