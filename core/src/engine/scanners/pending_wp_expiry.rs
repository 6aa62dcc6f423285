//! Closes waitpoints that were created for a suspension which never came.

use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::suspension::{ExpirePendingWaitpointIfDue, PendingWaitpointExpiry};
use crate::command::Command;
use crate::engine::reply::text;
use crate::engine::scanning::if_selected;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::id::WaitpointId;
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct PendingWpExpiry;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::PendingWpExpiry,
    interval: Duration::from_secs(5),
    interval_variable: "FF_PENDING_WP_EXPIRY_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::PendingWaitpointExpiry)],
    batch: 100,
    filtered: false,
};

impl Scanner for PendingWpExpiry {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let waitpoint_id: WaitpointId = candidate.id("not a waitpoint id")?;
        let call = ExpirePendingWaitpointIfDue { partition: context.partition, waitpoint_id };
        if context.config.filter.is_open() {
            return Ok(expire(&call));
        }
        // The filter applies to the execution that it was created for.
        let key = Key::waitpoint(context.partition, waitpoint_id);
        let context = context.clone();
        let read = Command::read("HGET", &key, &[b"execution_id"]);
        Ok(ScanStep::read(alloc::vec![read], move |replies| {
            match text(replies.into_iter().next()).map(|owner| owner.parse()) {
                Ok(Ok(owner)) => if_selected(&context, &owner, move || expire(&call)),
                Ok(Err(_)) => expire(&call),
                Err(outcome) => outcome.into(),
            }
        }))
    }
}

fn expire(call: &ExpirePendingWaitpointIfDue) -> ScanStep {
    ScanStep::call(call, |reply| {
        ScanStep::Done(match reply {
            Ok(PendingWaitpointExpiry::Closed) => CandidateOutcome::processed(),
            Ok(
                PendingWaitpointExpiry::NotYetDue
                | PendingWaitpointExpiry::NotFound
                | PendingWaitpointExpiry::NotPending,
            ) => CandidateOutcome::nothing(),
            Err(error) => CandidateOutcome::error(error),
        })
    })
}
