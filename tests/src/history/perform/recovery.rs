//! Calls of scanners and operators about lost leases, timeouts and wrong index entries.

use selvedge_core::call::execution::{ExpireIfDue, ExpireReason, ReclaimExecution};
use selvedge_core::call::lease::{MarkLeaseExpiredIfDue, RequeueLostLease, RevokeLease};
use selvedge_core::call::library::{Repair, RepairIndex};
use selvedge_core::call::scheduling::IssueReclaimGrant;
use selvedge_core::id::AttemptIndex;

use super::queue::LEASE_TTL_MS;
use crate::history::state::{Held, HistoryState, WORKERS, execution, lane, worker};

impl HistoryState {
    pub(in crate::history) fn mark_lease(&mut self, slot: u8) {
        self.call(&MarkLeaseExpiredIfDue { execution_id: execution(slot) });
    }

    pub(in crate::history) fn requeue(&mut self, slot: u8) {
        self.call(&RequeueLostLease {
            execution_id: execution(slot),
            default_max_reclaim_count: Some(5),
        });
    }

    pub(in crate::history) fn revoke(&mut self, slot: u8) {
        let running = self.running(slot);
        self.call(&RevokeLease {
            execution_id: execution(slot),
            worker_instance_id: running.worker_instance_id,
            expected_lease_id: None,
            reason: "taken".into(),
        });
    }

    pub(in crate::history) fn reclaim(&mut self, slot: u8, by: u8) {
        let number = usize::from(by % WORKERS);
        let id = execution(slot);
        let terms = self.grant_terms(slot, number);
        self.call(&IssueReclaimGrant { execution_id: id.clone(), terms });
        let (worker_id, worker_instance_id) = worker(number);
        let (lease_id, attempt_id) = (self.fresh(), self.fresh());
        let lost = self.field(&id, "current_attempt_index").parse();
        let claimed = self.call(&ReclaimExecution {
            execution_id: id.clone(),
            worker_id,
            worker_instance_id,
            lane: lane(slot),
            lost_attempt_index: lost.unwrap_or(AttemptIndex(0)),
            lease_id,
            lease_ttl_ms: LEASE_TTL_MS,
            attempt_id,
            attempt_policy_json: String::new(),
            default_max_reclaim_count: Some(5),
        });
        if let Some(claim) = claimed {
            self.hold(Held {
                id,
                fence: claim.fence,
                attempt_index: claim.attempt_index,
                worker: number,
            });
        }
    }

    pub(in crate::history) fn expire_if_due(&mut self, slot: u8, choice: u8) {
        let id = execution(slot);
        let reason = ExpireReason::ALL[usize::from(choice) % ExpireReason::ALL.len()];
        let expected_attempt_index = self.field(&id, "current_attempt_index").parse().ok();
        self.call(&ExpireIfDue { execution_id: id, expected_attempt_index, reason });
    }

    /// There is never anything to repair: OneHome, seen from the other side.
    pub(in crate::history) fn repair_index(&mut self, slot: u8) {
        let known = self.record(&execution(slot)).is_some();
        let repair =
            self.call(&RepairIndex { execution_id: execution(slot), lane: Some(lane(slot)) });
        if let (true, Some(Repair::Repaired(changes))) = (known, repair) {
            self.find(format!("OneHome: {} needed repair: {changes:?}", execution(slot)));
        }
    }
}
