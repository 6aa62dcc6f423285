//! Cancels the siblings that a satisfied or impossible edge group no longer needs, and drains the
//! group's entry when all of them have ended. The entry lists the open siblings, so none is lost,
//! however many there are; one that cannot be cancelled delays only its own group.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::flow::{CheckedDrain, Drain, DrainSiblingCancelGroupChecked, SiblingCancelJob};
use crate::command::Command;
use crate::engine::observe::{CancelDisposition, Observation};
use crate::engine::reply::text;
use crate::engine::scanners::cancel_execution::{Cancelled, cancel};
use crate::engine::scanning::if_selected;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::id::ExecutionId;
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct EdgeCancelDispatcher;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::EdgeCancelDispatcher,
    interval: Duration::from_secs(1),
    interval_variable: "FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::PendingCancelGroups)],
    batch: 50,
    filtered: false,
};

/// Siblings cancelled at a time.
const SIBLINGS_PER_STEP: u32 = 100;
/// Most steps for one group in one scan; a larger group goes on with the next scan.
const STEPS_MAX: u32 = 100;

const SATISFIED: &str = "sibling_quorum_satisfied";
const IMPOSSIBLE: &str = "sibling_quorum_impossible";

impl Scanner for EdgeCancelDispatcher {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let job = read_group(candidate, context)?;
        let downstream = job.downstream.clone();
        Ok(if_selected(context, &downstream, move || {
            let flow = Key::flow(job.downstream.partition(), job.flow_id);
            let key = flow.edge_group(&job.downstream);
            let read = Command::read("HGET", &key, &[b"cancel_siblings_reason"]);
            ScanStep::read(alloc::vec![read], move |replies| {
                match text(replies.into_iter().next()) {
                    Ok(reason) => Work::new(job, reason).drain(),
                    Err(outcome) => outcome.into(),
                }
            })
        }))
    }
}

/// A group with siblings to cancel: a member of the index, `<flow>|<downstream>`.
pub(super) fn read_group(
    candidate: &Candidate,
    context: &ScanContext,
) -> Result<SiblingCancelJob, CandidateOutcome> {
    let malformed = || CandidateOutcome::unreadable("not a flow and a downstream execution");
    let (flow, downstream) = candidate.text().split_once('|').ok_or_else(malformed)?;
    let job = SiblingCancelJob {
        flow_id: flow.parse().map_err(|_| malformed())?,
        downstream: downstream.parse().map_err(|_| malformed())?,
    };
    if job.flow_id.to_string() != flow {
        return Err(CandidateOutcome::unreadable(
            "a flow id that is not spelled as the library does",
        ));
    }
    if job.downstream.partition() != context.partition {
        return Err(CandidateOutcome::unreadable("a group of another partition"));
    }
    Ok(job)
}

struct Work {
    job: SiblingCancelJob,
    reason: String,
    observations: Vec<Observation>,
    /// The last sibling that was returned. One that cannot be cancelled delays the drain, not the
    /// siblings behind it.
    last: Option<ExecutionId>,
    failure: Option<CandidateOutcome>,
    step: u32,
}

impl Work {
    fn new(job: SiblingCancelJob, reason: String) -> Self {
        Self { job, reason, observations: Vec::new(), last: None, failure: None, step: 1 }
    }

    /// Drains the entry if all siblings have ended; else cancels those that have not.
    fn drain(self) -> ScanStep {
        let call = DrainSiblingCancelGroupChecked {
            job: self.job.clone(),
            limit: Some(SIBLINGS_PER_STEP),
            after: self.last.clone(),
        };
        ScanStep::call(&call, move |reply| match reply {
            Ok(CheckedDrain::Drained(Drain::Drained | Drain::DrainedSansGroup)) => {
                CandidateOutcome::processed().with_observations(self.observations).into()
            }
            Ok(CheckedDrain::Drained(Drain::AlreadyDrained)) => {
                CandidateOutcome::nothing().with_observations(self.observations).into()
            }
            Ok(CheckedDrain::SiblingsRunning(siblings)) => {
                if siblings.is_empty() || self.step >= STEPS_MAX {
                    let outcome = self.failure.unwrap_or(CandidateOutcome::nothing().remaining());
                    return outcome.with_observations(self.observations).into();
                }
                self.cancel(siblings)
            }
            Err(error) => {
                CandidateOutcome::error(error).with_observations(self.observations).into()
            }
        })
    }

    fn cancel(mut self, siblings: Vec<ExecutionId>) -> ScanStep {
        let label = if self.reason == IMPOSSIBLE { IMPOSSIBLE } else { SATISFIED };
        let reason = if self.reason.is_empty() { SATISFIED.into() } else { self.reason.clone() };
        for _ in &siblings {
            self.observations.push(Observation::SiblingCancelDispatched { reason: label });
        }
        self.last = siblings.last().cloned();
        cancel(siblings, reason, move |outcomes| {
            for (_, outcome) in outcomes {
                let disposition = match outcome {
                    Cancelled::Now => CancelDisposition::Cancelled,
                    Cancelled::Before => CancelDisposition::AlreadyTerminal,
                    Cancelled::Gone => CancelDisposition::NotFound,
                    Cancelled::Failed(outcome) => {
                        self.failure = Some(outcome);
                        continue;
                    }
                };
                self.observations.push(Observation::SiblingCancelled(disposition));
            }
            self.step += 1;
            self.drain()
        })
    }
}
