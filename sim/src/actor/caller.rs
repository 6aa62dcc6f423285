//! Callers and signal senders: they submit, create, cancel, replay and signal, and repeat what got
//! no answer. One that dies begins its open deeds anew.

use std::collections::{BTreeMap, VecDeque};

use selvedge_core::call::Function;
use selvedge_core::call::budget::{CreateBudget, DimensionLimits};
use selvedge_core::call::execution::{CancelExecution, CreateExecution, Running};
use selvedge_core::call::flow::{
    AddExecutionToFlow, CancelFlow, CancellationPolicy, ReplayExecution, StageDependencyEdge,
    Submission, SubmitFlow,
};
use selvedge_core::call::quota::CreateQuotaPolicy;
use selvedge_core::id::{AttemptIndex, ExecutionId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::value::Value;

use super::graph::{Piece, StagedEdge};
use super::{Errand, Heard, lane, tenant};
use crate::event::{Actor, What};
use crate::plan::{Deed, Policy, Span, TaskSpec};
use crate::world::World;
use crate::world::stream::Purpose;

/// How often a caller repeats what got no answer.
const TRIES_MAX: u32 = 12;
/// How long it waits before that.
const PAUSE_MS: u64 = 250;
/// How long a dead caller stays dead.
const DEAD: Span = Span { from: 100, to: 5_000 };
/// How often a signal is tried for an execution that does not wait yet.
const EARLY_MAX: u32 = 20;
/// The window of the shared quota.
pub(crate) const WINDOW_S: u64 = 5;
/// Admissions in that window.
pub(crate) const RATE: u64 = 4;
/// Admissions at a time.
pub(crate) const CONCURRENT: u64 = 3;

/// What a caller is about.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) life: u32,
    open: BTreeMap<u64, Deed>,
}

/// One deed on its way: what is still to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    number: u64,
    pieces: VecDeque<Piece>,
    tries: u32,
    /// The edge that is being staged: its words depend on the graph as it stands.
    staging: Option<StagedEdge>,
}

impl World {
    pub(crate) fn take_step(&mut self, at: usize) {
        self.steps_left -= 1;
        let step = self.plan.steps[at].clone();
        self.do_deed(step.by, step.deed);
    }

    /// Begins a deed.
    pub(crate) fn do_deed(&mut self, by: Actor, deed: Deed) {
        self.next_deed += 1;
        let number = self.next_deed;
        let caller = self.callers.entry(by).or_default();
        caller.open.insert(number, deed.clone());
        self.begin(by, number, deed);
    }

    /// Begins a deed after a while.
    pub(crate) fn later(&mut self, by: Actor, wait_ms: u64, deed: Deed) {
        self.next_deed += 1;
        let number = self.next_deed;
        let caller = self.callers.entry(by).or_default();
        caller.open.insert(number, deed.clone());
        let life = caller.life;
        let job = Job { number, pieces: [Piece::Deed(deed)].into(), tries: 0, staging: None };
        self.tick(by, life, wait_ms, Errand::Caller(Box::new(job)));
    }

    fn begin(&mut self, by: Actor, number: u64, deed: Deed) {
        let life = self.callers.entry(by).or_default().life;
        let pieces = self.pieces(by, deed);
        self.job_goes_on(by, life, Job { number, pieces, tries: 0, staging: None });
    }

    /// A caller dies; when it comes back it begins anew what it had not finished.
    pub(crate) fn kill_caller(&mut self, actor: Actor) {
        self.emit(actor, What::Died);
        let wait = self.chance(Purpose::Faults, actor).within(DEAD);
        let caller = self.callers.entry(actor).or_default();
        caller.life += 1;
        let (life, open) = (caller.life, caller.open.clone());
        for (number, deed) in open {
            let job = Job { number, pieces: [Piece::Deed(deed)].into(), tries: 0, staging: None };
            self.tick(actor, life, wait, Errand::Caller(Box::new(job)));
        }
    }

