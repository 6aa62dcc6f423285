//! What marks need to know about the sleep of engines: when each last looked at a partition, what
//! it was told meanwhile, and what else happened.

use std::collections::BTreeMap;

use crate::event::{Actor, Applied, Event, EventKind, keys_of};
use crate::fault::Fault;

/// Longer than any pause that is not a sleep, but for the scanners that rarely run.
const SLEEP_MS: u64 = 6_000;

/// How soon an engine looks at what it was told of.
const SOON_MS: u64 = 1_500;

#[derive(Debug, Default)]
pub(super) struct Sleep {
    /// When an engine last looked at a partition, by the partition's tag.
    looked: BTreeMap<(Actor, String), u64>,
    /// When something is due that was published, by the partition's tag.
    told: BTreeMap<String, u64>,
    /// When each fault was last injected.
    faults: BTreeMap<Fault, u64>,
}

impl Sleep {
    pub(super) fn record(&mut self, event: &Event) {
        if let EventKind::Fault { fault, .. } = event.kind {
            self.faults.insert(fault, event.at_ms);
        }
        let EventKind::Applied(applied) = &event.kind else { return };
        for message in applied.published.iter().filter(|message| message.channel == b"ff:due") {
            let text = String::from_utf8_lossy(&message.payload);
            let Some((tag, wait)) = text.split_once(' ') else { continue };
            let wait: u64 = wait.parse().unwrap_or(0);
            self.told.insert(tag.to_owned(), event.at_ms + wait);
        }
        if let Some(tag) = looked_at(applied) {
            self.looked.insert((event.actor, tag), event.at_ms);
        }
    }

    /// Since when the engine of this event has slept, if it looks at a partition after a sleep.
    pub(super) fn slept_since(&self, event: &Event) -> Option<u64> {
        let EventKind::Applied(applied) = &event.kind else { return None };
        let last = *self.looked.get(&(event.actor, looked_at(applied)?))?;
        (event.at_ms > last + SLEEP_MS).then_some(last)
    }

    /// Whether a fault was injected while the engine of this event slept.
    pub(super) fn slept_through(&self, event: &Event, fault: Fault) -> bool {
        let since = self.slept_since(event);
        since.is_some_and(|since| self.faults.get(&fault).is_some_and(|at| *at > since))
    }

    /// Whether an engine looks at a partition after a sleep, soon after the due time it was told.
    pub(super) fn was_woken(&self, event: &Event) -> bool {
        let EventKind::Applied(applied) = &event.kind else { return false };
        let told = looked_at(applied).and_then(|tag| self.told.get(&tag));
        self.slept_since(event).is_some()
            && told.is_some_and(|due| (*due..=due + SOON_MS).contains(&event.at_ms))
    }
}

/// The tag of the partition whose pages a call reads.
fn looked_at(applied: &Applied) -> Option<String> {
    let function = applied.argv.get(1)?;
    if function != b"ff_scan_partition" {
        return None;
    }
    let key = String::from_utf8_lossy(keys_of(&applied.argv).first()?).into_owned();
    let tag = key.get(key.find('{')?..=key.find('}')?)?;
    Some(tag.to_owned())
}
