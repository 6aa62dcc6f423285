//! The calls that create a flow: as a whole, in chunks, or piece by piece.

use std::collections::VecDeque;

use selvedge_core::call::execution::CreateExecution;
use selvedge_core::call::flow::{
    AddExecutionToFlow, ApplyDependencyToChild, CreateFlow, Edge, GroupPolicy, NewMember,
    OnSatisfied, SetEdgeGroupPolicy, StageDependencyEdge, SubmitFlow,
};
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::Key;

use super::names::uuid;
use super::worker::command_of;
use super::{lane, tenant};
use crate::event::Actor;
use crate::plan::{Action, FlowSpec, Group};
use crate::world::World;

/// How long a member that is built piece by piece is delayed, so that its edges are applied first.
const HELD_BACK_MS: i64 = 4_000;

/// A call of an action. Calls that depend on the state of the store are built just before they are
/// sent.
#[derive(Clone, Debug)]
pub(crate) enum ActionCall {
    /// A complete call: function and words.
    Ready(&'static str, Vec<Vec<u8>>),
    /// The cancel of an execution.
    Cancel(ExecutionId),
    /// A signal, and how often it was tried.
    Signal(ExecutionId, String, u32),
    /// Stages an edge in its flow.
    Stage(StagedEdge),
    /// Applies an edge to its child.
    Apply(StagedEdge),
    /// A whole action, from the start.
    Action(Action),
}

/// An edge of a flow.
#[derive(Clone, Debug)]
pub(crate) struct StagedEdge {
    flow_id: FlowId,
    edge: Edge,
}

/// A flow with all its ids.
struct Drawn {
    flow_id: FlowId,
    ids: Vec<ExecutionId>,
    /// The edges of each member.
    edges: Vec<Vec<Edge>>,
    groups: Vec<Option<GroupPolicy>>,
}

impl World {
    fn draw_flow(&mut self, flow: &FlowSpec) -> Drawn {
        let flow_id = self.names.register_flow(&flow.name, flow.partition);
        let specs = flow.members();
        let ids: Vec<ExecutionId> = specs
            .iter()
            .map(|(name, ..)| self.names.execution(&format!("{}.{name}", flow.name)))
            .collect();
        let mut edges = Vec::new();
        for (at, (name, after, _)) in specs.iter().enumerate() {
            let edge = |from: &usize| Edge {
                edge_id: uuid(&format!("{}.{}>{name}", flow.name, specs[*from].0), 0).into(),
                upstream: ids[*from].clone(),
                downstream: ids[at].clone(),
                data_passing_ref: String::new(),
            };
            edges.push(after.iter().map(edge).collect());
        }
        let groups = specs.iter().map(|(_, _, group)| group_policy(*group)).collect();
        Drawn { flow_id, ids, edges, groups }
    }

    /// The calls of a submission, one for each chunk.
    pub(crate) fn submission(&mut self, flow: &FlowSpec) -> VecDeque<ActionCall> {
        let drawn = self.draw_flow(flow);
        let policy_json = self.policy_json(flow.policy);
        let namespace = tenant(self.tenant_of(&flow.name));
        let most = SubmitFlow::MEMBERS_MAX as u64;
        let chunk = usize::try_from(flow.chunk.unwrap_or(most).clamp(1, most)).unwrap_or(1);
        let mut calls = VecDeque::new();
        let mut first = 0;
        while first < drawn.ids.len() {
            let last = chunk_end(&drawn, first, chunk);
            let member = |id: &ExecutionId| NewMember {
                execution_id: id.clone(),
                lane_id: lane(0),
                execution_kind: "task".to_owned(),
                priority: 0,
                creator_identity: "sim".to_owned(),
                policy_json: policy_json.clone(),
                input_payload: flow.name.clone().into_bytes(),
                delay_until: None,
                tags_json: String::new(),
                execution_deadline_at: None,
            };
            let group = |at: usize| drawn.groups[at].map(|policy| (drawn.ids[at].clone(), policy));
            calls.push_back(ActionCall::ready(&SubmitFlow {
                partition: self.names.partition_of(drawn.flow_id),
                flow_id: drawn.flow_id,
                flow_kind: "simulated".to_owned(),
                namespace: namespace.clone(),
                members: drawn.ids[first..last].iter().map(member).collect(),
                edges: drawn.edges[first..last].iter().flatten().cloned().collect(),
                groups: (first..last).filter_map(group).collect(),
                seal: last == drawn.ids.len(),
            }));
            first = last;
        }
        calls
    }

