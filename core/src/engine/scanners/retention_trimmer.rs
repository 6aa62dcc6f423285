//! Deletes executions past their retention, whole and atomically. The default is a day after their
//! end; a policy may say less, so a slower sweep looks at younger ones too. A deployment may also
//! keep only so many of each lane and partition. The purges of a page go in one call, and the pace
//! of these calls leaves the server to other work. A flow without members is deleted by the flow
//! projector.

use core::time::Duration;

use super::{Age, Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::execution::{Purge, PurgeExecution};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::error::Code;
use crate::key::LaneIndex;
use crate::partition::Family;
use crate::requests::Priority;

pub(super) struct RetentionTrimmer;

/// Records deleted by one call.
const RECORDS_PER_STEP: u32 = 100;
/// Most calls for one execution in one scan; a larger one goes on with the next scan.
const STEPS_MAX: u32 = 200;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::RetentionTrimmer,
    interval: Duration::from_secs(60),
    interval_variable: "FF_RETENTION_TRIMMER_INTERVAL_S",
    family: Family::Flow,
    sources: &[
        Source::DueInLane(LaneIndex::Terminal, Age::Retention),
        Source::SurplusInLane(LaneIndex::Terminal),
        Source::SweepLane(LaneIndex::Terminal, Age::Retention),
    ],
    batch: 64,
    filtered: true,
};

impl Scanner for RetentionTrimmer {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let call = PurgeExecution {
            execution_id: candidate.execution(context)?,
            lane: candidate.lane()?,
            retention_ms: Some(context.config.retention_ms()),
            limit: Some(RECORDS_PER_STEP),
            keep: context.config.keep_ended,
        };
        Ok(purge(call, 1))
    }

    fn priority(&self) -> Priority {
        Priority::Spare
    }
}

fn purge(call: PurgeExecution, step: u32) -> ScanStep {
    ScanStep::call(&call.clone(), move |reply| match reply {
        Ok(Purge::Purged(_)) => CandidateOutcome::processed().into(),
        Ok(Purge::Partial(_)) if step < STEPS_MAX => purge(call, step + 1),
        Ok(Purge::Partial(_) | Purge::NotDue(_) | Purge::Needed(_)) => {
            CandidateOutcome::nothing().remaining().into()
        }
        Ok(Purge::NotFound) => CandidateOutcome::nothing().into(),
        Err(error) => CandidateOutcome::error_unless(error, &[Code::ExecutionNotTerminal]).into(),
    })
}
