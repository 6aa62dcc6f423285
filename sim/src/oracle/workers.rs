//! Who holds what: leases and slots of live workers, and how well they are connected.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;

use super::View;
use super::changes::Changes;
use crate::event::{Actor, CallId, Event, EventKind, function_of};
use crate::plan::Config;

/// What is known about workers.
#[derive(Default)]
pub(super) struct Workers {
    /// Leases by execution, of workers that live.
    pub(super) held: BTreeMap<ExecutionId, Holder>,
    /// Since when each worker that lives is up.
    pub(super) up_since: BTreeMap<Actor, u64>,
    /// Claims and admissions that workers have sent since they were started.
    asked: BTreeMap<CallId, Actor>,
    /// When calls or replies of a worker were lost.
    lost: BTreeMap<Actor, BTreeSet<(u64, CallId)>>,
}

/// The holder of a lease.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) by: Actor,
    pub(super) lease: String,
    pub(super) since_ms: u64,
}

impl Workers {
    /// Whether a call was sent by a worker that has not died since.
    pub(super) fn sender_of(&self, call: CallId) -> Option<Actor> {
        self.asked.get(&call).copied()
    }

    /// Notes what an event says about workers.
    pub(super) fn on_event(&mut self, event: &Event, changes: &Changes) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others say nothing about workers")]
        match &event.kind {
            EventKind::Started if is_worker(event.actor) => {
                self.up_since.insert(event.actor, event.at_ms);
            }
            EventKind::Died => {
                self.up_since.remove(&event.actor);
                self.lost.remove(&event.actor);
                self.held.retain(|_, holder| holder.by != event.actor);
                self.asked.retain(|_, by| *by != event.actor);
            }
            EventKind::Sent { call, argv, .. } if is_worker(event.actor) => {
                let asks = function_of(argv)
                    .is_some_and(|name| name.contains("claim") || name.contains("admission"));
                if asks {
                    self.asked.insert(*call, event.actor);
                }
            }
            EventKind::Lost { call, .. } if is_worker(event.actor) => {
                self.lost.entry(event.actor).or_default().insert((event.at_ms, *call));
            }
            EventKind::Applied(applied) => {
                for change in &changes.executions {
                    if !change.is.as_ref().is_some_and(|is| is.is_leased()) {
                        self.held.remove(&change.of);
                    }
                    let Some(is) = change.got_a_lease() else { continue };
                    self.held.remove(&change.of);
                    if let Some(by) = self.asked.get(&applied.call) {
                        let (by, lease) = (*by, is.fence[0].clone());
                        let holder = Holder { by, lease, since_ms: event.at_ms };
                        self.held.insert(change.of.clone(), holder);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a worker was able to call its servers since then: at most a few of its calls were
    /// lost, and no fault can have kept it from renewing its leases.
    pub(super) fn was_well(&self, worker: Actor, since_ms: u64, view: &View<'_>) -> bool {
        let lost = self.lost.get(&worker).into_iter().flatten();
        let lost = lost.filter(|(at_ms, _)| at_ms + view.config.patience.0 >= since_ms).count();
        let slow = view.any_slow_until_ms();
        self.up_since.get(&worker).is_some_and(|up_ms| *up_ms <= since_ms)
            && lost <= LOST_MAX
            && view.leases_risked_until_ms.max(slow) < since_ms
    }
}

pub(super) const fn is_worker(actor: Actor) -> bool {
    matches!(actor, Actor::Worker(_))
}

/// The longest duration of a lease, in any phase of a run.
pub(super) fn lease_ms(config: &Config) -> u64 {
    config.lease.0.max(SANE_LEASE_MS)
}

/// This many round trips.
pub(super) const fn round_trips(config: &Config, count: u64) -> u64 {
    count * 2 * config.link.0.to
}

/// So many lost calls must not cost a lease.
const LOST_MAX: usize = 2;
/// Leases are not shorter than this after the faults, if they were too short for their links.
const SANE_LEASE_MS: u64 = 10_000;
