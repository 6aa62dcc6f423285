//! Faults of a worker's process.

use selvedge_core::id::LeaseId;
use selvedge_core::time::LocalTime;
use selvedge_core::worker::{
    Effect, HandlerOutcome, HandlerRequest, Input, PERMANENT, Worker as Machine,
};

use crate::event::{Actor, EventKind};
use crate::fault::Fault;
use crate::fault::effects::FaultEffects;
use crate::oracle::call::Call;
use crate::world::World;
use crate::world::random_streams::Purpose;
use crate::world::transport::{ReplyTo, argv_of};

/// A machine before it reported the outcome of a handler.
pub(crate) struct Snapshot {
    machine: Machine,
    at: LocalTime,
    lease: LeaseId,
    /// What led to the report.
    input: Input,
}

impl World {
    /// The process and its clock stop until the lease of its last claim has expired for this long,
    /// as when a virtual machine is suspended: afterwards it does not know that time has passed.
    pub(super) fn freeze_zombie(&mut self, number: u8) {
        let now_ms = self.now_ms;
        let worker = self.worker(number);
        let Some(late_ms) = worker.zombie_ms.take() else { return };
        let pause_ms = worker.lease_ms + late_ms;
        worker.frozen_until = worker.frozen_until.max(now_ms + pause_ms);
        worker.handlers_run_on = false;
        worker.skew_ms = worker.skew_ms.saturating_sub_unsigned(pause_ms);
    }

    /// The faults have ended: frozen workers go on, and those with leases that are too short for
    /// their links are replaced.
    pub(crate) fn heal_worker(&mut self, number: u8) {
        let (now_ms, sane) = (self.now_ms, self.lease_is_sane());
        let worker = self.worker(number);
        let early_ms = worker.frozen_until.saturating_sub(now_ms);
        if !worker.handlers_run_on {
            // Its clock stood still for less time than it was to.
            worker.skew_ms = worker.skew_ms.saturating_add_unsigned(early_ms);
        }
        worker.skew_ms += std::mem::take(&mut worker.behind_ms);
        worker.frozen_until -= early_ms;
        worker.unpushed_until = worker.unpushed_until.min(now_ms);
        (worker.zombie_ms, worker.before_report, worker.dies_after) = (None, None, None);
        worker.unheard.clear();
        self.thaw(number);
        self.restore_capacity(number);
        self.release_handlers(number);
        if !sane {
            self.kill_worker(number);
        }
    }

    /// A pause is over, unless it was made longer: the worker gets what has come meanwhile.
    pub(super) fn thaw(&mut self, number: u8) {
        if self.worker(number).frozen_until <= self.now_ms {
            for input in std::mem::take(&mut self.worker(number).backlog) {
                self.feed_worker(number, input);
            }
        }
    }

    /// Whether the worker dies before it carries out an effect. Observations do not count.
    pub(super) fn dies_before(&mut self, number: u8, effect: &Effect) -> bool {
        let Some(left) = &mut self.worker(number).dies_after else { return false };
        if !matches!(effect, Effect::Observe(_)) {
            *left = left.saturating_sub(1);
        }
        *left == 0
    }

    /// Changes how many handlers a worker may run.
    pub(crate) fn set_capacity(&mut self, number: u8, capacity: u64) {
        if self.worker(number).machine.is_none() {
            return;
        }
        self.emit(Actor::Worker(number), EventKind::Capacity(capacity));
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        self.feed_worker(number, Input::Capacity(capacity));
    }

    /// The worker may run as many handlers as the plan says.
    pub(crate) fn restore_capacity(&mut self, number: u8) {
        self.set_capacity(number, self.plan.config.capacity);
    }

    /// Replies to calls that claim with an unheard lease id are lost, also when they are repeated.
    pub(super) fn worker_effects(
        &mut self,
        number: u8,
        commands: &[Vec<Vec<u8>>],
        mut effects: Vec<FaultEffects>,
    ) -> Vec<FaultEffects> {
        let worker = self.worker(number);
        for (argv, call_effects) in commands.iter().zip(&mut effects) {
            let leases = Call::read(argv).map(|call| call.new_leases()).unwrap_or_default();
            if call_effects.claim_unheard {
                worker.unheard.extend(leases.iter().map(|lease| lease.to_vec()));
            }
            if leases.iter().any(|lease| worker.unheard.contains(*lease)) {
                (call_effects.reply_lost, call_effects.silent) = (true, true);
            }
        }
        effects
    }

    /// Keeps the machine as it is before a report, if the plan may need it.
    pub(super) fn snapshot_before(&mut self, number: u8, at: LocalTime, input: &Input) {
        let lease = match input {
            Input::Ended { lease, outcome } if *outcome != HandlerOutcome::Suspended => *lease,
            Input::HandlerRequested { lease, request: HandlerRequest::Suspend(_), .. } => *lease,
            Input::Ended { .. }
            | Input::HandlerRequested { .. }
            | Input::Wake
            | Input::Settled { .. }
            | Input::Ready(..)
            | Input::Lost(_)
            | Input::LaneChanged(_)
            | Input::PushGap
            | Input::Capacity(_)
            | Input::Drain => return,
        };
        let wanted = |rule: &crate::plan::FaultRule| rule.fault == Fault::WorkerDoubleReport;
        if !self.faults_are_on() || !self.plan.faults.iter().any(wanted) {
            return;
        }
        let worker = self.worker(number);
        let Some(machine) = worker.machine.clone() else { return };
        worker.before_report = Some(Snapshot { machine, at, lease, input: input.clone() });
    }

    /// A copy of the worker, restored from before its last report, reports once more: the same, or
    /// something else. Its replies reach nobody.
    pub(super) fn report_again(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let Some(Snapshot { mut machine, at, lease, input }) =
            self.worker(number).before_report.take()
        else {
            return;
        };
        let other = self.random(Purpose::Workload, actor).below(2) == 0;
        let input = if other {
            let (category, reason) = (PERMANENT.to_owned(), "another result".to_owned());
            Input::Ended { lease, outcome: HandlerOutcome::Failed { category, reason } }
        } else {
            input
        };
        machine.handle(at, input);
        while let Some(effect) = machine.next_effect() {
            let Effect::Send { ticket, slot, batch } = effect else { continue };
            let commands = argv_of(batch);
            let effects = vec![FaultEffects::default(); commands.len()];
            let reply_to = ReplyTo::Worker { incarnation: NOBODY, ticket };
            self.send(actor, slot, commands, effects, reply_to);
        }
    }
}

/// No worker was started this often.
const NOBODY: u32 = u32::MAX;
