//! Claims, and changes of an execution's place in the queue.

use selvedge_core::call::budget::{BlockExecutionForAdmission, HoldReason, UnblockExecution};
use selvedge_core::call::execution::ClaimExecution;
use selvedge_core::call::scheduling::{
    ChangePriority, ClaimMany, ClaimManyReply, ClaimNext, ClaimNextReply, ClaimTerms, EndAndClaim,
    GrantTerms, IssueClaimGrant, IssueGrantAndClaim, NewLease, NewLeases, PromoteDelayed, RunEnd,
};
use selvedge_core::call::signal::ClaimResumedExecution;
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{AttemptIndex, Fence};
use selvedge_core::key::Key;
use selvedge_core::work_filter::WorkFilter;

use super::execution::RETRIES;
use crate::history::operation::Verb;
use crate::history::state::{Held, HistoryState, PARTITION, WORKERS, execution, lane, worker};

/// Long enough to do something, short enough to lapse.
pub(super) const LEASE_TTL_MS: u64 = 5_000;

impl HistoryState {
    pub(in crate::history) fn grant_terms(&self, slot: u8, number: usize) -> GrantTerms {
        let (worker_id, worker_instance_id) = worker(number);
        GrantTerms {
            worker_id,
            worker_instance_id,
            lane_id: lane(slot),
            capabilities: no_capabilities(),
            grant_ttl_ms: 2_000,
            capability_hash: String::new(),
            route_snapshot_json: String::new(),
            admission_summary: String::new(),
        }
    }

    /// Gets a grant and spends it, as the record demands: afresh or resumed.
    pub(in crate::history) fn claim(&mut self, slot: u8, by: u8) {
        let number = usize::from(by % WORKERS);
        let execution_id = execution(slot);
        let terms = self.grant_terms(slot, number);
        self.call(&IssueClaimGrant { execution_id: execution_id.clone(), terms });
        if by == 7 {
            // The worker dies between the two.
            return;
        }
        let (worker_id, worker_instance_id) = worker(number);
        let lease_id = self.fresh();
        if self.field(&execution_id, "attempt_state") == "attempt_interrupted" {
            let index = self.field(&execution_id, "current_attempt_index").parse();
            let claimed = self.call(&ClaimResumedExecution {
                execution_id: execution_id.clone(),
                lane: lane(slot),
                worker_id,
                worker_instance_id,
                attempt_index: index.unwrap_or(AttemptIndex(0)),
                lease_id,
                lease_ttl_ms: LEASE_TTL_MS,
                remaining_attempt_timeout_ms: None,
            });
            if let Some(claim) = claimed {
                let fence = Fence {
                    lease_id: claim.lease_id,
                    lease_epoch: claim.lease_epoch,
                    attempt_id: claim.attempt_id,
                };
                self.hold(Held {
                    id: execution_id,
                    fence,
                    attempt_index: claim.attempt_index,
                    worker: number,
                });
            }
            return;
        }
        let attempt_id = self.fresh();
        let claimed = self.call(&ClaimExecution {
            execution_id: execution_id.clone(),
            worker_id,
            worker_instance_id,
            lane: lane(slot),
            lease_id,
            lease_ttl_ms: LEASE_TTL_MS,
            renew_before_ms: 3_000,
            attempt_id,
            attempt_policy_json: String::new(),
            attempt_timeout_ms: (by == 5).then_some(1_500),
            execution_deadline_at: None,
        });
        if let Some(claim) = claimed {
            self.hold(Held {
                id: execution_id,
                fence: claim.fence,
                attempt_index: claim.attempt_index,
                worker: number,
            });
        }
    }

    pub(in crate::history) fn hold(&mut self, held: Held) {
        self.held.push(held);
    }

    /// Our own claims.
    pub(in crate::history) fn take(&mut self, verb: Verb, slot: u8, by: u8, how: u8) {
        if verb == Verb::ClaimNext {
            self.claim_next(slot, by);
        } else if verb == Verb::ClaimMany {
            self.claim_many(slot, by, how);
        } else if how % 4 == 3 {
            self.repeat_end();
        } else {
            self.end_and_claim(slot, by, how);
        }
    }

    pub(in crate::history) fn claim_next(&mut self, slot: u8, by: u8) {
        let number = usize::from(by % WORKERS);
        let (worker_id, worker_instance_id) = worker(number);
        let (lease_id, attempt_id) = (self.fresh(), self.fresh());
        let reply = self.call(&ClaimNext {
            partition: PARTITION,
            lane: lane(slot),
            worker_id,
            worker_instance_id,
            capabilities: no_capabilities(),
            lease_id,
            lease_ttl_ms: LEASE_TTL_MS,
            attempt_id,
            window: None,
            after: None,
            admitted: None,
            filter: WorkFilter::all(),
        });
        if let Some(ClaimNextReply::Claimed(work)) = reply {
            self.hold(Held {
                id: work.execution_id,
                fence: work.fence,
                attempt_index: work.attempt_index,
                worker: number,
            });
        }
    }

