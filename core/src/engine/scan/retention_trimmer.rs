//! Deletes executions that ended long enough ago, whole and atomically. Most are due a day after
//! their end; a policy may say less, so a slower sweep looks at younger ones too. A flow whose
//! members are all gone is the projector's to delete.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::execution::{Purge, PurgeExecution};
use crate::engine::step::{Step, Verdict};
use crate::error::Code;
use crate::key::LaneIndex;
use crate::partition::Family;

pub(super) struct RetentionTrimmer;

/// How long an execution is kept when its policy does not say.
const RETENTION_MS: u64 = 86_400_000;
/// Records removed in one step.
const RECORDS_PER_STEP: u32 = 100;
/// Steps that one candidate may take in a go; a larger one goes on with the next scan.
const STEPS_MAX: u32 = 200;

const SPEC: Spec = Spec {
    name: ScannerName::RetentionTrimmer,
    every: Duration::from_secs(60),
    interval_variable: "FF_RETENTION_TRIMMER_INTERVAL_S",
    family: Family::Flow,
    sources: &[
        Source::DueInLane(LaneIndex::Terminal, RETENTION_MS),
        Source::SweepLane(LaneIndex::Terminal, RETENTION_MS),
    ],
    batch: 20,
    filtered: true,
};

impl Scanner for RetentionTrimmer {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let call = PurgeExecution {
            execution_id: candidate.execution(scene)?,
            lane: candidate.lane()?,
            retention_ms: Some(RETENTION_MS),
            limit: Some(RECORDS_PER_STEP),
        };
        Ok(purge(call, 1))
    }
}

fn purge(call: PurgeExecution, step: u32) -> Step {
    Step::call(&call.clone(), move |reply| match reply {
        Ok(Purge::Purged(_)) => Verdict::processed().into(),
        Ok(Purge::Partial(_)) if step < STEPS_MAX => purge(call, step + 1),
        Ok(Purge::Partial(_) | Purge::NotDue(_) | Purge::Held(_)) => {
            Verdict::nothing().staying().into()
        }
        Ok(Purge::NotFound) => Verdict::nothing().into(),
        Err(error) => Verdict::error_unless(error, &[Code::ExecutionNotTerminal]).into(),
    })
}
