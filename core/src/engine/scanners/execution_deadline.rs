//! Ends executions that exceed their deadline, in any state.

use core::time::Duration;

use super::attempt_timeout::expire;
use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::execution::{ExpireIfDue, ExpireReason};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct ExecutionDeadline;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::ExecutionDeadline,
    interval: Duration::from_secs(5),
    interval_variable: "FF_EXECUTION_DEADLINE_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::ExecutionDeadline)],
    batch: 50,
    filtered: true,
};

impl Scanner for ExecutionDeadline {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        Ok(expire(&ExpireIfDue {
            execution_id: candidate.execution(context)?,
            expected_attempt_index: None,
            reason: ExpireReason::ExecutionDeadline,
        }))
    }
}
