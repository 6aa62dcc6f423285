//! Applies the timeout of a suspension: the function looks again at what is due, and at which
//! waitpoint the execution waits on.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::suspension::{ExpireSuspension, SuspensionExpiry};
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::texts;
use crate::engine::wire::Command;
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct SuspensionTimeout;

const SPEC: Spec = Spec {
    name: ScannerName::SuspensionTimeout,
    every: Duration::from_secs(2),
    interval_variable: "FF_SUSPENSION_TIMEOUT_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::SuspensionTimeout)],
    batch: 50,
    filtered: true,
};

impl Scanner for SuspensionTimeout {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let execution_id = candidate.execution(scene)?;
        let core = Key::execution(&execution_id).core();
        let names: [&[u8]; 3] = [b"lane_id", b"current_waitpoint_id", b"current_attempt_index"];
        let read = Command::read("HMGET", &core, &names);
        Ok(Step::read(alloc::vec![read], move |replies| {
            let fields = match texts(replies.into_iter().next()) {
                Ok(fields) => fields,
                Err(verdict) => return verdict.into(),
            };
            let [lane, waitpoint, attempt] = fields.as_slice() else {
                return Verdict::nothing().staying().into();
            };
            let Ok(lane) = (if lane.is_empty() { "default" } else { lane }).parse() else {
                return Verdict::poison("an execution with an impossible lane").into();
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

fn expire(call: &ExpireSuspension) -> Step {
    Step::call(call, |reply| {
        Step::Done(match reply {
            Ok(
                SuspensionExpiry::AutoResumed
                | SuspensionExpiry::Escalated
                | SuspensionExpiry::Ended { .. },
            ) => Verdict::processed(),
            // The entry was stale, or stands at its true time now.
            Ok(
                SuspensionExpiry::NotFound
                | SuspensionExpiry::NotSuspended
                | SuspensionExpiry::NoActiveSuspension
                | SuspensionExpiry::NotYetDue,
            ) => Verdict::nothing(),
            Err(error) => Verdict::error(error),
        })
    })
}
