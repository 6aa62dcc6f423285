//! Ends executions past their deadline, in whatever state they are.

use core::time::Duration;

use super::attempt_timeout::expire;
use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::execution::{ExpireIfDue, ExpireReason};
use crate::engine::step::{Step, Verdict};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct ExecutionDeadline;

const SPEC: Spec = Spec {
    name: ScannerName::ExecutionDeadline,
    every: Duration::from_secs(5),
    interval_variable: "FF_EXECUTION_DEADLINE_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::ExecutionDeadline)],
    batch: 50,
    filtered: true,
};

impl Scanner for ExecutionDeadline {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        Ok(expire(&ExpireIfDue {
            execution_id: candidate.execution(scene)?,
            expected_attempt_index: None,
            reason: ExpireReason::ExecutionDeadline,
        }))
    }
}