    /// What a deed takes, call by call.
    fn pieces(&mut self, by: Actor, deed: Deed) -> VecDeque<Piece> {
        match deed {
            Deed::Submit(flow) => self.submission(&flow),
            Deed::Build(flow) => self.building(by, &flow),
            Deed::Create(task) => [self.creation(by, &task)].into(),
            Deed::Cancel(name) => [Piece::Cancel(self.names.execution(&name))].into(),
            Deed::CancelFlow(name) => {
                let Some(flow_id) = self.names.flow(&name) else { return VecDeque::new() };
                let call = CancelFlow {
                    partition: self.names.partition_of(flow_id),
                    flow_id,
                    reason: "no longer wanted".to_owned(),
                    policy: CancellationPolicy::CancelAll,
                    grace_ms: None,
                };
                [Piece::ready(&call)].into()
            }
            Deed::Replay(name) => {
                let id = self.names.execution(&name);
                [Piece::ready(&self.replay_call(&id))].into()
            }
            Deed::Signal(name, signal) => {
                let id = self.names.execution(&name);
                [Piece::Signal(id, signal, 0)].into()
            }
        }
    }

    /// Sends the next call of a job.
    pub(crate) fn job_goes_on(&mut self, by: Actor, life: u32, mut job: Job) {
        if self.callers.entry(by).or_default().life != life {
            return;
        }
        let Some(piece) = job.pieces.front().cloned() else {
            self.callers.entry(by).or_default().open.remove(&job.number);
            return;
        };
        if let Piece::Deed(deed) = piece {
            return self.begin(by, job.number, deed);
        }
        if let Piece::Signal(id, name, early) = &piece {
            // Nobody has told of a waitpoint yet: try again for a while.
            if !self.waitpoints.iter().any(|known| known.execution == *id) {
                let next = Piece::Signal(id.clone(), name.clone(), early + 1);
                job.pieces[0] = next;
                if *early >= EARLY_MAX {
                    job.pieces.clear();
                }
                return self.tick(by, life, 2 * PAUSE_MS, Errand::Caller(Box::new(job)));
            }
        }
        if let Piece::Stage(edge) = &piece {
            job.staging = Some(edge.clone());
        }
        let (function, argv) = self.words_of(by, &piece);
        if argv.is_empty() {
            job.pieces.pop_front();
            return self.job_goes_on(by, life, job);
        }
        // A repeat says the very same words.
        job.pieces[0] = Piece::Ready(function, argv.clone());
        let key = if function.is_empty() { argv.get(1) } else { argv.get(3) };
        let slot = key.map_or(0, |key| selvedge_core::partition::slot(key));
        self.ask_words(by, life, slot, function, argv, Errand::Caller(Box::new(job)));
    }

    fn words_of(&mut self, by: Actor, piece: &Piece) -> (&'static str, Vec<Vec<u8>>) {
        match piece {
            Piece::Ready(function, argv) => (function, argv.clone()),
            Piece::Cancel(id) => super::worker::written(&self.cancel_call(id, "by a caller")),
            Piece::Signal(id, name, _) => {
                self.signal_call(by, id, name, 0).unwrap_or(("", Vec::new()))
            }
            Piece::Stage(edge) => self.stage_words(edge),
            Piece::Apply(edge) => self.apply_words(edge),
            Piece::Deed(_) => ("", Vec::new()),
        }
    }

    pub(crate) fn job_answered(&mut self, by: Actor, life: u32, mut job: Job, heard: Heard) {
        let errand = |job: Job| Errand::Caller(Box::new(job));
        match heard {
            Heard::Again if job.tries < TRIES_MAX => {
                job.tries += 1;
                self.tick(by, life, PAUSE_MS, errand(job));
            }
            // A caller that never gets an answer gives the whole deed up, as people do.
            Heard::Again => drop(self.callers.entry(by).or_default().open.remove(&job.number)),
            Heard::Reply(reply) if self.gives_up(&mut job, &reply) => {
                self.callers.entry(by).or_default().open.remove(&job.number);
            }
            Heard::Reply(reply) => {
                let sealing = matches!(job.pieces.front(), Some(Piece::Ready(SubmitFlow::NAME, _)))
                    && matches!(SubmitFlow::parse(reply), Ok(Submission::Sealing { .. }));
                if !sealing {
                    job.pieces.pop_front();
                }
                if !matches!(job.pieces.front(), Some(Piece::Stage(_))) {
                    job.tries = 0;
                }
                self.job_goes_on(by, life, job);
            }
        }
    }

