//! Marks leases past their end as lost, so that everybody can see it.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::lease::{LeaseMark, MarkLeaseExpiredIfDue};
use crate::engine::step::{Step, Verdict};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct LeaseExpiry;

const SPEC: Spec = Spec {
    name: ScannerName::LeaseExpiry,
    every: Duration::from_millis(1_500),
    interval_variable: "FF_LEASE_EXPIRY_INTERVAL_MS",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::LeaseExpiry)],
    batch: 50,
    filtered: true,
};

impl Scanner for LeaseExpiry {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let call = MarkLeaseExpiredIfDue { execution_id: candidate.execution(scene)? };
        Ok(Step::call(&call, |reply| {
            Step::Done(match reply {
                // The entry stays for whoever brings the work back.
                Ok(LeaseMark::Marked) => Verdict::processed().staying(),
                Ok(
                    LeaseMark::AlreadyExpired
                    | LeaseMark::AlreadyRevoked
                    | LeaseMark::NotYetExpired,
                ) => Verdict::nothing().staying(),
                Ok(LeaseMark::NotFound | LeaseMark::NotActive | LeaseMark::Unowned) => {
                    Verdict::nothing()
                }
                Err(error) => Verdict::error(error),
            })
        }))
    }
}
