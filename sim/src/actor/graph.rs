//! Flows: as one submission of the real client, or built piece by piece as another client of the
//! wire contract may do it.

use std::collections::VecDeque;

use selvedge_core::call::execution::CreateExecution;
use selvedge_core::call::flow::{
    AddExecutionToFlow, ApplyDependencyToChild, CreateFlow, Edge, GroupPolicy, NewMember,
    OnSatisfied, SetEdgeGroupPolicy, StageDependencyEdge, SubmitFlow,
};
use selvedge_core::client::{
    Failure, FlowSubmission, FlowTask, Procedure, Replies, StartTime, Step,
};
use selvedge_core::command::Command;
use selvedge_core::error::Code;
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use selvedge_core::reply::text;
use selvedge_core::time::ServerTime;

use super::names::uuid;
use super::{lane, tenant};
use crate::event::Actor;
use crate::plan::{FlowSpec, Group, Policy};
use crate::world::World;

/// How long a member that is built piece by piece is delayed, so that its edges are applied first.
const HELD_BACK_MS: i64 = 4_000;
/// How often an edge is staged again because the graph has changed.
const STAGES_MAX: u32 = 12;

/// A flow with all its ids.
struct Drawn {
    flow_id: FlowId,
    ids: Vec<ExecutionId>,
    kinds: Vec<String>,
    /// The edges of each member.
    edges: Vec<Vec<Edge>>,
    groups: Vec<Option<GroupPolicy>>,
}

/// A piece of a flow.
enum Piece {
    /// A call that may be refused.
    Call(Command),
    /// A member; if it is refused, the flow is given up.
    Member(Command),
    /// Stages an edge in its flow.
    Stage(Edge),
    /// Applies an edge to its child.
    Apply(Edge),
}

/// Builds a flow piece by piece: the flow, its members, then every edge staged and applied.
pub(crate) struct BuildFlow {
    flow_id: FlowId,
    partition: Partition,
    now: ServerTime,
    pieces: VecDeque<Piece>,
    /// The revision of the graph, if it was read for the first piece.
    revision: Option<u64>,
    reads_revision: bool,
    stages: u32,
}

impl BuildFlow {
    fn next(&mut self) -> Step<()> {
        match self.pieces.front() {
            None => Step::Done(Ok(())),
            Some(Piece::Call(command) | Piece::Member(command)) => {
                Step::Send(vec![command.clone()])
            }
            Some(Piece::Stage(edge)) => match self.revision {
                None => self.read_revision(),
                Some(expected_graph_revision) => {
                    Step::Send(vec![Command::call(&StageDependencyEdge {
                        flow_id: self.flow_id,
                        edge: edge.clone(),
                        expected_graph_revision,
                        now: self.now,
                    })])
                }
            },
            Some(Piece::Apply(edge)) => match self.revision {
                None => self.read_revision(),
                Some(graph_revision) => Step::Send(vec![Command::call(&ApplyDependencyToChild {
                    flow_id: self.flow_id,
                    edge: edge.clone(),
                    lane_id: lane(0),
                    graph_revision,
                    now: self.now,
                })]),
            },
        }
    }

    fn read_revision(&mut self) -> Step<()> {
        self.reads_revision = true;
        let core = Key::flow(self.partition, self.flow_id).core();
        Step::Send(vec![Command::read("HGET", &core, &[b"graph_revision"])])
    }

    fn advance(&mut self) -> Step<()> {
        self.pieces.pop_front();
        (self.revision, self.stages) = (None, 0);
        self.next()
    }

    fn on_staged(&mut self, reply: Result<(), Failure>) -> Step<()> {
        match reply {
            Ok(()) => self.advance(),
            Err(Failure::Refused(refusal)) if refusal.code == Code::StaleGraphRevision => {
                self.stages += 1;
                self.revision = None;
                if self.stages > STAGES_MAX { Step::Done(Ok(())) } else { self.next() }
            }
            Err(Failure::Refused(refusal)) if refusal.code == Code::DependencyAlreadyExists => {
                self.advance()
            }
            // The caller gives up the flow.
            Err(_) => Step::Done(Ok(())),
        }
    }
}

impl Procedure for BuildFlow {
    type Output = ();

    fn begin(&mut self) -> Step<()> {
        self.next()
    }

