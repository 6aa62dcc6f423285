//! How a worker has an execution admitted that is under a quota or budgets.

use selvedge_core::call::Function;
use selvedge_core::call::budget::{
    BlockExecutionForAdmission, Delta, HoldReason, RecordSpend, UsageVerdict,
};
use selvedge_core::call::quota::{Admission, CheckAdmissionAndRecord, ReleaseAdmission};
use selvedge_core::id::{ExecutionId, QuotaPolicyId};

use super::worker::{AGAIN_MS, Chore, TRIES_MAX};
use super::{Errand, Heard, lane};
use crate::event::Actor;
use crate::world::World;

impl World {
    /// Quota first, then budget: both live elsewhere.
    pub(super) fn seek_admission(
        &mut self,
        number: u8,
        id: ExecutionId,
        budgets: &str,
        quota: &str,
    ) {
        let spends = !budgets.is_empty();
        let life = self.worker(number).life;
        let Ok(quota_policy_id) = quota.parse::<QuotaPolicyId>() else {
            return self.spend(number, id);
        };
        let (_, partition) = self.names.quota();
        let call = CheckAdmissionAndRecord {
            partition,
            quota_policy_id,
            execution_id: id.clone(),
            now: self.server_time(partition, 0),
            window_seconds: super::caller::WINDOW_S,
            rate_limit: super::caller::RATE,
            concurrency_cap: super::caller::CONCURRENT,
            jitter_ms: 0,
        };
        self.ask(Actor::Worker(number), life, &call, Errand::Worker(Chore::Admit(id, spends)));
    }

    pub(super) fn admit_answered(
        &mut self,
        number: u8,
        id: ExecutionId,
        spends: bool,
        heard: Heard,
    ) {
        let admission = match heard {
            Heard::Reply(reply) => CheckAdmissionAndRecord::parse(reply).ok(),
            Heard::Again => None,
        };
        match admission {
            Some(Admission::Admitted | Admission::AlreadyAdmitted) if spends => {
                self.spend(number, id);
            }
            Some(Admission::Admitted | Admission::AlreadyAdmitted) => {
                self.claim_admitted(number, id)
            }
            Some(Admission::RateExceeded { .. } | Admission::ConcurrencyExceeded) => {
                self.put_aside(number, id, HoldReason::Quota);
            }
            None => self.rise_later(number),
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
        let life = self.worker(number).life;
        self.ask(Actor::Worker(number), life, &call, Errand::Worker(Chore::Spend(id)));
    }

    pub(super) fn spend_answered(&mut self, number: u8, id: ExecutionId, heard: Heard) {
        let verdict = match heard {
            Heard::Reply(reply) => RecordSpend::parse(reply).ok(),
            Heard::Again => None,
        };
        match verdict {
            Some(
                UsageVerdict::Added | UsageVerdict::AlreadyAdded | UsageVerdict::SoftBreach(_),
            ) => {
                self.claim_admitted(number, id);
            }
            Some(UsageVerdict::HardBreach(_)) => self.put_aside(number, id, HoldReason::Budget),
            None => self.rise_later(number),
        }
    }

    pub(super) fn claim_admitted(&mut self, number: u8, id: ExecutionId) {
        match &mut self.worker(number).claim {
            Some(claim) => {
                claim.admitted = Some(id);
                self.send_claim(number);
            }
            None => self.rise_later(number),
        }
    }

    pub(super) fn put_aside(&mut self, number: u8, id: ExecutionId, reason: HoldReason) {
        let call = BlockExecutionForAdmission {
            lane_id: self.worker(number).claim.as_ref().map_or_else(|| lane(0), |c| c.lane.clone()),
            reason,
            detail: "not admitted".to_owned(),
            now: self.server_time(id.partition(), 0),
            execution_id: id,
        };
        let life = self.worker(number).life;
        self.ask(Actor::Worker(number), life, &call, Errand::Worker(Chore::PutAside));
    }

    /// Gives back the slot of what it runs no more, if that is under a quota. A slot that it cannot
    /// give back, and that of a worker that died, is left to the engine.
    pub(super) fn give_back(&mut self, number: u8, id: ExecutionId) {
        let quota = self.peek(&id, "quota_policy_id");
        let Ok(quota_policy_id) = quota.parse::<QuotaPolicyId>() else {
            return self.rise(number, 0);
        };
        let (_, partition) = self.names.quota();
        let call = ReleaseAdmission { partition, quota_policy_id, execution_id: id.clone() };
        let life = self.worker(number).life;
        self.ask(Actor::Worker(number), life, &call, Errand::Worker(Chore::GiveBack(id)));
    }

    pub(super) fn give_back_answered(&mut self, number: u8, id: ExecutionId, heard: &Heard) {
        let worker = self.worker(number);
        if matches!(heard, Heard::Again) && worker.tries < TRIES_MAX {
            worker.tries += 1;
            let (life, errand) = (worker.life, Errand::Worker(Chore::GiveBack(id)));
            return self.tick(Actor::Worker(number), life, AGAIN_MS, errand);
        }
        worker.tries = 0;
        self.rise(number, 0);
    }
}
