//! What marks remember of the events so far.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::key::Key;

use crate::event::{Actor, CallId, Event, What};
use crate::oracle::call::Call;
use crate::oracle::scene::Scene;

/// What happened so far, as far as a mark asks for it.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Calls that are on their way, by sender.
    pub(super) under_way: BTreeMap<Actor, BTreeSet<CallId>>,
    /// Calls whose sender died before they arrived.
    pub(super) orphaned: BTreeSet<CallId>,
    /// Calls that a server carried out.
    pub(super) applied: BTreeSet<CallId>,
    /// How often an engine died.
    pub(super) engine_deaths: u64,
    /// How often an engine had died when a group fired.
    pub(super) fired: BTreeMap<Key, u64>,
    /// Groups for which an engine cancelled a sibling, and who it was.
    pub(super) cancels: BTreeSet<Actor>,
    /// Lease ids that got something.
    pub(super) leases: BTreeSet<String>,
    /// Whether a failover lost something.
    pub(super) commits_lost: bool,
    /// Who last asked for pages, and when.
    pub(super) scanned: Option<(Actor, u64)>,
}

impl Trail {
    pub(super) fn follow(&mut self, event: &Event, scene: &Scene) {
        match &event.what {
            What::Sent { call, .. } => {
                self.under_way.entry(event.actor).or_default().insert(*call);
            }
            What::Delivered { call, .. } => {
                if let Some(calls) = self.under_way.get_mut(&event.actor) {
                    calls.remove(call);
                }
            }
            What::Died => {
                self.engine_deaths += u64::from(matches!(event.actor, Actor::Engine(_)));
                self.orphaned.extend(self.under_way.remove(&event.actor).unwrap_or_default());
            }
            What::CommitsLost { .. } => self.commits_lost = true,
            What::Applied(applied) => {
                self.applied.insert(applied.call);
                for change in &scene.groups {
                    let owes = |group: &Option<_>| {
                        group.as_ref().is_some_and(|group: &crate::oracle::scene::Group| group.owes)
                    };
                    if owes(&change.is) && !owes(&change.was) {
                        self.fired.insert(change.of.clone(), self.engine_deaths);
                    }
                }
                let Some(call) = Call::of(applied) else { return };
                match (call.function, event.actor) {
                    ("cancel_execution", Actor::Engine(_)) => {
                        self.cancels.insert(event.actor);
                    }
                    ("claim_next", _) => {
                        self.leases.insert(call.argument("lease_id").to_owned());
                    }
                    ("scan_partition", Actor::Engine(_)) => {
                        self.scanned = Some((event.actor, event.at_ms));
                    }
                    _ => {}
                }
            }
            What::Lost { .. }
            | What::Fault { .. }
            | What::Observed(_)
            | What::Invoked { .. }
            | What::Returned { .. }
            | What::Started
            | What::Phase(_)
            | What::Note(_) => {}
        }
    }
}
