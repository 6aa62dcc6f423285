//! What marks need to know about earlier events.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::LeaseId;
use selvedge_core::key::Key;

use super::sleep::Sleep;
use crate::event::{Actor, CallId, Event, EventKind, HandlerStep};
use crate::oracle::call::Call;
use crate::oracle::changes::Changes;

/// Earlier events, as far as marks need them.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Calls in flight, by sender.
    pub(super) under_way: BTreeMap<Actor, BTreeSet<CallId>>,
    /// Calls whose sender died before they arrived.
    pub(super) orphaned: BTreeSet<CallId>,
    /// Calls that a server applied.
    pub(super) applied: BTreeSet<CallId>,
    /// How often an engine died.
    pub(super) engine_deaths: u64,
    /// Callers that died and started again.
    pub(super) callers_died: BTreeSet<Actor>,
    /// The number of engine deaths when a group fired.
    pub(super) fired: BTreeMap<Key, u64>,
    /// Engines that cancelled an execution.
    pub(super) cancels: BTreeSet<Actor>,
    /// Lease ids that were used for a claim.
    pub(super) leases: BTreeSet<Vec<u8>>,
    /// How many handlers run, by worker.
    pub(super) handlers: BTreeMap<Actor, u64>,
    /// When a handler was told to stop.
    pub(super) told: BTreeMap<LeaseId, u64>,
    /// Whether commits were lost.
    pub(super) commits_lost: bool,
    /// Which engine scanned last, and when.
    pub(super) scanned: Option<(Actor, u64)>,
    /// The sleep of engines.
    pub(super) sleep: Sleep,
}

impl History {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are no part of it")]
    pub(super) fn record(&mut self, event: &Event, changes: &Changes) {
        self.sleep.record(event);
        match &event.kind {
            EventKind::Sent { call, .. } => {
                self.under_way.entry(event.actor).or_default().insert(*call);
            }
            EventKind::Delivered { call, .. } => {
                if let Some(calls) = self.under_way.get_mut(&event.actor) {
                    calls.remove(call);
                }
            }
            EventKind::Died => {
                if matches!(event.actor, Actor::Caller(_)) {
                    self.callers_died.insert(event.actor);
                }
                self.engine_deaths += u64::from(matches!(event.actor, Actor::Engine(_)));
                self.handlers.remove(&event.actor);
                self.orphaned.extend(self.under_way.remove(&event.actor).unwrap_or_default());
            }
            EventKind::Handler { lease, step, .. } => {
                let running = self.handlers.entry(event.actor).or_default();
                match step {
                    HandlerStep::Started => *running += 1,
                    HandlerStep::CancelRequested => drop(self.told.insert(*lease, event.at_ms)),
                    HandlerStep::Ended => *running = running.saturating_sub(1),
                }
            }
            EventKind::CommitsLost { .. } => self.commits_lost = true,
            EventKind::Applied(applied) => {
                self.applied.insert(applied.call);
                for change in &changes.groups {
                    let cancels_pending = |group: &Option<_>| {
                        group.as_ref().is_some_and(|group: &crate::oracle::changes::Group| {
                            group.cancels_pending
                        })
                    };
                    if cancels_pending(&change.is) && !cancels_pending(&change.was) {
                        self.fired.insert(change.of.clone(), self.engine_deaths);
                    }
                }
                let Some(call) = Call::of(applied) else { return };
                match (call.function, event.actor) {
                    ("cancel_execution", Actor::Engine(_)) => {
                        self.cancels.insert(event.actor);
                    }
                    ("claim_many" | "end_and_claim", _) => {
                        self.leases.extend(call.new_leases().into_iter().map(<[u8]>::to_vec));
                    }
                    ("scan_partition", Actor::Engine(_)) => {
                        self.scanned = Some((event.actor, event.at_ms));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
