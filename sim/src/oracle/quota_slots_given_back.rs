//! `QuotaSlotsGivenBack`

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::state::{EligibilityState, LifecyclePhase};

use super::call::Call;
use super::changes::ExecutionState;
use super::workers::{Workers, is_worker, lease_ms, round_trips};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Actor, Applied, Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "QuotaSlotsGivenBack",
    statement: "a healthy worker gives back the quota slots that it took: the engine need not",
    class: Class::Safety,
    checker: || Box::<QuotaSlotsGivenBack>::default(),
};

#[derive(Default)]
struct QuotaSlotsGivenBack {
    workers: Workers,
    slots: BTreeMap<(Key, ExecutionId), Slot>,
    /// Executions that need no slot: since when, and whether that came from others than the holder
    /// of their lease.
    unneeding: BTreeMap<ExecutionId, (u64, bool)>,
}

/// A slot that a worker took.
struct Slot {
    by: Actor,
    since_ms: u64,
}

impl Checker for QuotaSlotsGivenBack {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        for change in &changes.executions {
            if !change.is.as_ref().is_none_or(needs_no_slot) {
                self.unneeding.remove(&change.of);
            } else {
                let holder = self.workers.held.get(&change.of);
                let taken = holder.is_some_and(|holder| holder.by != event.actor);
                self.unneeding.entry(change.of.clone()).or_insert((event.at_ms, taken));
            }
        }
        self.workers.on_event(event, changes);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others are about no slot")]
        match &event.kind {
            EventKind::Died => self.slots.retain(|_, slot| slot.by != event.actor),
            EventKind::CommitsLost { .. } => self.slots.clear(),
            EventKind::Applied(applied) if !applied.superseded => {
                self.on_call(event, applied, view, findings);
            }
            _ => {}
        }
    }
}

impl QuotaSlotsGivenBack {
    fn on_call(
        &mut self,
        event: &Event,
        applied: &Applied,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let Some(call) = Call::of(applied) else { return };
        let (Some(quota), Some(id)) = (call.key("admitted_set"), call.execution()) else { return };
        match call.function {
            "check_admission_and_record" => {
                let admitted =
                    applied.answer.says("ADMITTED") || applied.answer.says("ALREADY_ADMITTED");
                if let (true, Some(by)) = (admitted, self.workers.sender_of(applied.call)) {
                    self.slots.insert((quota, id), Slot { by, since_ms: event.at_ms });
                }
            }
            "release_admission" if applied.answer.is_done() => {
                let Some(slot) = self.slots.remove(&(quota, id.clone())) else { return };
                if !is_worker(event.actor) {
                    self.judge(&id, &slot, event.at_ms, view, findings);
                }
            }
            _ => {}
        }
    }

    /// The engine took a slot back.
    fn judge(
        &self,
        id: &ExecutionId,
        slot: &Slot,
        now_ms: u64,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let Some((unneeded_ms, taken)) = self.unneeding.get(id) else { return };
        let config = view.config;
        let mut soon_ms = SLACK_MS + 2 * config.patience.0 + round_trips(config, ROUND_TRIPS);
        if *taken {
            // It learns of the end with its next renewal, and a handler may go on for a while.
            soon_ms += HANDLER_LEASES * lease_ms(config);
        }
        let late_ms = now_ms.saturating_sub((*unneeded_ms).max(slot.since_ms));
        if late_ms > soon_ms && self.workers.was_well(slot.by, slot.since_ms, view) {
            let by = slot.by;
            let what = format!("had a slot that {by} did not give back within {late_ms} ms");
            findings.add(view, id, what);
        }
    }
}

/// Whether an execution in this state neither runs nor can be claimed.
fn needs_no_slot(is: &ExecutionState) -> bool {
    is.vector.is_some_and(|vector| match vector.phase {
        LifecyclePhase::Terminal | LifecyclePhase::Suspended => true,
        LifecyclePhase::Runnable => vector.eligibility != EligibilityState::EligibleNow,
        LifecyclePhase::Submitted | LifecyclePhase::Active => false,
    })
}

/// Pauses between repeats.
const SLACK_MS: u64 = 3_000;
/// Round trips of a report, a read and a release.
const ROUND_TRIPS: u64 = 8;
/// How many leases a handler may work on after it was told to stop, with one to learn of it.
const HANDLER_LEASES: u64 = 4;