    fn replied(&mut self, mut replies: Replies) -> Step<()> {
        if std::mem::take(&mut self.reads_revision) {
            self.revision = Some(text(replies.value()).parse().unwrap_or(0));
            return self.next();
        }
        match self.pieces.front() {
            Some(Piece::Stage(_)) => {
                let staged = replies.call::<StageDependencyEdge>().map(drop);
                self.on_staged(staged)
            }
            Some(Piece::Member(_)) => match replies.call::<AddExecutionToFlow>() {
                Ok(_) => self.advance(),
                Err(_) => Step::Done(Ok(())),
            },
            Some(Piece::Call(_) | Piece::Apply(_)) | None => self.advance(),
        }
    }
}

impl World {
    fn draw_flow(&mut self, flow: &FlowSpec) -> Drawn {
        let flow_id = self.clients.names.register_flow(&flow.name, flow.partition);
        let specs = flow.members();
        let names: Vec<String> =
            specs.iter().map(|(name, ..)| format!("{}.{name}", flow.name)).collect();
        let ids: Vec<ExecutionId> =
            names.iter().map(|name| self.clients.names.execution(name)).collect();
        let kinds = names.iter().map(|name| self.kind_of(name)).collect();
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
        Drawn { flow_id, ids, kinds, edges, groups }
    }

    /// A flow as the client submits it.
    pub(crate) fn submission(&mut self, flow: &FlowSpec) -> FlowSubmission {
        let Drawn { flow_id, ids, kinds, edges, groups } = self.draw_flow(flow);
        let policy_json = self.policy_json(flow.policy);
        let task = |(((id, kind), edges), group)| FlowTask {
            member: NewMember {
                execution_id: id,
                lane_id: lane(0),
                execution_kind: kind,
                priority: 0,
                creator_identity: "sim".to_owned(),
                policy_json: policy_json.clone(),
                input_payload: flow.name.clone().into_bytes(),
                delay_until: None,
                tags_json: String::new(),
                execution_deadline_at: None,
            },
            start: StartTime::AtOnce,
            edges,
            group,
        };
        let chunk = flow.chunk.and_then(|chunk| usize::try_from(chunk).ok());
        FlowSubmission {
            flow_id,
            partition: self.clients.names.partition_of(flow_id),
            flow_kind: "simulated".to_owned(),
            namespace: tenant(self.tenant_of(&flow.name)),
            tasks: ids.into_iter().zip(kinds).zip(edges).zip(groups).map(task).collect(),
            tags: Vec::new(),
            content: String::new(),
            tasks_per_call: chunk.unwrap_or(SubmitFlow::MEMBERS_MAX),
        }
    }

    /// A flow that is built piece by piece.
    pub(crate) fn building(&mut self, by: Actor, flow: &FlowSpec) -> BuildFlow {
        let drawn = self.draw_flow(flow);
        let flow_id = drawn.flow_id;
        let partition = self.clients.names.partition_of(flow_id);
        let now = self.server_time(partition, 0);
        let held_until = self.server_time(partition, HELD_BACK_MS);
        let namespace = tenant(self.tenant_of(&flow.name));
        // This client checks no limits.
        let is_missing = flow.policy == Policy::Missing;
        let policy_json = self.policy_json(if is_missing { Policy::Plain } else { flow.policy });
        let create = CreateFlow {
            partition,
            flow_id,
            flow_kind: "built".to_owned(),
            namespace: namespace.clone(),
        };
        let mut pieces = VecDeque::from([Piece::Call(Command::call(&create))]);
        for ((id, kind), edges) in drawn.ids.iter().zip(&drawn.kinds).zip(&drawn.edges) {
            let create = CreateExecution {
                execution_id: id.clone(),
                namespace: namespace.clone(),
                lane_id: lane(0),
                execution_kind: kind.clone(),
                priority: 0,
                creator_identity: by.to_string(),
                policy_json: policy_json.clone(),
                input_payload: flow.name.clone().into_bytes(),
                delay_until: (!edges.is_empty()).then_some(held_until),
                idempotency: None,
                tags_json: String::new(),
                execution_deadline_at: None,
            };
            pieces.push_back(Piece::Call(Command::call(&create)));
            let member = AddExecutionToFlow { flow_id, execution_id: id.clone() };
            pieces.push_back(Piece::Member(Command::call(&member)));
        }
        for ((id, edges), group) in drawn.ids.iter().zip(&drawn.edges).zip(&drawn.groups) {
            if let Some(policy) = *group {
                let call = SetEdgeGroupPolicy { flow_id, downstream: id.clone(), policy, now };
                pieces.push_back(Piece::Call(Command::call(&call)));
            }
            for edge in edges {
                pieces.extend([Piece::Stage(edge.clone()), Piece::Apply(edge.clone())]);
            }
        }
        let (revision, reads_revision, stages) = (None, false, 0);
        BuildFlow { flow_id, partition, now, pieces, revision, reads_revision, stages }
    }
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
