//! How a worker gets admission for an execution with a quota or a budget.

use selvedge_core::call::Function;
use selvedge_core::call::budget::{
    BlockExecutionForAdmission, Delta, HoldReason, RecordSpend, UsageVerdict,
};
use selvedge_core::call::quota::{Admission, CheckAdmissionAndRecord, ReleaseAdmission};
use selvedge_core::id::{ExecutionId, QuotaPolicyId};

use super::{AGAIN_MS, TRIES_MAX, WorkerWait};
use crate::actor::provision::{CONCURRENT, RATE, WINDOW_S};
use crate::actor::{CallResult, ClientWait, lane};
use crate::event::Actor;
use crate::world::World;

impl World {
    /// Asks for the quota first, then for the budget.
    pub(super) fn request_admission(
        &mut self,
        number: u8,
        id: ExecutionId,
        budgets: &str,
        quota: &str,
    ) {
        let spends = !budgets.is_empty();
        let incarnation = self.worker(number).incarnation;
        let Ok(quota_policy_id) = quota.parse::<QuotaPolicyId>() else {
            return self.spend(number, id);
        };
        let (_, partition) = self.names.quota();
        let call = CheckAdmissionAndRecord {
            partition,
            quota_policy_id,
            execution_id: id.clone(),
            now: self.server_time(partition, 0),
            window_seconds: WINDOW_S,
            rate_limit: RATE,
            concurrency_cap: CONCURRENT,
            jitter_ms: 0,
        };
        self.ask(
            Actor::Worker(number),
            incarnation,
            &call,
            ClientWait::Worker(WorkerWait::Admit(id, spends)),
        );
    }

    pub(super) fn admit_answered(
        &mut self,
        number: u8,
        id: ExecutionId,
        spends: bool,
        result: CallResult,
    ) {
        let admission = match result {
            CallResult::Reply(reply) => CheckAdmissionAndRecord::parse(reply).ok(),
            CallResult::Retry => None,
        };
        match admission {
            Some(Admission::Admitted | Admission::AlreadyAdmitted) if spends => {
                self.spend(number, id);
            }
            Some(Admission::Admitted | Admission::AlreadyAdmitted) => {
                self.claim_admitted(number, id)
            }
            Some(Admission::RateExceeded { .. } | Admission::ConcurrencyExceeded) => {
                self.block_execution(number, id, HoldReason::Quota);
            }
            None => self.wake_worker_later(number),
        }
    }

    pub(super) fn spend(&mut self, number: u8, id: ExecutionId) {
        let (budget_id, partition) = self.names.budget();
        let call = RecordSpend {
            partition,
            budget_id,
            execution_id: id.clone(),
            deltas: vec![Delta { dimension: "tokens".to_owned(), delta: 3 }],
            now: self.server_time(partition, 0),
            dedup_id: Some(format!("spend-{id}")),
        };
        let incarnation = self.worker(number).incarnation;
        self.ask(
            Actor::Worker(number),
            incarnation,
            &call,
            ClientWait::Worker(WorkerWait::Spend(id)),
        );
    }

    pub(super) fn spend_answered(&mut self, number: u8, id: ExecutionId, result: CallResult) {
        let usage = match result {
            CallResult::Reply(reply) => RecordSpend::parse(reply).ok(),
            CallResult::Retry => None,
        };
        match usage {
            Some(
                UsageVerdict::Added | UsageVerdict::AlreadyAdded | UsageVerdict::SoftBreach(_),
            ) => {
                self.claim_admitted(number, id);
            }
            Some(UsageVerdict::HardBreach(_)) => {
                self.block_execution(number, id, HoldReason::Budget)
            }
            None => self.wake_worker_later(number),
        }
    }

    pub(super) fn claim_admitted(&mut self, number: u8, id: ExecutionId) {
        match &mut self.worker(number).claim {
            Some(claim) => {
                claim.admitted = Some(id);
                self.send_claim(number);
            }
            None => self.wake_worker_later(number),
        }
    }

    pub(super) fn block_execution(&mut self, number: u8, id: ExecutionId, reason: HoldReason) {
        let call = BlockExecutionForAdmission {
            lane_id: self.worker(number).claim.as_ref().map_or_else(|| lane(0), |c| c.lane.clone()),
            reason,
            detail: "not admitted".to_owned(),
            now: self.server_time(id.partition(), 0),
            execution_id: id,
        };
        let incarnation = self.worker(number).incarnation;
        self.ask(
            Actor::Worker(number),
            incarnation,
            &call,
            ClientWait::Worker(WorkerWait::Blocked),
        );
    }

    /// Releases the quota slot of an execution that the worker no longer runs. If that fails or the
    /// worker dies, the engine releases it.
    pub(super) fn release_slot(&mut self, number: u8, id: ExecutionId) {
        let quota = self.peek(&id, "quota_policy_id");
        let Ok(quota_policy_id) = quota.parse::<QuotaPolicyId>() else {
            return self.wake_worker(number, 0);
        };
        let (_, partition) = self.names.quota();
        let call = ReleaseAdmission { partition, quota_policy_id, execution_id: id.clone() };
        let incarnation = self.worker(number).incarnation;
        self.ask(
            Actor::Worker(number),
            incarnation,
            &call,
            ClientWait::Worker(WorkerWait::ReleaseSlot(id)),
        );
    }

    pub(super) fn slot_released(&mut self, number: u8, id: ExecutionId, result: &CallResult) {
        let worker = self.worker(number);
        if matches!(result, CallResult::Retry) && worker.tries < TRIES_MAX {
            worker.tries += 1;
            let (incarnation, waiting) =
                (worker.incarnation, ClientWait::Worker(WorkerWait::ReleaseSlot(id)));
            return self.set_timer(Actor::Worker(number), incarnation, AGAIN_MS, waiting);
        }
        worker.tries = 0;
        self.wake_worker(number, 0);
    }
}
