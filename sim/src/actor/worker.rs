//! Workers: they claim, work and report; slowly, twice, too late or never.

use selvedge_core::call::Function;
use selvedge_core::call::execution::{
    Authority, CompleteExecution, DelayExecution, FailExecution, Running,
};
use selvedge_core::call::lease::RenewLease;
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{AttemptId, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use selvedge_core::partition::Partition;
use selvedge_core::value::Value;

use super::{Errand, Heard, lane};
use crate::canary::{Plant, WorldBug};
use crate::event::{Actor, Phase, What};
use crate::plan::{Doing, Span};
use crate::world::World;
use crate::world::stream::Purpose;

/// How often a worker repeats what got no answer.
pub(super) const TRIES_MAX: u32 = 8;
/// How long it waits before that.
pub(super) const AGAIN_MS: u64 = 150;
/// How long a dead worker stays dead.
const DEAD: Span = Span { from: 100, to: 6_000 };
/// Retries that a failing worker asks for.
pub(crate) const RETRY: &str = r#"{"max_retries":3,"backoff":{"type":"fixed","delay_ms":500}}"#;
/// A lease that outlasts any link.
const SANE_LEASE_MS: u64 = 10_000;
/// How long a worker takes once faults are over.
const QUICK: Span = Span { from: 5, to: 60 };
/// How many times longer a worker waits when everything has come to rest: there is nothing to claim
/// any more, and minutes of that are still to be watched.
const REST_PATIENCE: u64 = 8;
/// Most claims that may end otherwise than by completing; then a task is done for good.
const CLAIMS_MAX: usize = 12;

/// What a worker asked for, or waits for.
#[derive(Clone, Debug)]
pub(crate) enum Chore {
    /// It gets up and looks for work.
    Rise,
    /// It has asked for work.
    Claim,
    /// It has asked for a slot of the quota.
    Admit(ExecutionId, bool),
    /// It has spent of the budget.
    Spend(ExecutionId),
    /// It has put aside what was not admitted.
    PutAside,
    /// It is done with what it holds.
    Done,
    /// It renews its lease, so many times more.
    Renew(u32),
    /// It has done so.
    Renewed(u32),
    /// It has made a waitpoint ahead.
    Ahead,
    /// It has reported.
    Report,
    /// It says it once more.
    Twice,
    /// It gives back the slot of the quota.
    GiveBack(ExecutionId),
}

/// What a worker knows.
pub(crate) struct Worker {
    number: u8,
    pub(crate) life: u32,
    /// Nobody starts it again.
    pub(crate) gone: bool,
    /// Where it looks next: every partition and lane in turn.
    turn: u64,
    offset: u32,
    /// There was work where it looked last: it looks there again.
    found: bool,
    pub(super) claim: Option<Claim>,
    pub(crate) work: Option<Work>,
    pub(super) tries: u32,
    /// Its next task is reported so long after the lease.
    pub(crate) zombie_ms: Option<u64>,
    /// It will not repeat the claim that got no answer.
    pub(crate) forgetful: bool,
    /// It reports the next result twice.
    pub(crate) says_it_twice: bool,
}

#[derive(Clone)]
pub(crate) struct Claim {
    pub(super) partition: Partition,
    pub(super) lane: LaneId,
    pub(super) lease_id: LeaseId,
    pub(super) attempt_id: AttemptId,
    pub(super) admitted: Option<ExecutionId>,
}

/// What a worker holds, as far as it knows.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) claimed: ClaimedWork,
    pub(crate) lane: LaneId,
    pub(crate) doing: Doing,
    pub(crate) instance: WorkerInstanceId,
    /// The report, once it was put together: a repeat says the same.
    report: Option<(&'static str, Vec<Vec<u8>>)>,
}

impl Work {
    fn running(&self) -> Running {
        Running {
            execution_id: self.claimed.execution_id.clone(),
            attempt_index: self.claimed.attempt_index,
            lane: self.lane.clone(),
            worker_instance_id: self.instance.clone(),
        }
    }
}

impl Worker {
    pub(crate) const fn new(number: u8) -> Self {
        Self {
            number,
            life: 1,
            gone: false,
            turn: 0,
            offset: 0,
            found: false,
            claim: None,
            work: None,
            tries: 0,
            zombie_ms: None,
            forgetful: false,
            says_it_twice: false,
        }
    }

    fn ids(&self) -> (WorkerId, WorkerInstanceId) {
        let instance = format!("w{}-{}", self.number, self.life);
        (WorkerId::new(format!("w{}", self.number)), WorkerInstanceId::new(instance))
    }

    fn capabilities(&self) -> Capabilities {
        let offered = if self.number % 2 == 1 { "gpu" } else { "" };
        offered.parse().unwrap_or_default()
    }
}

impl World {
    pub(crate) fn worker(&mut self, number: u8) -> &mut Worker {
        &mut self.workers[usize::from(number) - 1]
    }

    pub(crate) fn rise(&mut self, number: u8, wait_ms: u64) {
        let life = self.worker(number).life;
        self.tick(Actor::Worker(number), life, wait_ms, Errand::Worker(Chore::Rise));
    }

    /// A worker dies with all it holds; a new process takes its place, under a new name.
    pub(crate) fn kill_worker(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let wait = self.chance(Purpose::Faults, actor).within(DEAD);
        self.emit(actor, What::Died);
        let worker = self.worker(number);
        let fresh = Worker::new(worker.number);
        *worker = Worker { life: worker.life + 1, gone: worker.gone, turn: worker.turn, ..fresh };
        self.rise(number, wait);
    }

    pub(crate) fn worker_ticks(&mut self, number: u8, life: u32, chore: Chore) {
        let worker = self.worker(number);
        if worker.life != life || worker.gone {
            return;
        }
        match chore {
            Chore::Rise => self.look_for_work(number),
            Chore::Done => self.do_it(number),
            Chore::Renew(left) => self.renew(number, left),
            Chore::Report | Chore::Twice => self.send_report(number),
            Chore::GiveBack(id) => self.give_back(number, id),
            Chore::Claim
            | Chore::Admit(..)
            | Chore::Spend(_)
            | Chore::PutAside
            | Chore::Renewed(_)
            | Chore::Ahead => {}
        }
    }

    pub(crate) fn worker_hears(&mut self, number: u8, life: u32, chore: Chore, heard: Heard) {
        if self.worker(number).life != life {
            return;
        }
        match chore {
            Chore::Claim => self.claim_answered(number, heard),
            Chore::Admit(id, spends) => self.admit_answered(number, id, spends, heard),
            Chore::Spend(id) => self.spend_answered(number, id, heard),
            Chore::Renewed(left) => self.renewed(number, left, &heard),
            Chore::Ahead => self.ahead_answered(number, heard),
            Chore::Report => self.report_answered(number, heard),
            Chore::PutAside => self.rise_later(number),
            Chore::GiveBack(id) => self.give_back_answered(number, id, &heard),
            Chore::Rise | Chore::Done | Chore::Renew(_) | Chore::Twice => {}
        }
    }

    fn look_for_work(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let forgotten = self.plant == Some(Plant::World(WorldBug::PartitionForgotten));
        let partitions = self.plan.config.flow_partitions - u64::from(forgotten);
        let (partitions, lanes) = (partitions.max(1), self.plan.config.lanes.max(1));
        if self.worker(number).claim.is_none() {
            let lease_id = self.fresh_id(actor).into();
            let attempt_id = self.fresh_id(actor).into();
            let worker = self.worker(number);
            if worker.offset == 0 && !std::mem::take(&mut worker.found) {
                worker.turn += 1;
            }
            let partition = Partition::flow((worker.turn % partitions) as u16);
            let lane = lane(worker.turn / partitions % lanes);
            worker.claim = Some(Claim { partition, lane, lease_id, attempt_id, admitted: None });
        }
        self.send_claim(number);
    }

    /// How long leases stand. In the end they are sane: a world in which every lease is too short
    /// never comes to rest.
    fn lease_ms(&self) -> u64 {
        let lease_ms = self.plan.config.lease.0;
        if self.faults_are_on() { lease_ms } else { lease_ms.max(SANE_LEASE_MS) }
    }

    pub(super) fn send_claim(&mut self, number: u8) {
        let lease_ttl_ms = self.lease_ms();
        let worker = self.worker(number);
        let Some(claim) = worker.claim.clone() else { return };
        let (worker_id, worker_instance_id) = worker.ids();
        let call = ClaimNext {
            partition: claim.partition,
            lane: claim.lane,
            worker_id,
            worker_instance_id,
            capabilities: worker.capabilities(),
            lease_id: claim.lease_id,
            lease_ttl_ms,
            attempt_id: claim.attempt_id,
            window: None,
            offset: worker.offset,
            admitted: claim.admitted,
        };
        let life = worker.life;
        self.ask(Actor::Worker(number), life, &call, Errand::Worker(Chore::Claim));
    }

    fn claim_answered(&mut self, number: u8, heard: Heard) {
        let worker = self.worker(number);
        let reply = match heard {
            Heard::Again if worker.tries < TRIES_MAX && !worker.forgetful => {
                // The same lease id: if the claim had passed, it is answered again.
                worker.tries += 1;
                return self.rise(number, AGAIN_MS);
            }
            Heard::Again => None,
            Heard::Reply(reply) => ClaimNext::parse(reply).ok(),
        };
        (worker.tries, worker.forgetful) = (0, false);
        match reply {
            Some(ClaimNextReply::Claimed(claimed)) => self.begin_work(number, claimed),
            Some(ClaimNextReply::NeedsAdmission { execution_id, budget_ids, quota_policy_id }) => {
                self.seek_admission(number, execution_id, &budget_ids, &quota_policy_id);
            }
            Some(ClaimNextReply::NoneClaimable { next_offset }) => {
                worker.offset = next_offset;
                self.rise_later(number);
            }
            Some(ClaimNextReply::Empty | ClaimNextReply::Lapsed(_)) | None => {
                worker.offset = 0;
                self.rise_later(number);
            }
        }
    }

    pub(super) fn rise_later(&mut self, number: u8) {
        let (actor, span) = (Actor::Worker(number), self.plan.config.idle.0);
        self.worker(number).claim = None;
        let wait = self.chance(Purpose::Workload, actor).within(span);
        let patience = if self.phase == Phase::Rest { REST_PATIENCE } else { 1 };
        self.rise(number, wait * patience);
    }

    /// What is done with a task: as the plan says, or as it comes.
    fn begin_work(&mut self, number: u8, claimed: ClaimedWork) {
        let actor = Actor::Worker(number);
        let doing = self.draw_doing(number, &claimed.execution_id);
        let lease_ms = self.lease_ms();
        let span = if self.faults_are_on() { self.plan.config.work.0 } else { QUICK };
        let mut wait = self.chance(Purpose::Workload, actor).within(span);
        let worker = self.worker(number);
        let lane = worker.claim.take().map_or_else(|| lane(0), |claim| claim.lane);
        let instance = worker.ids().1;
        (worker.offset, worker.found) = (0, true);
        let zombie = worker.zombie_ms.is_some();
        if let Some(late_ms) = worker.zombie_ms.take() {
            wait = lease_ms + late_ms;
        }
        worker.work = Some(Work { claimed, lane, doing, instance, report: None });
        let life = worker.life;
        let chore = if doing == Doing::Slow {
            wait = lease_ms / 3;
            Chore::Renew(4)
        } else if wait > lease_ms / 2 && !zombie {
            // Whoever is busy for long renews in time.
            let renewals = u32::try_from(3 * wait / lease_ms.max(1)).unwrap_or(1).min(30);
            wait = lease_ms / 3;
            Chore::Renew(renewals)
        } else {
            Chore::Done
        };
        self.tick(actor, life, wait, Errand::Worker(chore));
    }

    fn draw_doing(&mut self, number: u8, id: &ExecutionId) -> Doing {
        let claims = self.claims.entry(id.clone()).or_default();
        *claims += 1;
        let claims = *claims;
        let name = self.names.name_of(id).unwrap_or_default();
        let told = self.plan.tasks.iter().find(|task| task.name == name);
        if let Some(task) = told {
            return task.does.get(claims - 1).copied().unwrap_or(Doing::Complete);
        }
        if !self.faults_are_on() || claims > CLAIMS_MAX {
            return Doing::Complete;
        }
        let habits = self.plan.config.habits.0.clone();
        let stream = self.chance(Purpose::Workload, Actor::Worker(number));
        stream.weighted(&habits).unwrap_or(Doing::Complete)
    }

    fn renew(&mut self, number: u8, left: u32) {
        let ttl_ms = self.lease_ms();
        let worker = self.worker(number);
        let Some(work) = worker.work.clone() else { return };
        let call = RenewLease {
            execution_id: work.claimed.execution_id,
            attempt_index: work.claimed.attempt_index,
            fence: work.claimed.fence,
            lease_ttl_ms: ttl_ms,
            lease_history_grace_ms: 1_000,
        };
        let life = worker.life;
        self.ask(Actor::Worker(number), life, &call, Errand::Worker(Chore::Renewed(left)));
    }

    /// Whatever came of it: a worker that was not heard goes on, and its report will show.
    fn renewed(&mut self, number: u8, left: u32, heard: &Heard) {
        let lost = matches!(heard, Heard::Reply(reply)
            if RenewLease::parse(reply.clone()).is_err());
        let wait = self.lease_ms() / 3;
        let chore = if left > 1 && !lost { Chore::Renew(left - 1) } else { Chore::Done };
        let life = self.worker(number).life;
        self.tick(Actor::Worker(number), life, wait, Errand::Worker(chore));
    }

    /// Puts the report together, and sends it.
    pub(crate) fn do_it(&mut self, number: u8) {
        let Some(work) = self.worker(number).work.clone() else { return };
        let partition = work.claimed.execution_id.partition();
        let authority = Authority::Holder(work.claimed.fence);
        let running = work.running();
        let report = match work.doing {
            Doing::Die => return self.kill_worker(number),
            Doing::SuspendAhead => return self.make_waitpoint_ahead(number, &work),
            Doing::Suspend | Doing::SuspendTimed => {
                let timed = work.doing == Doing::SuspendTimed;
                let call = self.suspend_call(number, &work, timed, None);
                written(&call)
            }
            Doing::Complete | Doing::Slow => {
                written(&CompleteExecution { running, authority, result_payload: b"done".to_vec() })
            }
            Doing::Fail | Doing::FailForGood => {
                let retry = if work.doing == Doing::Fail { RETRY } else { "" };
                written(&FailExecution {
                    running,
                    authority,
                    failure_reason: "as planned".to_owned(),
                    failure_category: "transient".to_owned(),
                    retry_policy_json: retry.to_owned(),
                })
            }
            Doing::Delay => {
                let by = self.chance(Purpose::Workload, Actor::Worker(number)).below(3_000);
                let delay_until = self.server_time(partition, by.cast_signed() - 500);
                written(&DelayExecution { running, authority, delay_until })
            }
        };
        self.set_report(number, report);
    }

    pub(crate) fn set_report(&mut self, number: u8, report: (&'static str, Vec<Vec<u8>>)) {
        if let Some(work) = &mut self.worker(number).work {
            work.report = Some(report);
        }
        self.send_report(number);
    }

    fn send_report(&mut self, number: u8) {
        let worker = self.worker(number);
        let life = worker.life;
        let Some((function, argv)) = worker.work.as_ref().and_then(|work| work.report.clone())
        else {
            return self.rise(number, 0);
        };
        let slot = argv.get(3).map_or(0, |key| selvedge_core::partition::slot(key));
        let errand = Errand::Worker(Chore::Report);
        self.ask_words(Actor::Worker(number), life, slot, function, argv, errand);
    }

    fn report_answered(&mut self, number: u8, heard: Heard) {
        let worker = self.worker(number);
        let life = worker.life;
        let actor = Actor::Worker(number);
        let reply = match heard {
            Heard::Again if worker.tries < TRIES_MAX => {
                worker.tries += 1;
                return self.tick(actor, life, AGAIN_MS, Errand::Worker(Chore::Report));
            }
            Heard::Again => Value::Nil,
            Heard::Reply(reply) => reply,
        };
        worker.tries = 0;
        if std::mem::take(&mut worker.says_it_twice) {
            if self.chance(Purpose::Workload, actor).below(2) == 0
                && let Some(work) = &mut self.worker(number).work
            {
                // Something else this time.
                work.doing = Doing::FailForGood;
                return self.do_it(number);
            }
            return self.tick(actor, life, AGAIN_MS, Errand::Worker(Chore::Twice));
        }
        if let Some(work) = self.worker(number).work.take() {
            self.hear_suspended(number, &work, reply);
            return self.give_back(number, work.claimed.execution_id);
        }
        self.rise(number, 0);
    }
}

/// A call as it is sent.
pub(crate) fn written<F: Function>(call: &F) -> (&'static str, Vec<Vec<u8>>) {
    (F::NAME, call.command())
}
