//! Callers: they submit, create, cancel and replay.

use selvedge_core::call::Function;
use selvedge_core::call::execution::CreateExecution;
use selvedge_core::call::flow::{Edge, GroupPolicy, NewMember, OnSatisfied, SubmitFlow};
use selvedge_core::id::{ExecutionId, Namespace};
use selvedge_core::key::Key;
use selvedge_core::time::ServerTime;

use super::{CallerCall, Errand, lane, uuid};
use crate::event::{Actor, CallId, Learned};
use crate::plan::{FlowSpec, Group, TaskSpec};
use crate::world::World;

/// How often a caller repeats what got no answer.
const TRIES_MAX: u32 = 5;
/// How long it waits before that.
const PAUSE_MS: u64 = 200;

impl World {
    pub(crate) fn submit(&mut self, by: Actor, flow: &FlowSpec) {
        let partition = self.names.settle(&flow.name, flow.partition);
        let specs = flow.members();
        let id = |at: usize| self.names.execution(&format!("{}.{}", flow.name, specs[at].0));
        let ids: Vec<ExecutionId> = (0..specs.len()).map(id).collect();
        let mut edges = Vec::new();
        let mut groups = Vec::new();
        for (at, (name, after, group)) in specs.iter().enumerate() {
            for from in after {
                edges.push(Edge {
                    edge_id: uuid(&format!("{}.{}>{name}", flow.name, specs[*from].0)).into(),
                    upstream: ids[*from].clone(),
                    downstream: ids[at].clone(),
                    data_passing_ref: String::new(),
                });
            }
            if let Some(policy) = group_policy(*group) {
                groups.push((ids[at].clone(), policy));
            }
        }
        let call = SubmitFlow {
            partition,
            flow_id: self.names.flow(&flow.name),
            flow_kind: "simulated".to_owned(),
            namespace: Namespace::new("sim"),
            members: ids.into_iter().map(new_member).collect(),
            edges,
            groups,
            seal: true,
        };
        self.call_until_answered(by, &call);
    }

    pub(crate) fn create(&mut self, by: Actor, task: &TaskSpec) {
        self.names.settle(&task.name, task.partition);
        let shard = self.servers.owner(self.names.flow_partition(&task.name).slot());
        let clock = self.servers.clock_ms(self.servers.primary(shard), self.now_ms);
        let after = |ms: Option<u64>| ms.map(|ms| ServerTime((clock + ms).cast_signed()));
        let call = CreateExecution {
            execution_id: self.names.execution(&task.name),
            namespace: Namespace::new("sim"),
            lane_id: lane(task.lane),
            execution_kind: "task".to_owned(),
            priority: task.priority,
            creator_identity: by.to_string(),
            policy_json: String::new(),
            input_payload: task.name.clone().into_bytes(),
            delay_until: after(task.delay_ms),
            idempotency: None,
            tags_json: String::new(),
            execution_deadline_at: after(task.deadline_ms),
        };
        self.call_until_answered(by, &call);
    }

    fn call_until_answered<F: Function>(&mut self, by: Actor, call: &F) {
        let slot = call.keys().first().map_or(0, Key::slot);
        self.caller_sends(by, CallerCall { argv: call.command(), slot, tries: 0 });
    }

    fn caller_sends(&mut self, by: Actor, call: CallerCall) {
        let (slot, argv) = (call.slot, call.argv.clone());
        self.ask_words(by, slot, argv, Errand::Deed(call));
    }

    pub(crate) fn caller_ticks(&mut self, actor: Actor, errand: Errand) {
        if let Errand::Deed(call) = errand {
            self.caller_sends(actor, call);
        }
    }

    pub(crate) fn caller_hears(
        &mut self,
        actor: Actor,
        _call: CallId,
        errand: Errand,
        learned: Learned,
    ) {
        let Errand::Deed(call) = errand else { return };
        if matches!(learned, Learned::Perhaps(_)) && call.tries < TRIES_MAX {
            let again = CallerCall { tries: call.tries + 1, ..call };
            self.tick(actor, PAUSE_MS, Errand::Deed(again));
        }
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

fn new_member(execution_id: ExecutionId) -> NewMember {
    NewMember {
        execution_id,
        lane_id: lane(0),
        execution_kind: "task".to_owned(),
        priority: 0,
        creator_identity: "sim".to_owned(),
        policy_json: String::new(),
        input_payload: Vec::new(),
        delay_until: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}
