//! Applies the timeout of a suspension. The call checks again what is due, and which waitpoint the
//! execution waits on.

use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::suspension::{ExpireSuspension, SuspensionExpiry};
use crate::command::Command;
use crate::engine::reply::texts;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct SuspensionTimeout;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::SuspensionTimeout,
    interval: Duration::from_secs(2),
    interval_variable: "FF_SUSPENSION_TIMEOUT_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::SuspensionTimeout)],
    batch: 50,
    filtered: true,
};

impl Scanner for SuspensionTimeout {
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
        let names: [&[u8]; 3] = [b"lane_id", b"current_waitpoint_id", b"current_attempt_index"];
        let read = Command::read("HMGET", &core, &names);
        Ok(ScanStep::read(alloc::vec![read], move |replies| {
            let fields = match texts(replies.into_iter().next()) {
                Ok(fields) => fields,
                Err(outcome) => return outcome.into(),
            };
            let [lane, waitpoint, attempt] = fields.as_slice() else {
                return CandidateOutcome::nothing().remaining().into();
            };
            let Ok(lane) = (if lane.is_empty() { "default" } else { lane }).parse() else {
                return CandidateOutcome::unreadable("an execution with an impossible lane").into();
            };
            expire(&ExpireSuspension {
                execution_id,
                lane,
                waitpoint_id: waitpoint.parse().ok(),
                attempt_index: attempt.parse().ok(),
            })
        }))
    }
}

fn expire(call: &ExpireSuspension) -> ScanStep {
    ScanStep::call(call, |reply| {
        ScanStep::Done(match reply {
            Ok(
                SuspensionExpiry::AutoResumed
                | SuspensionExpiry::Escalated
                | SuspensionExpiry::Ended { .. },
            ) => CandidateOutcome::processed(),
            // The entry was stale, or has its real time now.
            Ok(
                SuspensionExpiry::NotFound
                | SuspensionExpiry::NotSuspended
                | SuspensionExpiry::NoActiveSuspension
                | SuspensionExpiry::NotYetDue,
            ) => CandidateOutcome::nothing(),
            Err(error) => CandidateOutcome::error(error),
        })
    })
}
