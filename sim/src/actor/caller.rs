//! Callers and signallers: they carry out the actions of a plan, and repeat calls without a result.
//! After a crash a caller starts its unfinished actions again.

use std::collections::{BTreeMap, VecDeque};

use selvedge_core::call::Function;
use selvedge_core::call::execution::{CancelExecution, CreateExecution, Running};
use selvedge_core::call::flow::{
    AddExecutionToFlow, CancelFlow, CancellationPolicy, ReplayExecution, StageDependencyEdge,
    Submission, SubmitFlow,
};
use selvedge_core::id::{AttemptIndex, ExecutionId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::value::Value;

use super::graph::{ActionCall, StagedEdge};
use super::{CallResult, ClientWait, lane, tenant};
use crate::event::{Actor, EventKind};
use crate::plan::{Action, Policy, Span, TaskSpec};
use crate::world::World;
use crate::world::random_streams::Purpose;

/// How often a caller repeats a call without a result.
const TRIES_MAX: u32 = 12;
/// The pause before that.
const PAUSE_MS: u64 = 250;
/// How long a crashed caller stays down.
const DEAD: Span = Span { from: 100, to: 5_000 };
/// How often a signaller retries while the execution is not suspended yet.
const EARLY_MAX: u32 = 20;
/// A caller and its unfinished actions.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) incarnation: u32,
    open: BTreeMap<u64, Action>,
}

/// An action in progress, and the calls still to be made.
#[derive(Clone, Debug)]
pub(crate) struct CallerJob {
    number: u64,
    calls: VecDeque<ActionCall>,
    tries: u32,
    /// The edge that is being staged, to build the call again if the graph has changed.
    staging: Option<StagedEdge>,
}

impl World {
    pub(crate) fn take_step(&mut self, at: usize) {
        self.steps_left -= 1;
        let step = self.plan.steps[at].clone();
        self.start_action(step.by, step.action);
    }

    /// Starts an action.
    pub(crate) fn start_action(&mut self, by: Actor, action: Action) {
        self.next_action += 1;
        let number = self.next_action;
        let caller = self.callers.entry(by).or_default();
        caller.open.insert(number, action.clone());
        self.begin(by, number, action);
    }

    /// Starts an action after a delay.
    pub(crate) fn later(&mut self, by: Actor, wait_ms: u64, action: Action) {
        self.next_action += 1;
        let number = self.next_action;
        let caller = self.callers.entry(by).or_default();
        caller.open.insert(number, action.clone());
        let incarnation = caller.incarnation;
        let job = CallerJob {
            number,
            calls: [ActionCall::Action(action)].into(),
            tries: 0,
            staging: None,
        };
        self.set_timer(by, incarnation, wait_ms, ClientWait::Caller(Box::new(job)));
    }

    fn begin(&mut self, by: Actor, number: u64, action: Action) {
        let incarnation = self.callers.entry(by).or_default().incarnation;
        let calls = self.calls(by, action);
        self.continue_job(by, incarnation, CallerJob { number, calls, tries: 0, staging: None });
    }

    /// A caller crashes; after the restart it starts its unfinished actions again.
    pub(crate) fn kill_caller(&mut self, actor: Actor) {
        self.emit(actor, EventKind::Died);
        let wait = self.random(Purpose::Faults, actor).within(DEAD);
        let caller = self.callers.entry(actor).or_default();
        caller.incarnation += 1;
        let (incarnation, open) = (caller.incarnation, caller.open.clone());
        for (number, action) in open {
            let job = CallerJob {
                number,
                calls: [ActionCall::Action(action)].into(),
                tries: 0,
                staging: None,
            };
            self.set_timer(actor, incarnation, wait, ClientWait::Caller(Box::new(job)));
        }
    }

