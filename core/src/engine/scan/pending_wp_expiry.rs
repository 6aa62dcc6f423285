//! Closes waitpoints that were created ahead of a suspension which never came.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::suspension::{ExpirePendingWaitpointIfDue, PendingWaitpointExpiry};
use crate::engine::driver::if_ours;
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::text;
use crate::engine::wire::Command;
use crate::id::WaitpointId;
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct PendingWpExpiry;

const SPEC: Spec = Spec {
    name: ScannerName::PendingWpExpiry,
    every: Duration::from_secs(5),
    interval_variable: "FF_PENDING_WP_EXPIRY_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::PendingWaitpointExpiry)],
    batch: 100,
    filtered: false,
};

impl Scanner for PendingWpExpiry {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let waitpoint_id: WaitpointId = candidate.id("not a waitpoint id")?;
        let call = ExpirePendingWaitpointIfDue { partition: scene.partition, waitpoint_id };
        if scene.config.filter.is_open() {
            return Ok(expire(&call));
        }
        // Whose it is says the execution that it was made for.
        let key = Key::waitpoint(scene.partition, waitpoint_id);
        let scene = scene.clone();
        let read = Command::read("HGET", &key, &[b"execution_id"]);
        Ok(Step::read(alloc::vec![read], move |replies| {
            match text(replies.into_iter().next()).map(|owner| owner.parse()) {
                Ok(Ok(owner)) => if_ours(&scene, &owner, move || expire(&call)),
                Ok(Err(_)) => expire(&call),
                Err(verdict) => verdict.into(),
            }
        }))
    }
}

fn expire(call: &ExpirePendingWaitpointIfDue) -> Step {
    Step::call(call, |reply| {
        Step::Done(match reply {
            Ok(PendingWaitpointExpiry::Closed) => Verdict::processed(),
            Ok(
                PendingWaitpointExpiry::NotYetDue
                | PendingWaitpointExpiry::NotFound
                | PendingWaitpointExpiry::NotPending,
            ) => Verdict::nothing(),
            Err(error) => Verdict::error(error),
        })
    })
}
