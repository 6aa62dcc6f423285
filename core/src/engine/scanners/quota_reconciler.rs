//! Corrects the counts of quota policies: trims windows, makes counters equal their holders, and
//! releases the slots of holders that neither run nor can be claimed. Those are executions that
//! ended, and executions that were held, delayed or suspended after their admission, which have to
//! be admitted again. A holder's record is on another partition, so it is read there; without an
//! answer the holder keeps its slot.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::quota::{
    HOLDER_FIELDS, QuotaReconciliation, QuotaState, ReconcileQuota, ReleaseAdmission, needs_no_slot,
};
use crate::command::Command;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::id::{ExecutionId, QuotaPolicyId};
use crate::key::{Key, PartitionIndex};
use crate::partition::{Family, Partition};

pub(super) struct QuotaReconciler;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::QuotaReconciler,
    interval: Duration::from_secs(30),
    interval_variable: "FF_QUOTA_RECONCILER_INTERVAL_S",
    family: Family::Quota,
    sources: &[Source::Members(PartitionIndex::QuotaPolicies)],
    batch: 100,
    filtered: false,
};

/// Holders read by one call.
const HOLDERS_PER_STEP: u32 = 100;

impl Scanner for QuotaReconciler {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let policy =
            Policy { partition: context.partition, id: candidate.id("not a quota policy id")? };
        Ok(policy.reconcile(0, 0))
    }
}

#[derive(Clone, Copy)]
struct Policy {
    partition: Partition,
    id: QuotaPolicyId,
}

impl Policy {
    /// One page of holders; `work` counts the corrections so far.
    fn reconcile(self, cursor: u64, work: u32) -> ScanStep {
        let call = ReconcileQuota {
            partition: self.partition,
            quota_policy_id: self.id,
            cursor,
            count: HOLDERS_PER_STEP,
        };
        ScanStep::call(&call, move |reply| match reply {
            Ok(state) => self.look_at_holders(state, work),
            Err(error) => CandidateOutcome::error(error).into(),
        })
    }

    fn look_at_holders(self, state: QuotaState, work: u32) -> ScanStep {
        let repaired = u32::from(state.reconciliation == QuotaReconciliation::Reconciled);
        let holders: Vec<ExecutionId> =
            state.holders.iter().filter_map(|holder| holder.parse().ok()).collect();
        let reads = holders
            .iter()
            .map(|id| Command::read("HMGET", &Key::execution(id).core(), &HOLDER_FIELDS))
            .collect();
        let next = state.next_cursor;
        ScanStep::read(reads, move |standings| {
            let ended = holders
                .into_iter()
                .zip(standings)
                .filter(|(_, standing)| standing.as_ref().is_ok_and(needs_no_slot))
                .map(|(execution_id, _)| ReleaseAdmission {
                    partition: self.partition,
                    quota_policy_id: self.id,
                    execution_id,
                })
                .collect::<Vec<_>>();
            self.release(&ended, next, work + repaired)
        })
    }

    fn release(self, ended: &[ReleaseAdmission], next: u64, work: u32) -> ScanStep {
        ScanStep::calls(ended, move |replies| {
            let mut work = work;
            for reply in replies {
                match reply {
                    Ok(()) => work += 1,
                    Err(error) => return CandidateOutcome::error(error).into(),
                }
            }
            match (next, work) {
                (0, 0) => CandidateOutcome::nothing().into(),
                (0, work) => CandidateOutcome::processed_times(work).into(),
                (cursor, work) => self.reconcile(cursor, work),
            }
        })
    }
}
