//! Workers: they claim executions, work on them and report. Faults make them slow, late, or report
//! twice.

mod admission;
mod claim;
mod report;

use selvedge_core::call::Function;
use selvedge_core::call::execution::Running;
use selvedge_core::call::scheduling::ClaimedWork;
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{AttemptId, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use selvedge_core::partition::Partition;

use super::{CallResult, ClientWait};
use crate::event::{Actor, EventKind, Phase};
use crate::plan::{Span, WorkerAction};
use crate::world::World;
use crate::world::random_streams::Purpose;

/// How often a worker repeats a call without a result.
pub(super) const TRIES_MAX: u32 = 8;
/// The pause before that.
pub(super) const AGAIN_MS: u64 = 150;
/// How long a crashed worker stays down.
const DEAD: Span = Span { from: 100, to: 6_000 };
/// The retry policy that a failing worker asks for.
pub(crate) const RETRY: &str = r#"{"max_retries":3,"backoff":{"type":"fixed","delay_ms":500}}"#;
/// A lease that is longer than any delay of a link.
const SANE_LEASE_MS: u64 = 10_000;
/// How long a worker is busy after the faults have ended.
const QUICK: Span = Span { from: 5, to: 60 };
/// How much longer a worker pauses in the rest phase, when there is nothing left to claim.
const REST_PATIENCE: u64 = 8;
/// After this many claims a task is always completed, so that a run ends.
const CLAIMS_MAX: usize = 12;

/// What a worker waits for.
#[derive(Clone, Debug)]
pub(crate) enum WorkerWait {
    /// A timer: time to claim.
    Wake,
    /// The result of a claim.
    Claim,
    /// The result of a quota check; whether a budget check follows.
    Admit(ExecutionId, bool),
    /// The result of a budget check.
    Spend(ExecutionId),
    /// The result of blocking an execution that was not admitted.
    Blocked,
    /// A timer: the work is finished.
    Done,
    /// A timer: time to renew the lease, and how many renewals are left.
    Renew(u32),
    /// The result of a renewal, and how many are left.
    Renewed(u32),
    /// The result of creating a waitpoint ahead of a suspension.
    Ahead,
    /// The result of a report.
    Report,
    /// A timer: time to report a second time.
    ReportAgain,
    /// The result of releasing a quota slot.
    ReleaseSlot(ExecutionId),
}

/// The state of a worker.
pub(crate) struct Worker {
    number: u8,
    pub(crate) incarnation: u32,
    /// Whether it is never started again.
    pub(crate) gone: bool,
    /// Where it claims next: every partition and lane in turn.
    turn: u64,
    offset: u32,
    /// Its last claim found work: claim there again.
    found: bool,
    pub(super) claim: Option<Claim>,
    pub(crate) work: Option<Work>,
    pub(super) tries: u32,
    /// Reports its next task this long after the lease has expired.
    pub(crate) zombie_ms: Option<u64>,
    /// Does not repeat the next claim without a result.
    pub(crate) drops_claim: bool,
    /// Reports its next result twice.
    pub(crate) reports_twice: bool,
}

#[derive(Clone)]
pub(crate) struct Claim {
    pub(super) partition: Partition,
    pub(super) lane: LaneId,
    pub(super) lease_id: LeaseId,
    pub(super) attempt_id: AttemptId,
    pub(super) admitted: Option<ExecutionId>,
}

/// The execution that a worker holds, as far as it knows.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) claimed: ClaimedWork,
    pub(crate) lane: LaneId,
    pub(crate) action: WorkerAction,
    pub(crate) instance: WorkerInstanceId,
    /// The report; a repeat has the same words.
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
            incarnation: 1,
            gone: false,
            turn: 0,
            offset: 0,
            found: false,
            claim: None,
            work: None,
            tries: 0,
            zombie_ms: None,
            drops_claim: false,
            reports_twice: false,
        }
    }

    fn ids(&self) -> (WorkerId, WorkerInstanceId) {
        let instance = format!("w{}-{}", self.number, self.incarnation);
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

    pub(crate) fn wake_worker(&mut self, number: u8, wait_ms: u64) {
        let incarnation = self.worker(number).incarnation;
        self.set_timer(
            Actor::Worker(number),
            incarnation,
            wait_ms,
            ClientWait::Worker(WorkerWait::Wake),
        );
    }

    /// A worker crashes and loses its work; after a while a new instance starts.
    pub(crate) fn kill_worker(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let wait = self.random(Purpose::Faults, actor).within(DEAD);
        self.emit(actor, EventKind::Died);
        let worker = self.worker(number);
        let fresh = Worker::new(worker.number);
        *worker = Worker {
            incarnation: worker.incarnation + 1,
            gone: worker.gone,
            turn: worker.turn,
            ..fresh
        };
        self.wake_worker(number, wait);
    }

    pub(crate) fn worker_timer(&mut self, number: u8, incarnation: u32, waiting: WorkerWait) {
        let worker = self.worker(number);
        if worker.incarnation != incarnation || worker.gone {
            return;
        }
        match waiting {
            WorkerWait::Wake => self.look_for_work(number),
            WorkerWait::Done => self.finish_work(number),
            WorkerWait::Renew(left) => self.renew(number, left),
            WorkerWait::Report | WorkerWait::ReportAgain => self.send_report(number),
            WorkerWait::ReleaseSlot(id) => self.release_slot(number, id),
            WorkerWait::Claim
            | WorkerWait::Admit(..)
            | WorkerWait::Spend(_)
            | WorkerWait::Blocked
            | WorkerWait::Renewed(_)
            | WorkerWait::Ahead => {}
        }
    }

    pub(crate) fn worker_reply(
        &mut self,
        number: u8,
        incarnation: u32,
        waiting: WorkerWait,
        result: CallResult,
    ) {
        if self.worker(number).incarnation != incarnation {
            return;
        }
        match waiting {
            WorkerWait::Claim => self.claim_answered(number, result),
            WorkerWait::Admit(id, spends) => self.admit_answered(number, id, spends, result),
            WorkerWait::Spend(id) => self.spend_answered(number, id, result),
            WorkerWait::Renewed(left) => self.renewed(number, left, &result),
            WorkerWait::Ahead => self.ahead_answered(number, result),
            WorkerWait::Report => self.report_answered(number, result),
            WorkerWait::Blocked => self.wake_worker_later(number),
            WorkerWait::ReleaseSlot(id) => self.slot_released(number, id, &result),
            WorkerWait::Wake
            | WorkerWait::Done
            | WorkerWait::Renew(_)
            | WorkerWait::ReportAgain => {}
        }
    }

    /// The duration of leases. After the faults it is at least ten seconds, or the run might never
    /// come to rest.
    fn lease_ms(&self) -> u64 {
        let lease_ms = self.plan.config.lease.0;
        if self.faults_are_on() { lease_ms } else { lease_ms.max(SANE_LEASE_MS) }
    }

    pub(super) fn wake_worker_later(&mut self, number: u8) {
        let (actor, span) = (Actor::Worker(number), self.plan.config.idle.0);
        self.worker(number).claim = None;
        let wait = self.random(Purpose::Workload, actor).within(span);
        let patience = if self.phase == Phase::Rest { REST_PATIENCE } else { 1 };
        self.wake_worker(number, wait * patience);
    }
}

/// The function and the words of a call.
pub(crate) fn command_of<F: Function>(call: &F) -> (&'static str, Vec<Vec<u8>>) {
    (F::NAME, call.command())
}
