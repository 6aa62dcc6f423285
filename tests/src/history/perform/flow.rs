//! Flows: built step by step or submitted at once, resolved, cancelled, purged.

use selvedge_core::call::flow::{
    AckCancelMember, AddExecutionToFlow, ApplyDependencyToChild, CancelFlow, CancellationPolicy,
    CreateFlow, DrainSiblingCancelGroup, DrainSiblingCancelGroupChecked, Edge, GroupPolicy,
    NewMember, OnSatisfied, ProjectFlow, PromoteBlockedToEligible, PurgeFlow,
    ReconcileSiblingCancelGroup, ResolveDependency, ResolveOutgoing, SetEdgeGroupPolicy,
    SiblingCancelJob, StageDependencyEdge, SubmitFlow,
};
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::{Key, PartitionIndex};
use selvedge_core::state::TerminalOutcome;

use crate::history::state::{
    EXECUTIONS, HistoryState, PARTITION, execution, flow, lane, namespace,
};

/// An edge that its flow knows.
#[derive(Clone, Debug)]
pub(in crate::history) struct StagedEdge {
    pub(super) flow_id: FlowId,
    pub(super) edge: Edge,
    pub(super) revision: u64,
}

impl HistoryState {
    pub(in crate::history) fn create_flow(&mut self, slot: u8) {
        self.call(&CreateFlow {
            partition: PARTITION,
            flow_id: flow(slot),
            flow_kind: "dag".into(),
            namespace: namespace(),
        });
    }

    /// Submits three new members with two edges, or two chains, sealed or not.
    pub(in crate::history) fn submit_flow(&mut self, slot: u8, shape: u8, choice: u8) {
        let free: Vec<u8> = (0..EXECUTIONS)
            .filter(|slot| self.record(&execution(*slot)).is_none())
            .take(3)
            .collect();
        let (&[x, y, z], None) = (&free[..], self.flow_record(flow(slot))) else { return };
        let delay_until = (choice == 4).then(|| self.in_ms(1_500));
        let members = [x, y, z].map(|slot| NewMember {
            execution_id: execution(slot),
            lane_id: lane(slot),
            execution_kind: "job".into(),
            priority: u32::from(shape),
            creator_identity: "history".into(),
            policy_json: String::new(),
            input_payload: b"in".to_vec(),
            delay_until: delay_until.filter(|_| slot == z),
            tags_json: String::new(),
            execution_deadline_at: None,
        });
        let second = if shape % 4 == 3 { (x, y) } else { (x, z) };
        let edges: Vec<Edge> = [second, (y, z)]
            .into_iter()
            .map(|(up, down)| Edge {
                edge_id: self.fresh(),
                upstream: execution(up),
                downstream: execution(down),
                data_passing_ref: if shape.is_multiple_of(2) {
                    "all".into()
                } else {
                    String::new()
                },
            })
            .collect();
        let submission = self.call(&SubmitFlow {
            partition: PARTITION,
            flow_id: flow(slot),
            flow_kind: "dag".into(),
            namespace: namespace(),
            members: members.to_vec(),
            edges: edges.clone(),
            joins: Vec::new(),
            groups: vec![(execution(z), policy(shape))],
            content: String::new(),
            seal: !choice.is_multiple_of(3),
        });
        if submission.is_some() {
            let staged =
                edges.into_iter().map(|edge| StagedEdge { flow_id: flow(slot), edge, revision: 0 });
            self.edges.extend(staged);
        }
    }

    /// Ends an open submission; for any other flow this changes nothing.
    pub(in crate::history) fn seal_flow(&mut self, slot: u8) {
        if self.flow_record(flow(slot)).is_none() {
            return;
        }
        self.call(&SubmitFlow {
            partition: PARTITION,
            flow_id: flow(slot),
            flow_kind: "dag".into(),
            namespace: namespace(),
            members: Vec::new(),
            edges: Vec::new(),
            joins: Vec::new(),
            groups: Vec::new(),
            content: String::new(),
            seal: true,
        });
    }

