//! Keeps the counts of quota policies true: windows are trimmed, counters equal their holders, and
//! holders that neither run nor can be claimed give their slot back: those that ended, and those
//! that were held back, delayed or suspended after they were admitted, for they have to ask again.
//! How a holder stands is written on another partition, so it is asked there; no answer means that
//! it keeps the slot.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::quota::{
    QuotaState, ReconcileQuota, Reconciliation, ReleaseAdmission, STANDING, needs_no_slot,
};
use crate::engine::step::{Step, Verdict};
use crate::engine::wire::Command;
use crate::id::{ExecutionId, QuotaPolicyId};
use crate::key::{Key, PartitionIndex};
use crate::partition::{Family, Partition};

pub(super) struct QuotaReconciler;

const SPEC: Spec = Spec {
    name: ScannerName::QuotaReconciler,
    every: Duration::from_secs(30),
    interval_variable: "FF_QUOTA_RECONCILER_INTERVAL_S",
    family: Family::Quota,
    sources: &[Source::Members(PartitionIndex::QuotaPolicies)],
    batch: 100,
    filtered: false,
};

/// Holders looked at in one step.
const HOLDERS_PER_STEP: u32 = 100;

impl Scanner for QuotaReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let policy =
            Policy { partition: scene.partition, id: candidate.id("not a quota policy id")? };
        Ok(policy.reconcile(0, 0))
    }
}

#[derive(Clone, Copy)]
struct Policy {
    partition: Partition,
    id: QuotaPolicyId,
}

impl Policy {
    /// One page of holders; `work` counts what was put right so far.
    fn reconcile(self, cursor: u64, work: u32) -> Step {
        let call = ReconcileQuota {
            partition: self.partition,
            quota_policy_id: self.id,
            cursor,
            count: HOLDERS_PER_STEP,
        };
        Step::call(&call, move |reply| match reply {
            Ok(state) => self.look_at_holders(state, work),
            Err(error) => Verdict::error(error).into(),
        })
    }

    fn look_at_holders(self, state: QuotaState, work: u32) -> Step {
        let repaired = u32::from(state.reconciliation == Reconciliation::Reconciled);
        let holders: Vec<ExecutionId> =
            state.holders.iter().filter_map(|holder| holder.parse().ok()).collect();
        let reads = holders
            .iter()
            .map(|id| Command::read("HMGET", &Key::execution(id).core(), &STANDING))
            .collect();
        let next = state.next_cursor;
        Step::read(reads, move |standings| {
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

    fn release(self, ended: &[ReleaseAdmission], next: u64, work: u32) -> Step {
        Step::calls(ended, move |replies| {
            let mut work = work;
            for reply in replies {
                match reply {
                    Ok(()) => work += 1,
                    Err(error) => return Verdict::error(error).into(),
                }
            }
            match (next, work) {
                (0, 0) => Verdict::nothing().into(),
                (0, work) => Verdict::processed().times(work).into(),
                (cursor, work) => self.reconcile(cursor, work),
            }
        })
    }
}
