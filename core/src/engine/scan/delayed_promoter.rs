//! Moves delayed executions whose time came to eligible.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::scheduling::{PromoteDelayed, Promotion};
use crate::engine::step::{Step, Verdict};
use crate::key::LaneIndex;
use crate::partition::Family;

pub(super) struct DelayedPromoter;

const SPEC: Spec = Spec {
    name: ScannerName::DelayedPromoter,
    every: Duration::from_millis(750),
    interval_variable: "FF_DELAYED_PROMOTER_INTERVAL_MS",
    family: Family::Flow,
    sources: &[Source::DueInLane(LaneIndex::Delayed, 0)],
    batch: 50,
    filtered: true,
};

impl Scanner for DelayedPromoter {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let call = PromoteDelayed {
            execution_id: candidate.execution(scene)?,
            lane_id: candidate.lane()?,
            now: scene.now,
        };
        Ok(Step::call(&call, |reply| {
            Step::Done(match reply {
                Ok(Promotion::Promoted) => Verdict::processed(),
                // The entry was stale and is gone.
                Ok(Promotion::NotFound | Promotion::NotRunnable | Promotion::NotDelayed) => {
                    Verdict::nothing()
                }
                // The entry has its true time now, which is later.
                Ok(Promotion::NotYetDue) => Verdict::nothing(),
                Err(error) => Verdict::error(error),
            })
        }))
    }
}