    pub(in crate::history) fn add_member(&mut self, slot: u8, member: u8) {
        self.call(&AddExecutionToFlow { flow_id: flow(slot), execution_id: execution(member) });
    }

    pub(in crate::history) fn set_group(&mut self, slot: u8, child: u8, choice: u8) {
        let now = self.now();
        self.call(&SetEdgeGroupPolicy {
            flow_id: flow(slot),
            downstream: execution(child),
            policy: policy(choice),
            now,
        });
    }

    pub(in crate::history) fn stage(&mut self, slot: u8, up: u8, down: u8) -> Option<usize> {
        let now = self.now();
        let revision = self.flow_record(flow(slot))?.number("graph_revision");
        let edge = Edge {
            edge_id: self.fresh(),
            upstream: execution(up),
            downstream: execution(down),
            data_passing_ref: if up.is_multiple_of(2) { "all".into() } else { String::new() },
        };
        let revision = self.call(&StageDependencyEdge {
            flow_id: flow(slot),
            edge: edge.clone(),
            expected_graph_revision: u64::try_from(revision).unwrap_or_default(),
            now,
        })?;
        self.edges.push(StagedEdge { flow_id: flow(slot), edge, revision });
        Some(self.edges.len() - 1)
    }

    pub(in crate::history) fn stage_and_apply(&mut self, slot: u8, up: u8, down: u8) {
        if let Some(number) = self.stage(slot, up, down) {
            self.apply_edge(number);
        }
    }

    /// Applies one of the edges of late, again or for the first time.
    pub(in crate::history) fn apply(&mut self, number: usize) {
        if let Some(back) = self.edges.len().checked_sub(1 + number % 4) {
            self.apply_edge(back);
        }
    }

    fn apply_edge(&mut self, number: usize) {
        let staged = self.edges[number].clone();
        // The edge must still be staged: a purge removes it.
        let known = Key::flow(PARTITION, staged.flow_id).edge(staged.edge.edge_id);
        if !self.snapshot().holds(&known) {
            return;
        }
        let (now, lane_id) = (self.now(), self.lane_of(&staged.edge.downstream));
        self.call(&ApplyDependencyToChild {
            flow_id: staged.flow_id,
            edge: staged.edge,
            lane_id,
            graph_revision: staged.revision,
            now,
        });
    }

    fn lane_of(&self, id: &ExecutionId) -> selvedge_core::id::LaneId {
        lane(slot_of(id))
    }

    pub(in crate::history) fn resolve_one(&mut self, number: usize) {
        let Some(back) = self.edges.len().checked_sub(1 + number % 6) else { return };
        let StagedEdge { flow_id, edge, .. } = self.edges[back].clone();
        let outcome: Result<TerminalOutcome, _> =
            self.field(&edge.upstream, "terminal_outcome").parse();
        let Ok(outcome) = outcome else { return };
        if outcome == TerminalOutcome::None {
            return;
        }
        let now = self.now();
        self.call(&ResolveDependency {
            flow_id,
            edge_id: edge.edge_id,
            lane_id: self.lane_of(&edge.downstream),
            attempt_index: self.field(&edge.downstream, "current_attempt_index").parse().ok(),
            upstream: edge.upstream,
            downstream: edge.downstream,
            outcome,
            now,
        });
    }

    pub(in crate::history) fn resolve_outgoing(&mut self, slot: u8, choice: u8) {
        self.call(&ResolveOutgoing {
            execution_id: execution(slot),
            cursor: "0".into(),
            limit: (choice == 0).then_some(1),
            only_edge: None,
            only_child: None,
        });
    }

    pub(in crate::history) fn promote_blocked(&mut self, slot: u8) {
        let now = self.now();
        self.call(&PromoteBlockedToEligible {
            execution_id: execution(slot),
            lane_id: lane(slot),
            now,
        });
    }

    pub(in crate::history) fn cancel_flow(&mut self, slot: u8, choice: u8) {
        self.call(&CancelFlow {
            partition: PARTITION,
            flow_id: flow(slot),
            reason: "no longer wanted".into(),
            policy: CancellationPolicy::ALL[usize::from(choice) % CancellationPolicy::ALL.len()],
            grace_ms: None,
        });
    }