    /// Whether a caller that builds a flow stops here: whoever is refused a member or an edge does
    /// not go on as if it were there. A graph that grew meanwhile is only looked at again.
    fn gives_up(&self, job: &mut Job, reply: &Value) -> bool {
        let builds = matches!(
            job.pieces.front(),
            Some(Piece::Ready(AddExecutionToFlow::NAME | StageDependencyEdge::NAME, _))
        );
        let staging = job.staging.take();
        let Some(code) = refused(reply).filter(|_| builds) else { return false };
        match (code.as_str(), staging) {
            ("stale_graph_revision", Some(edge)) if job.tries < TRIES_MAX => {
                job.tries += 1;
                job.pieces.insert(1, Piece::Stage(edge));
                false
            }
            ("dependency_already_exists", _) => false,
            _ => true,
        }
    }

    fn creation(&mut self, by: Actor, task: &TaskSpec) -> Piece {
        let id = self.names.found_execution(&task.name, task.partition);
        let partition = id.partition();
        let after = |ms: Option<u64>| {
            ms.map(|ms| self.server_time(partition, i64::try_from(ms).unwrap_or(i64::MAX)))
        };
        Piece::ready(&CreateExecution {
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

    /// Whose work it is.
    pub(crate) fn tenant_of(&self, name: &str) -> u64 {
        super::names::hash(name, 9) % self.plan.config.tenants.max(1)
    }

    pub(crate) fn policy_json(&self, policy: Policy) -> String {
        let (budget, quota) = (self.names.budget().0, self.names.quota().0);
        policy.json(&budget.to_string(), &quota.to_string())
    }

    /// The cancel of an execution as its record stands now.
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

    /// One budget and one quota for all that want them.
    pub(crate) fn open_accounts(&mut self) {
        let (budget_id, partition) = self.names.budget();
        let limits = vec![DimensionLimits { dimension: "tokens".to_owned(), hard: 20, soft: 12 }];
        let budget = CreateBudget {
            partition,
            budget_id,
            scope_type: "tenant".to_owned(),
            scope_id: "all".to_owned(),
            enforcement_mode: "strict".to_owned(),
            on_hard_limit: "reject".to_owned(),
            on_soft_limit: "warn".to_owned(),
            reset_interval_ms: 20_000,
            now: self.server_time(partition, 0),
            limits,
        };
        self.command_by(Actor::World, partition, budget.command());
        let (quota_policy_id, partition) = self.names.quota();
        let quota = CreateQuotaPolicy {
            partition,
            quota_policy_id,
            window_seconds: WINDOW_S,
            max_requests_per_window: RATE,
            max_concurrent: CONCURRENT,
            now: self.server_time(partition, 0),
        };
        self.command_by(Actor::World, partition, quota.command());
    }

    /// Whether any execution of the plan wants the shared budget or quota.
    pub(crate) fn wants_accounts(&self) -> bool {
        let wants = |policy: Policy| matches!(policy, Policy::Budget | Policy::Quota);
        self.plan.steps.iter().any(|step| match &step.deed {
            Deed::Submit(flow) | Deed::Build(flow) => wants(flow.policy),
            Deed::Create(task) => wants(task.policy),
            Deed::Cancel(_) | Deed::CancelFlow(_) | Deed::Replay(_) | Deed::Signal(..) => false,
        })
    }
}

/// So many tags, as they are sent.
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

impl Piece {
    /// A call that is known in full.
    pub(crate) fn ready<F: Function>(call: &F) -> Self {
        debug_assert!(call.keys().first().map(Key::slot).is_some(), "{} has no key", F::NAME);
        Self::Ready(F::NAME, call.command())
    }
}