    /// The terms on which a worker claims in the lane of a slot, and new leases.
    fn claims(&mut self, slot: u8, number: usize, count: u8) -> (ClaimTerms, NewLeases) {
        let (worker_id, worker_instance_id) = worker(number);
        let terms = ClaimTerms {
            lane: lane(slot),
            worker_id,
            worker_instance_id,
            capabilities: no_capabilities(),
            lease_ttl_ms: LEASE_TTL_MS,
            window: None,
            after: None,
            filter: WorkFilter::all(),
        };
        let mut lease = || NewLease { lease_id: self.fresh(), attempt_id: self.fresh() };
        let first = lease();
        (terms, NewLeases { first, more: (0..count % 3).map(|_| lease()).collect() })
    }

    /// Holds what was claimed, unless it is held already: a repeated call answers the same.
    fn hold_claimed(&mut self, claims: ClaimManyReply, worker: usize) {
        let ClaimManyReply::Claimed { works, .. } = claims else { return };
        for work in works {
            let is_held = self.held.iter().any(|held| held.fence == work.fence);
            if !is_held {
                self.hold(Held {
                    id: work.execution_id,
                    fence: work.fence,
                    attempt_index: work.attempt_index,
                    worker,
                });
            }
        }
    }

    fn claim_many(&mut self, slot: u8, by: u8, count: u8) {
        let number = usize::from(by % WORKERS);
        let (terms, leases) = self.claims(slot, number, count);
        let call = ClaimMany { partition: PARTITION, terms, admitted: None, leases };
        for _ in 0..=count % 2 {
            if let Some(claims) = self.call(&call) {
                self.hold_claimed(claims, number);
            }
        }
    }

    fn end_and_claim(&mut self, slot: u8, by: u8, how: u8) {
        let id = execution(slot);
        let Some(held) = self.held_of(&id).cloned() else { return };
        let end = match how % 3 {
            0 => RunEnd::Fail {
                failure_reason: "broke".into(),
                failure_category: "transient".into(),
                retry_policy_json: RETRIES[usize::from(by) % RETRIES.len()].into(),
            },
            _ => RunEnd::Complete { result_payload: b"result".to_vec() },
        };
        // Now and then what comes next is of another lane.
        let (terms, leases) = self.claims(if how == 8 { by } else { slot }, held.worker, how);
        let call = EndAndClaim { execution_id: id, fence: held.fence, end, terms, leases };
        self.last_end = Some((call, held.worker));
        self.repeat_end();
    }

    fn repeat_end(&mut self) {
        let Some((call, worker)) = self.last_end.clone() else { return };
        if let Some(reply) = self.call(&call) {
            self.hold_claimed(reply.claims, worker);
        }
    }

    pub(in crate::history) fn operator_claim(&mut self, slot: u8, by: u8) {
        let number = usize::from(by % WORKERS);
        let (worker_id, worker_instance_id) = worker(number);
        let (id, lease_id, attempt_id) = (execution(slot), self.fresh(), self.fresh());
        let claimed = self.call(&IssueGrantAndClaim {
            execution_id: id.clone(),
            worker_id,
            worker_instance_id,
            lane: lane(slot),
            lease_id,
            lease_ttl_ms: LEASE_TTL_MS,
            attempt_id,
            attempt_policy_json: String::new(),
            attempt_timeout_ms: None,
            execution_deadline_at: None,
        });
        // The reply has no attempt id; a resumed attempt keeps its own.
        let attempt_id = self.field(&id, "current_attempt_id").parse();
        if let (Some(claim), Ok(attempt_id)) = (claimed, attempt_id) {
            let fence =
                Fence { lease_id: claim.lease_id, lease_epoch: claim.lease_epoch, attempt_id };
            self.hold(Held { id, fence, attempt_index: claim.attempt_index, worker: number });
        }
    }

    pub(in crate::history) fn promote_delayed(&mut self, slot: u8) {
        let now = self.in_ms(1);
        self.call(&PromoteDelayed { execution_id: execution(slot), lane_id: lane(slot), now });
    }

    pub(in crate::history) fn change_priority(&mut self, slot: u8, to: u8) {
        self.call(&ChangePriority {
            execution_id: execution(slot),
            lane_id: lane(slot),
            new_priority: i64::from(to) * 1_000 - 1_000,
        });
    }

    pub(in crate::history) fn block(&mut self, slot: u8, choice: u8) {
        let now = self.in_ms(1);
        self.call(&BlockExecutionForAdmission {
            execution_id: execution(slot),
            lane_id: lane(slot),
            reason: reason(choice),
            detail: "held".into(),
            now,
        });
    }

    pub(in crate::history) fn unblock(&mut self, slot: u8, choice: u8) {
        let id = execution(slot);
        // Mostly for the reason that it is held for, so that something happens.
        let stored = self.field(&id, "blocking_reason").parse().ok();
        let reason = stored.filter(|_| choice < 9).unwrap_or_else(|| reason(choice));
        let now = self.in_ms(1);
        self.call(&UnblockExecution { execution_id: id, lane_id: lane(slot), reason, now });
    }

    /// The indexes of the lane of an execution.
    #[must_use]
    pub fn is_eligible(&self, slot: u8) -> bool {
        let index =
            Key::index(PARTITION).lane(&lane(slot), selvedge_core::key::LaneIndex::Eligible);
        self.snapshot().zset(&index).contains_key(execution(slot).as_str())
    }
}

fn reason(choice: u8) -> HoldReason {
    HoldReason::ALL[usize::from(choice) % HoldReason::ALL.len()]
}

fn no_capabilities() -> Capabilities {
    Capabilities::new::<String>([]).expect("an empty list is in order")
}
