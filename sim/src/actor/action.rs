//! What the actions of a plan are for the client: which procedure, with which arguments, and what
//! its success means.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_core::call::execution::CreateExecution;
use selvedge_core::client::{
    Cancel, CancelFlow, Limits, Needs, Replay, SendSignal, Settings, Start, StartTime, Submit,
    Wait, WaitFlow,
};
use selvedge_core::id::{ExecutionId, LaneId};

use super::caller::Caller;
use super::machine::{ClientMachine, Ended, boxed};
use super::{lane, tenant};
use crate::event::{Actor, Claim};
use crate::plan::{Action, MISSING_BUDGET, Policy, TaskSpec};
use crate::world::World;
use crate::world::random_streams::Purpose;

/// How much later than the patience of a client its machine gives up a batch by itself.
const SLACK_MS: u64 = 500;

impl World {
    /// What the success of an action means, and for which executions; none if nothing is checked.
    pub(super) fn claim_of(&mut self, action: &Action) -> Option<(Claim, Vec<ExecutionId>)> {
        Some(match action {
            // Of two flows of the same name only one is there.
            Action::Submit(flow) if self.is_only(&flow.name, action) => {
                (Claim::Submitted, self.waited_for(&flow.name))
            }
            Action::Create(task) => {
                (Claim::Created, vec![self.clients.names.execution(&task.name)])
            }
            Action::Cancel(name) => (Claim::Cancelled, vec![self.clients.names.execution(name)]),
            Action::Replay(name) => (Claim::Replayed, vec![self.clients.names.execution(name)]),
            Action::Submit(_)
            | Action::Build(_)
            | Action::CancelFlow(_)
            | Action::Signal(..)
            | Action::Wait(_) => return None,
        })
    }

    /// Whether no other step makes something else under this name.
    fn is_only(&self, name: &str, action: &Action) -> bool {
        let mut steps = self.plan.steps.iter().map(|step| &step.action);
        steps.any(|made| made == action)
            && self.plan.steps.iter().all(|step| match &step.action {
                made @ (Action::Submit(flow) | Action::Build(flow)) => {
                    flow.name != name || made == action
                }
                Action::Create(_)
                | Action::Cancel(_)
                | Action::CancelFlow(_)
                | Action::Replay(_)
                | Action::Signal(..)
                | Action::Wait(_) => true,
            })
    }

    /// The procedure of an action, and the lanes that it registers; none if it cannot begin yet.
    pub(super) fn machine(
        &mut self,
        by: Actor,
        action: &Action,
    ) -> Option<(Box<dyn ClientMachine>, Vec<LaneId>)> {
        let seed = self.random(Purpose::Workload, by).bits();
        let settings = self.client_settings();
        let mut lanes = Vec::new();
        let machine = match action {
            Action::Submit(flow) => {
                let needs = self.needs(by, lane(0), flow.policy);
                lanes.clone_from(&needs.lanes);
                let submit = Submit::new(needs, self.submission(flow));
                boxed(submit, settings, seed, |_| Ended::Done)
            }
            Action::Build(flow) => {
                let build = self.building(by, flow);
                boxed(build, settings, seed, |()| Ended::Done)
            }
            Action::Create(task) => {
                let needs = self.needs(by, self.lane_of_task(task), task.policy);
                lanes.clone_from(&needs.lanes);
                boxed(self.creation(by, task, needs), settings, seed, |_| Ended::Done)
            }
            Action::Cancel(name) => {
                let cancel =
                    Cancel::new(self.clients.names.execution(name), "by a caller".to_owned());
                boxed(cancel, settings, seed, |()| Ended::Done)
            }
            Action::CancelFlow(name) => {
                let flow_id = self.clients.names.flow(name)?;
                let partition = self.clients.names.partition_of(flow_id);
                let cancel = CancelFlow::new(flow_id, partition, "no longer wanted".to_owned());
                boxed(cancel, settings, seed, |_| Ended::Done)
            }
            Action::Replay(name) => {
                let replay = Replay::new(self.clients.names.execution(name));
                boxed(replay, settings, seed, |()| Ended::Done)
            }
            Action::Signal(name, signal) => {
                let id = self.clients.names.execution(name);
                let signal = SendSignal::new(self.incoming_signal(by, &id, signal)?);
                boxed(signal, settings, seed, |_| Ended::Done)
            }
            Action::Wait(name) => match self.clients.names.flow(name) {
                Some(flow_id) => {
                    let wait = WaitFlow::new(flow_id, self.clients.names.partition_of(flow_id));
                    boxed(wait, settings, seed, |outcome| {
                        Ended::Waited(outcome.tasks.into_iter().collect())
                    })
                }
                None => {
                    let wait = Wait::new(self.clients.names.execution(name));
                    boxed(wait, settings, seed, |outcome| {
                        Ended::Waited(vec![(outcome.id, outcome.outcome)])
                    })
                }
            },
        };
        Some((machine, lanes))
    }

