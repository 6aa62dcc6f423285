//! `CapacityKept`

use std::collections::BTreeMap;

use super::workers::round_trips;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Actor, Event, EventKind, HandlerStep};

pub(super) const ORACLE: Oracle = Oracle {
    name: "CapacityKept",
    statement: "a worker starts no handler beyond its capacity, except for claims that were in flight \
                when the capacity was lowered",
    class: Class::Safety,
    checker: || Box::<CapacityKept>::default(),
};

#[derive(Default)]
struct CapacityKept {
    /// The capacities of each worker, and since when.
    capacities: BTreeMap<Actor, Vec<(u64, u64)>>,
    /// How many handlers run.
    running: BTreeMap<Actor, u64>,
}

impl Checker for CapacityKept {
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others are about no capacity")]
        match &event.kind {
            EventKind::Capacity(capacity) => {
                let capacities = self.capacities.entry(event.actor).or_default();
                capacities.push((event.at_ms, *capacity));
            }
            EventKind::Died => {
                self.capacities.remove(&event.actor);
                self.running.remove(&event.actor);
            }
            EventKind::Handler { step: HandlerStep::Ended, .. } => {
                let running = self.running.entry(event.actor).or_default();
                *running = running.saturating_sub(1);
            }
            EventKind::Handler { execution, step: HandlerStep::Started, .. } => {
                let running = self.running.entry(event.actor).or_default();
                *running += 1;
                let running = *running;
                let most = self.capacity(event, view);
                if running > most {
                    let by = event.actor;
                    let what = format!("is handler {running} of {by}, whose capacity is {most}");
                    findings.add(view, execution, what);
                }
            }
            _ => {}
        }
    }
}

impl CapacityKept {
    /// The largest capacity of a worker since claims that may be answered now were sent.
    fn capacity(&self, event: &Event, view: &View<'_>) -> u64 {
        let config = view.config;
        let slow = view.any_slow_until_ms();
        let grace_ms = config.lease.0 + config.patience.0 + round_trips(config, ROUND_TRIPS);
        let from_ms = if slow > 0 { 0 } else { event.at_ms.saturating_sub(grace_ms) };
        let Some(capacities) = self.capacities.get(&event.actor) else { return 0 };
        let ends = capacities.iter().skip(1).map(|(since_ms, _)| *since_ms).chain([u64::MAX]);
        let in_force = capacities.iter().zip(ends).filter(|(_, end_ms)| *end_ms >= from_ms);
        in_force.map(|((_, capacity), _)| *capacity).max().unwrap_or(0)
    }
}

/// Round trips of a claim that is asked again.
const ROUND_TRIPS: u64 = 4;