    /// Cancels a member that is still to be cancelled, and acknowledges it.
    pub(in crate::history) fn pay_cancel(&mut self, slot: u8, which: u8) {
        let pending = self.snapshot().set(&Key::flow(PARTITION, flow(slot)).pending_cancels());
        let pending: Vec<String> = pending.iter().cloned().collect();
        let Some(member) = pending.get(usize::from(which) % pending.len().max(1)) else { return };
        let Ok(execution_id) = member.parse::<ExecutionId>() else { return };
        self.cancel_as(slot_of(&execution_id), "flow_cascade");
        self.call(&AckCancelMember { partition: PARTITION, flow_id: flow(slot), execution_id });
    }

    /// Cancels what the first noted group no longer needs.
    pub(in crate::history) fn pay_siblings(&mut self) {
        let Some(job) = self.noted_job() else { return };
        let key = Key::flow(PARTITION, job.flow_id).edge_group(&job.downstream);
        let members = self
            .snapshot()
            .hash(&key)
            .map(|group| group.text("cancel_siblings_pending_members").to_owned());
        for member in members.unwrap_or_default().split('|').filter_map(|id| id.parse().ok()) {
            self.cancel_as(slot_of(&member), "operator_override");
        }
        self.call(&DrainSiblingCancelGroupChecked { job, limit: None, after: None });
    }

    fn noted_job(&self) -> Option<SiblingCancelJob> {
        let noted = self.snapshot().index_set(PARTITION, PartitionIndex::PendingCancelGroups);
        let (flow_id, downstream) = noted.first()?.split_once('|')?;
        Some(SiblingCancelJob {
            flow_id: flow_id.parse().ok()?,
            downstream: downstream.parse().ok()?,
        })
    }

    fn some_job(&self, slot: u8, child: u8) -> SiblingCancelJob {
        self.noted_job().filter(|_| child < 9).unwrap_or_else(|| SiblingCancelJob {
            flow_id: flow(slot),
            downstream: execution(child),
        })
    }

    pub(in crate::history) fn drain(&mut self, slot: u8, child: u8) {
        let job = self.some_job(slot, child);
        self.call(&DrainSiblingCancelGroup(job));
    }

    pub(in crate::history) fn drain_checked(&mut self, slot: u8, child: u8) {
        let job = self.some_job(slot, child);
        self.call(&DrainSiblingCancelGroupChecked { job, limit: Some(1), after: None });
    }

    pub(in crate::history) fn reconcile_group(&mut self, slot: u8, child: u8) {
        let job = self.some_job(slot, child);
        self.call(&ReconcileSiblingCancelGroup(job));
    }

    pub(in crate::history) fn project_flow(&mut self, slot: u8, choice: u8) {
        self.call(&ProjectFlow {
            partition: PARTITION,
            flow_id: flow(slot),
            limit: (choice.is_multiple_of(2)).then_some(1),
        });
    }

    pub(in crate::history) fn purge_flow(&mut self, slot: u8, choice: u8) {
        self.call(&PurgeFlow {
            partition: PARTITION,
            flow_id: flow(slot),
            retention_ms: Some(u64::from(choice % 3) * 1_000),
            limit: (choice.is_multiple_of(2)).then_some(1),
        });
    }
}

fn slot_of(id: &ExecutionId) -> u8 {
    id.as_str()
        .chars()
        .last()
        .and_then(|digit| digit.to_digit(10))
        .map_or(0, |digit| u8::try_from(digit).unwrap_or_default())
}

fn policy(choice: u8) -> GroupPolicy {
    let on_satisfied =
        if choice.is_multiple_of(2) { OnSatisfied::CancelRemaining } else { OnSatisfied::LetRun };
    match choice % 6 {
        0 | 1 => GroupPolicy::AnyOf(on_satisfied),
        2 | 3 => GroupPolicy::Quorum { k: 2, on_satisfied },
        4 => GroupPolicy::Quorum { k: 1, on_satisfied },
        _ => GroupPolicy::AllOf,
    }
}
