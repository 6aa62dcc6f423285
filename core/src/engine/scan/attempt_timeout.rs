//! Ends attempts that take too long, or has them tried again where the policy says so. The attempt
//! that was meant is named in the call, so a newer one is never ended by an old timeout.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::execution::{DueExpiry, ExpireIfDue, ExpireReason};
use crate::engine::step::{Step, Verdict};
use crate::engine::wire::Command;
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;
use crate::value::Value;

pub(super) struct AttemptTimeout;

const SPEC: Spec = Spec {
    name: ScannerName::AttemptTimeout,
    every: Duration::from_secs(2),
    interval_variable: "FF_ATTEMPT_TIMEOUT_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::AttemptTimeout)],
    batch: 50,
    filtered: true,
};

impl Scanner for AttemptTimeout {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let execution_id = candidate.execution(scene)?;
        let core = Key::execution(&execution_id).core();
        let read = Command::read("HGET", &core, &[b"current_attempt_index"]);
        Ok(Step::read(alloc::vec![read], move |replies| {
            let expected_attempt_index = match replies.into_iter().next() {
                Some(Ok(Value::Bulk(index))) => {
                    core::str::from_utf8(&index).ok().and_then(|index| index.parse().ok())
                }
                Some(Err(error)) => return Verdict::error(error.into()).into(),
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
pub(super) fn expire(call: &ExpireIfDue) -> Step {
    Step::call(call, |reply| {
        Step::Done(match reply {
            Ok(DueExpiry::Expired(_) | DueExpiry::RetryAt(_)) => Verdict::processed(),
            // Somebody was faster, or its time is another one; the index is true again.
            Ok(DueExpiry::NotDue(_) | DueExpiry::AlreadyTerminal | DueExpiry::NotFound) => {
                Verdict::nothing()
            }
            Ok(DueExpiry::OtherAttempt(_)) => Verdict::nothing().staying(),
            Err(error) => Verdict::error(error),
        })
    })
}
