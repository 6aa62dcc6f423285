//! `LeasesKept`

use selvedge_core::state::OwnershipState;
use selvedge_core::worker::Observation;

use super::changes::ExecutionState;
use super::workers::{Holder, Workers, round_trips};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "LeasesKept",
    statement: "a healthy worker ends what it holds: its leases never expire, and a drain leaves none",
    class: Class::Safety,
    checker: || Box::<LeasesKept>::default(),
};

#[derive(Default)]
struct LeasesKept {
    workers: Workers,
}

impl Checker for LeasesKept {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let requeued = matches!(&event.kind, EventKind::Applied(applied)
            if applied.function() == Some("ff_requeue_lost_lease"));
        for change in &changes.executions {
            let expired = requeued || change.is.as_ref().is_some_and(has_expired);
            let held = change.was.as_ref().filter(|was| was.is_leased());
            let Some(was) = held.filter(|_| expired) else { continue };
            let Some(holder) = self.workers.held.get(&change.of) else { continue };
            if holder.lease == was.fence[0] && self.should_have_kept(holder, view) {
                let Holder { by, since_ms, .. } = holder;
                let what = format!("had its lease expire, which {by} had since {since_ms} ms");
                findings.add(view, &change.of, what);
            }
        }
        if matches!(event.kind, EventKind::WorkerObserved(Observation::Drained)) {
            for (id, holder) in &self.workers.held {
                if holder.by == event.actor && self.should_have_kept(holder, view) {
                    findings.add(view, id, format!("was left behind when {} drained", holder.by));
                }
            }
        }
        self.workers.on_event(event, changes);
    }
}

impl LeasesKept {
    fn should_have_kept(&self, holder: &Holder, view: &View<'_>) -> bool {
        let config = view.config;
        // A claim may be asked again only after the patience of the worker.
        let least_ms = config.patience.0 + SLACK_MS + round_trips(config, ROUND_TRIPS);
        config.lease.0 >= least_ms && self.workers.was_well(holder.by, holder.since_ms, view)
    }
}

fn has_expired(is: &ExecutionState) -> bool {
    is.vector.is_some_and(|vector| vector.ownership == OwnershipState::LeaseExpiredReclaimable)
}

/// Pauses between repeats.
const SLACK_MS: u64 = 500;
/// Round trips of a claim and a renewal, each lost once.
const ROUND_TRIPS: u64 = 6;
