//! Cancels the siblings that a fired group no longer needs, and drains the group's note once each
//! of them has ended. The note tells which siblings are still open, so nothing is forgotten,
//! however many there are; one that cannot be cancelled holds back only its own group.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::flow::{CheckedDrain, Drain, DrainSiblingCancelGroupChecked, SiblingCancelJob};
use crate::engine::driver::if_ours;
use crate::engine::observe::{Disposition, Observation};
use crate::engine::scan::cancel::{Cancelled, cancel};
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::text;
use crate::engine::wire::Command;
use crate::id::ExecutionId;
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct EdgeCancelDispatcher;

const SPEC: Spec = Spec {
    name: ScannerName::EdgeCancelDispatcher,
    every: Duration::from_secs(1),
    interval_variable: "FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::PendingCancelGroups)],
    batch: 50,
    filtered: false,
};

/// Siblings cancelled in one step.
const SIBLINGS_PER_STEP: u32 = 100;
/// Steps that one group may take in a go; a larger one goes on with the next scan.
const STEPS_MAX: u32 = 100;

const SATISFIED: &str = "sibling_quorum_satisfied";
const IMPOSSIBLE: &str = "sibling_quorum_impossible";

impl Scanner for EdgeCancelDispatcher {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let job = read_group(candidate, scene)?;
        let downstream = job.downstream.clone();
        Ok(if_ours(scene, &downstream, move || {
            let flow = Key::flow(job.downstream.partition(), job.flow_id);
            let key = flow.edge_group(&job.downstream);
            let read = Command::read("HGET", &key, &[b"cancel_siblings_reason"]);
            Step::read(alloc::vec![read], move |replies| match text(replies.into_iter().next()) {
                Ok(reason) => Work::new(job, reason).drain(),
                Err(verdict) => verdict.into(),
            })
        }))
    }
}

/// A group that owes cancels: a member of the index, `<flow>|<downstream>`.
pub(super) fn read_group(
    candidate: &Candidate,
    scene: &Scene,
) -> Result<SiblingCancelJob, Verdict> {
    let malformed = || Verdict::poison("not a flow and a downstream execution");
    let (flow, downstream) = candidate.text().split_once('|').ok_or_else(malformed)?;
    let job = SiblingCancelJob {
        flow_id: flow.parse().map_err(|_| malformed())?,
        downstream: downstream.parse().map_err(|_| malformed())?,
    };
    if job.flow_id.to_string() != flow {
        return Err(Verdict::poison("a flow id that is not spelled as the library does"));
    }
    if job.downstream.partition() != scene.partition {
        return Err(Verdict::poison("a group of another partition"));
    }
    Ok(job)
}

struct Work {
    job: SiblingCancelJob,
    reason: String,
    facts: Vec<Observation>,
    /// The last sibling that we were told of. One that could not be cancelled holds back the drain,
    /// not those behind it.
    last: Option<ExecutionId>,
    trouble: Option<Verdict>,
    step: u32,
}

impl Work {
    fn new(job: SiblingCancelJob, reason: String) -> Self {
        Self { job, reason, facts: Vec::new(), last: None, trouble: None, step: 1 }
    }

    /// Drains the note if it is paid; else the siblings that are still open come next.
    fn drain(self) -> Step {
        let call = DrainSiblingCancelGroupChecked {
            job: self.job.clone(),
            limit: Some(SIBLINGS_PER_STEP),
            after: self.last.clone(),
        };
        Step::call(&call, move |reply| match reply {
            Ok(CheckedDrain::Paid(Drain::Drained | Drain::DrainedSansGroup)) => {
                Verdict::processed().noting(self.facts).into()
            }
            Ok(CheckedDrain::Paid(Drain::AlreadyDrained)) => {
                Verdict::nothing().noting(self.facts).into()
            }
            Ok(CheckedDrain::Unpaid(siblings)) => {
                if siblings.is_empty() || self.step >= STEPS_MAX {
                    let verdict = self.trouble.unwrap_or(Verdict::nothing().staying());
                    return verdict.noting(self.facts).into();
                }
                self.cancel(siblings)
            }
            Err(error) => Verdict::error(error).noting(self.facts).into(),
        })
    }

    fn cancel(mut self, siblings: Vec<ExecutionId>) -> Step {
        let label = if self.reason == IMPOSSIBLE { IMPOSSIBLE } else { SATISFIED };
        let reason = if self.reason.is_empty() { SATISFIED.into() } else { self.reason.clone() };
        for _ in &siblings {
            self.facts.push(Observation::SiblingCancelDispatched { reason: label });
        }
        self.last = siblings.last().cloned();
        cancel(siblings, reason, move |outcomes| {
            for (_, outcome) in outcomes {
                let disposition = match outcome {
                    Cancelled::Now => Disposition::Cancelled,
                    Cancelled::Before => Disposition::AlreadyTerminal,
                    Cancelled::Gone => Disposition::NotFound,
                    Cancelled::Failed(verdict) => {
                        self.trouble = Some(verdict);
                        continue;
                    }
                };
                self.facts.push(Observation::SiblingCancelled(disposition));
            }
            self.step += 1;
            self.drain()
        })
    }
}