    /// The times of a client: those of the real one, but for how long it waits for a reply.
    pub(crate) fn client_settings(&self) -> Settings {
        let call_timeout = Duration::from_millis(self.plan.config.patience.0 + SLACK_MS);
        Settings { call_timeout, ..Settings::default() }
    }

    /// What a submission needs before its first write.
    fn needs(&self, by: Actor, lane: LaneId, policy: Policy) -> Needs {
        let caller = self.clients.callers.get(&by);
        let known = caller.is_some_and(|caller| caller.knows_lane(&lane));
        let counts_known = caller.is_some_and(Caller::knows_counts);
        let mut limits = Limits::default();
        match policy {
            Policy::Budget => drop(limits.budgets.insert(self.clients.names.budget().0)),
            Policy::Quota => drop(limits.quotas.insert(self.clients.names.quota().0)),
            Policy::Missing => drop(limits.budgets.insert(MISSING_BUDGET.into())),
            Policy::Plain
            | Policy::Retry
            | Policy::Timeout
            | Policy::Deadline
            | Policy::Brief
            | Policy::Capped
            | Policy::Gpu => {}
        }
        let lanes = if known { Vec::new() } else { vec![lane] };
        Needs { counts: self.clients.names.counts(), counts_known, lanes, limits }
    }

    /// The executions that a wait is for: one, or all members of a flow. If several steps make
    /// flows of this name, the members of all of them: it is not known which one is there.
    pub(super) fn waited_for(&mut self, name: &str) -> Vec<ExecutionId> {
        let mut members = BTreeSet::new();
        for step in &self.plan.steps {
            let (Action::Submit(flow) | Action::Build(flow)) = &step.action else { continue };
            if flow.name == name {
                members.extend(flow.members().into_iter().map(|(member, ..)| member));
            }
        }
        if members.is_empty() {
            return vec![self.clients.names.execution(name)];
        }
        members
            .iter()
            .map(|member| self.clients.names.execution(&format!("{name}.{member}")))
            .collect()
    }

    fn lane_of_task(&self, task: &TaskSpec) -> LaneId {
        lane(task.lane % self.plan.config.lanes.max(1))
    }

    fn creation(&mut self, by: Actor, task: &TaskSpec, needs: Needs) -> Start {
        let id = self.clients.names.register_execution(&task.name, task.partition);
        let partition = id.partition();
        let deadline_at = task
            .deadline_ms
            .map(|ms| self.server_time(partition, i64::try_from(ms).unwrap_or(i64::MAX)));
        let start = match task.delay_ms {
            Some(ms) => StartTime::After(Duration::from_millis(ms)),
            None => StartTime::AtOnce,
        };
        let call = CreateExecution {
            namespace: tenant(self.tenant_of(&task.name)),
            lane_id: self.lane_of_task(task),
            execution_kind: self.kind_of(&task.name),
            priority: task.priority,
            creator_identity: by.to_string(),
            policy_json: self.policy_json(task.policy),
            input_payload: task.name.clone().into_bytes(),
            delay_until: None,
            idempotency: None,
            tags_json: tags_json(task.tags),
            execution_deadline_at: deadline_at,
            execution_id: id,
        };
        Start::new(needs, call, start)
    }

    /// The kind of an execution.
    pub(crate) fn kind_of(&self, name: &str) -> String {
        super::kind(super::names::hash(name, 17) % self.plan.config.kinds.max(1))
    }

    /// The tenant of an execution or flow.
    pub(crate) fn tenant_of(&self, name: &str) -> u64 {
        super::names::hash(name, 9) % self.plan.config.tenants.max(1)
    }

    pub(crate) fn policy_json(&self, policy: Policy) -> String {
        let (budget, quota) = (self.clients.names.budget().0, self.clients.names.quota().0);
        policy.json(&budget.to_string(), &quota.to_string())
    }
}

/// A number of tags, as JSON.
fn tags_json(count: u64) -> String {
    if count == 0 {
        return String::new();
    }
    let tags: Vec<String> = (0..count).map(|at| format!("\"sim.t{at}\":\"{at}\"")).collect();
    format!("{{{}}}", tags.join(","))
}