    /// The calls that build a flow piece by piece.
    pub(crate) fn building(&mut self, by: Actor, flow: &FlowSpec) -> VecDeque<ActionCall> {
        let drawn = self.draw_flow(flow);
        let partition = self.names.partition_of(drawn.flow_id);
        let now = self.server_time(partition, 0);
        let held_until = self.server_time(partition, HELD_BACK_MS);
        let namespace = tenant(self.tenant_of(&flow.name));
        let mut calls = VecDeque::from([ActionCall::ready(&CreateFlow {
            partition,
            flow_id: drawn.flow_id,
            flow_kind: "built".to_owned(),
            namespace: namespace.clone(),
        })]);
        for (id, edges) in drawn.ids.iter().zip(&drawn.edges) {
            calls.push_back(ActionCall::ready(&CreateExecution {
                execution_id: id.clone(),
                namespace: namespace.clone(),
                lane_id: lane(0),
                execution_kind: "task".to_owned(),
                priority: 0,
                creator_identity: by.to_string(),
                policy_json: self.policy_json(flow.policy),
                input_payload: flow.name.clone().into_bytes(),
                delay_until: (!edges.is_empty()).then_some(held_until),
                idempotency: None,
                tags_json: String::new(),
                execution_deadline_at: None,
            }));
            let flow_id = drawn.flow_id;
            calls.push_back(ActionCall::ready(&AddExecutionToFlow {
                flow_id,
                execution_id: id.clone(),
            }));
        }
        for ((id, edges), group) in drawn.ids.iter().zip(&drawn.edges).zip(&drawn.groups) {
            let (flow_id, downstream) = (drawn.flow_id, id.clone());
            if let Some(policy) = *group {
                let call = SetEdgeGroupPolicy { flow_id, downstream, policy, now };
                calls.push_back(ActionCall::ready(&call));
            }
            for edge in edges {
                let edge = StagedEdge { flow_id, edge: edge.clone() };
                calls.extend([ActionCall::Stage(edge.clone()), ActionCall::Apply(edge)]);
            }
        }
        calls
    }

    fn graph_revision(&self, flow_id: FlowId) -> u64 {
        let partition = self.names.partition_of(flow_id);
        let shard = &self.servers.audited[self.servers.owner(partition.slot())];
        let record = shard.hash(&Key::flow(partition, flow_id).core());
        let revision = record.map_or(0, |record| record.number("graph_revision"));
        u64::try_from(revision).unwrap_or(0)
    }

    pub(crate) fn stage_words(&self, staged: &StagedEdge) -> (&'static str, Vec<Vec<u8>>) {
        command_of(&StageDependencyEdge {
            flow_id: staged.flow_id,
            edge: staged.edge.clone(),
            expected_graph_revision: self.graph_revision(staged.flow_id),
            now: self.server_time(self.names.partition_of(staged.flow_id), 0),
        })
    }

    pub(crate) fn apply_words(&self, staged: &StagedEdge) -> (&'static str, Vec<Vec<u8>>) {
        command_of(&ApplyDependencyToChild {
            flow_id: staged.flow_id,
            edge: staged.edge.clone(),
            lane_id: self.lane_of(&staged.edge.downstream),
            graph_revision: self.graph_revision(staged.flow_id),
            now: self.server_time(self.names.partition_of(staged.flow_id), 0),
        })
    }
}

/// The end of a chunk that begins at `first`: limited by the number of members and of edges.
fn chunk_end(drawn: &Drawn, first: usize, chunk: usize) -> usize {
    let mut edges = 0;
    let mut last = first;
    while last < drawn.ids.len() && last - first < chunk {
        edges += drawn.edges[last].len();
        if last > first && edges > SubmitFlow::EDGES_MAX {
            break;
        }
        last += 1;
    }
    last
}

fn group_policy(group: Group) -> Option<GroupPolicy> {
    let on_satisfied = |cancel: bool| match cancel {
        true => OnSatisfied::CancelRemaining,
        false => OnSatisfied::LetRun,
    };
    match group {
        Group::All => None,
        Group::AnyOf { cancel_remaining } => {
            Some(GroupPolicy::AnyOf(on_satisfied(cancel_remaining)))
        }
        Group::Quorum { of, cancel_remaining } => {
            Some(GroupPolicy::Quorum { k: of, on_satisfied: on_satisfied(cancel_remaining) })
        }
    }
}
