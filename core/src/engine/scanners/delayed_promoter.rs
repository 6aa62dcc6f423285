//! Makes delayed executions eligible when their time has come.

use core::time::Duration;

use super::{Age, Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::scheduling::{PromoteDelayed, Promotion};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::LaneIndex;
use crate::partition::Family;

pub(super) struct DelayedPromoter;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::DelayedPromoter,
    interval: Duration::from_millis(750),
    interval_variable: "FF_DELAYED_PROMOTER_INTERVAL_MS",
    family: Family::Flow,
    sources: &[Source::DueInLane(LaneIndex::Delayed, Age::Ms(0))],
    batch: 50,
    filtered: true,
};

impl Scanner for DelayedPromoter {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let call = PromoteDelayed {
            execution_id: candidate.execution(context)?,
            lane_id: candidate.lane()?,
            now: context.now,
        };
        Ok(ScanStep::call(&call, |reply| {
            ScanStep::Done(match reply {
                Ok(Promotion::Promoted) => CandidateOutcome::processed(),
                // The entry was stale and is gone.
                Ok(Promotion::NotFound | Promotion::NotRunnable | Promotion::NotDelayed) => {
                    CandidateOutcome::nothing()
                }
                // The entry has its real time now, which is later.
                Ok(Promotion::NotYetDue) => CandidateOutcome::nothing(),
                Err(error) => CandidateOutcome::error(error),
            })
        }))
    }
}
