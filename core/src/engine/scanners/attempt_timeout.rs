//! Ends attempts that exceed their timeout, or retries them where the policy says so. The call
//! names the attempt, so an old timeout never ends a newer attempt.

use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::execution::{DueExpiry, ExpireIfDue, ExpireReason};
use crate::command::Command;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;
use crate::value::Value;

pub(super) struct AttemptTimeout;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::AttemptTimeout,
    interval: Duration::from_secs(2),
    interval_variable: "FF_ATTEMPT_TIMEOUT_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::AttemptTimeout)],
    batch: 50,
    filtered: true,
};

impl Scanner for AttemptTimeout {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let execution_id = candidate.execution(context)?;
        let core = Key::execution(&execution_id).core();
        let read = Command::read("HGET", &core, &[b"current_attempt_index"]);
        Ok(ScanStep::read(alloc::vec![read], move |replies| {
            let expected_attempt_index = match replies.into_iter().next() {
                Some(Ok(Value::Bulk(index))) => {
                    core::str::from_utf8(&index).ok().and_then(|index| index.parse().ok())
                }
                Some(Err(error)) => return CandidateOutcome::error(error.into()).into(),
                Some(Ok(_)) | None => None,
            };
            expire(&ExpireIfDue {
                execution_id,
                expected_attempt_index,
                reason: ExpireReason::AttemptTimeout,
            })
        }))
    }
}

/// Expires an execution if that is due; shared with the deadline scanner.
pub(super) fn expire(call: &ExpireIfDue) -> ScanStep {
    ScanStep::call(call, |reply| {
        ScanStep::Done(match reply {
            Ok(DueExpiry::Expired(_) | DueExpiry::RetryAt(_)) => CandidateOutcome::processed(),
            // Another engine was faster, or its time has changed; the index is right again.
            Ok(DueExpiry::NotDue(_) | DueExpiry::AlreadyTerminal | DueExpiry::NotFound) => {
                CandidateOutcome::nothing()
            }
            Ok(DueExpiry::OtherAttempt(_)) => CandidateOutcome::nothing().remaining(),
            Err(error) => CandidateOutcome::error(error),
        })
    })
}