    /// The calls of an action.
    fn calls(&mut self, by: Actor, action: Action) -> VecDeque<ActionCall> {
        match action {
            Action::Submit(flow) => self.submission(&flow),
            Action::Build(flow) => self.building(by, &flow),
            Action::Create(task) => [self.creation(by, &task)].into(),
            Action::Cancel(name) => [ActionCall::Cancel(self.names.execution(&name))].into(),
            Action::CancelFlow(name) => {
                let Some(flow_id) = self.names.flow(&name) else { return VecDeque::new() };
                let call = CancelFlow {
                    partition: self.names.partition_of(flow_id),
                    flow_id,
                    reason: "no longer wanted".to_owned(),
                    policy: CancellationPolicy::CancelAll,
                    grace_ms: None,
                };
                [ActionCall::ready(&call)].into()
            }
            Action::Replay(name) => {
                let id = self.names.execution(&name);
                [ActionCall::ready(&self.replay_call(&id))].into()
            }
            Action::Signal(name, signal) => {
                let id = self.names.execution(&name);
                [ActionCall::Signal(id, signal, 0)].into()
            }
        }
    }

    /// Makes the next call of a job.
    pub(crate) fn continue_job(&mut self, by: Actor, incarnation: u32, mut job: CallerJob) {
        if self.callers.entry(by).or_default().incarnation != incarnation {
            return;
        }
        let Some(call) = job.calls.front().cloned() else {
            self.callers.entry(by).or_default().open.remove(&job.number);
            return;
        };
        if let ActionCall::Action(action) = call {
            return self.begin(by, job.number, action);
        }
        if let ActionCall::Signal(id, name, early) = &call {
            // No waitpoint is known yet: try again later.
            if !self.waitpoints.iter().any(|known| known.execution == *id) {
                let next = ActionCall::Signal(id.clone(), name.clone(), early + 1);
                job.calls[0] = next;
                if *early >= EARLY_MAX {
                    job.calls.clear();
                }
                return self.set_timer(
                    by,
                    incarnation,
                    2 * PAUSE_MS,
                    ClientWait::Caller(Box::new(job)),
                );
            }
        }
        if let ActionCall::Stage(edge) = &call {
            job.staging = Some(edge.clone());
        }
        let (function, argv) = self.words_of(by, &call);
        if argv.is_empty() {
            job.calls.pop_front();
            return self.continue_job(by, incarnation, job);
        }
        // A repeat has exactly the same words.
        job.calls[0] = ActionCall::Ready(function, argv.clone());
        let key = if function.is_empty() { argv.get(1) } else { argv.get(3) };
        let slot = key.map_or(0, |key| selvedge_core::partition::slot(key));
        self.ask_words(by, incarnation, slot, function, argv, ClientWait::Caller(Box::new(job)));
    }

    fn words_of(&mut self, by: Actor, call: &ActionCall) -> (&'static str, Vec<Vec<u8>>) {
        match call {
            ActionCall::Ready(function, argv) => (function, argv.clone()),
            ActionCall::Cancel(id) => {
                super::worker::command_of(&self.cancel_call(id, "by a caller"))
            }
            ActionCall::Signal(id, name, _) => {
                self.signal_call(by, id, name, 0).unwrap_or(("", Vec::new()))
            }
            ActionCall::Stage(edge) => self.stage_words(edge),
            ActionCall::Apply(edge) => self.apply_words(edge),
            ActionCall::Action(_) => ("", Vec::new()),
        }
    }

    pub(crate) fn job_answered(
        &mut self,
        by: Actor,
        incarnation: u32,
        mut job: CallerJob,
        result: CallResult,
    ) {
        let waiting = |job: CallerJob| ClientWait::Caller(Box::new(job));
        match result {
            CallResult::Retry if job.tries < TRIES_MAX => {
                job.tries += 1;
                self.set_timer(by, incarnation, PAUSE_MS, waiting(job));
            }
            // After too many tries the caller gives up the action.
            CallResult::Retry => drop(self.callers.entry(by).or_default().open.remove(&job.number)),
            CallResult::Reply(reply) if self.gives_up(&mut job, &reply) => {
                self.callers.entry(by).or_default().open.remove(&job.number);
            }
            CallResult::Reply(reply) => {
                let sealing =
                    matches!(job.calls.front(), Some(ActionCall::Ready(SubmitFlow::NAME, _)))
                        && matches!(SubmitFlow::parse(reply), Ok(Submission::Sealing { .. }));
                if !sealing {
                    job.calls.pop_front();
                }
                if !matches!(job.calls.front(), Some(ActionCall::Stage(_))) {
                    job.tries = 0;
                }
                self.continue_job(by, incarnation, job);
            }
        }
    }

    /// Whether a caller gives up an action because a member or an edge of a flow was refused. If
    /// the graph has changed in the meantime, the edge is staged again.
    fn gives_up(&self, job: &mut CallerJob, reply: &Value) -> bool {
        let builds = matches!(
            job.calls.front(),
            Some(ActionCall::Ready(AddExecutionToFlow::NAME | StageDependencyEdge::NAME, _))
        );
        let staging = job.staging.take();
        let Some(code) = refused(reply).filter(|_| builds) else { return false };
        match (code.as_str(), staging) {
            ("stale_graph_revision", Some(edge)) if job.tries < TRIES_MAX => {
                job.tries += 1;
                job.calls.insert(1, ActionCall::Stage(edge));
                false
            }
            ("dependency_already_exists", _) => false,
            _ => true,
        }
    }

    fn creation(&mut self, by: Actor, task: &TaskSpec) -> ActionCall {
        let id = self.names.register_execution(&task.name, task.partition);
        let partition = id.partition();
        let after = |ms: Option<u64>| {
            ms.map(|ms| self.server_time(partition, i64::try_from(ms).unwrap_or(i64::MAX)))
        };
        ActionCall::ready(&CreateExecution {
            namespace: tenant(self.tenant_of(&task.name)),
            lane_id: lane(task.lane % self.plan.config.lanes.max(1)),
            execution_kind: "task".to_owned(),
            priority: task.priority,
            creator_identity: by.to_string(),
            policy_json: self.policy_json(task.policy),
            input_payload: task.name.clone().into_bytes(),
            delay_until: after(task.delay_ms),
            idempotency: None,
            tags_json: tags_json(task.tags),
            execution_deadline_at: after(task.deadline_ms),
            execution_id: id,
        })
    }

    /// The tenant of an execution or flow.
    pub(crate) fn tenant_of(&self, name: &str) -> u64 {
        super::names::hash(name, 9) % self.plan.config.tenants.max(1)
    }

    pub(crate) fn policy_json(&self, policy: Policy) -> String {
        let (budget, quota) = (self.names.budget().0, self.names.quota().0);
        policy.json(&budget.to_string(), &quota.to_string())
    }

    /// A call that cancels an execution in its current state.
    pub(crate) fn cancel_call(&self, id: &ExecutionId, reason: &str) -> CancelExecution {
        CancelExecution {
            running: Running {
                execution_id: id.clone(),
                attempt_index: self
                    .peek(id, "current_attempt_index")
                    .parse()
                    .unwrap_or(AttemptIndex(0)),
                lane: self.lane_of(id),
                worker_instance_id: WorkerInstanceId::new(
                    self.peek(id, "current_worker_instance_id"),
                ),
            },
            waitpoint_id: self.peek(id, "current_waitpoint_id").parse().ok(),
            reason: reason.to_owned(),
            source: "operator_override".to_owned(),
            lease: None,
        }
    }

    pub(crate) fn replay_call(&self, id: &ExecutionId) -> ReplayExecution {
        ReplayExecution {
            execution_id: id.clone(),
            lane_id: self.lane_of(id),
            inbound_edges: Vec::new(),
        }
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

/// The code of a refusal.
fn refused(reply: &Value) -> Option<String> {
    let Value::Array(words) = reply else { return None };
    match words.as_slice() {
        [Value::Int(0), Value::Bulk(code), ..] => Some(String::from_utf8_lossy(code).into_owned()),
        _ => None,
    }
}

impl ActionCall {
    /// A complete call.
    pub(crate) fn ready<F: Function>(call: &F) -> Self {
        debug_assert!(call.keys().first().map(Key::slot).is_some(), "{} has no key", F::NAME);
        Self::Ready(F::NAME, call.command())
    }
}
