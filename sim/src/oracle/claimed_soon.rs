//! `ClaimedSoon`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::slot;
use selvedge_core::state::{EligibilityState, LifecyclePhase};

use super::call::Answer;
use super::changes::ExecutionState;
use super::only_what_suits::suits;
use super::workers::{Workers, is_worker, round_trips};
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Actor, Event, EventKind, HandlerStep, keys_of};

pub(super) const ORACLE: Oracle = Oracle {
    name: "ClaimedSoon",
    statement: "what becomes eligible is claimed at once by a healthy worker that takes it and has a \
                free permit: it does not wait for a poll",
    class: Class::Liveness,
    checker: || Box::<ClaimedSoon>::default(),
};

#[derive(Default)]
struct ClaimedSoon {
    workers: Workers,
    /// Eligible executions, and since when.
    waiting: BTreeMap<ExecutionId, u64>,
    /// When to look at them.
    alarms: BTreeSet<(u64, ExecutionId)>,
    /// How many handlers each worker may run.
    capacity: BTreeMap<Actor, u64>,
    /// How many run.
    running: BTreeMap<Actor, u64>,
    /// Until when a worker had no free permit.
    full_until: BTreeMap<Actor, u64>,
    /// When a call of a worker last failed at a server, by shard.
    failed_ms: BTreeMap<usize, u64>,
}

impl Checker for ClaimedSoon {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if !view.config.push {
            return;
        }
        self.note_full(event.at_ms);
        self.workers.on_event(event, changes);
        self.on_worker(event);
        for change in &changes.executions {
            match &change.is {
                Some(is) if is_eligible(is) => {
                    let since = self.waiting.entry(change.of.clone()).or_insert(event.at_ms);
                    self.alarms.insert((*since + soon_ms(view), change.of.clone()));
                }
                Some(_) | None => drop(self.waiting.remove(&change.of)),
            }
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others do not delay a claim")]
        match &event.kind {
            EventKind::CommitsLost { .. } => self.waiting.clear(),
            EventKind::Applied(applied) if matches!(applied.answer, Answer::Raised(_)) => {
                let slot = keys_of(&applied.argv).first().map(|key| slot(key));
                let shard = slot.map_or(0, |slot| shard_of(slot, view));
                self.failed_ms.insert(shard, event.at_ms);
            }
            _ => {}
        }
        self.look(event.at_ms, view, findings);
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        self.look(view.now_ms, view, findings);
    }
}

impl ClaimedSoon {
    fn on_worker(&mut self, event: &Event) {
        if !is_worker(event.actor) {
            return;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others change no permits")]
        match &event.kind {
            EventKind::Capacity(capacity) => {
                self.capacity.insert(event.actor, *capacity);
            }
            EventKind::Handler { step, .. } => {
                let running = self.running.entry(event.actor).or_default();
                match step {
                    HandlerStep::Started => *running += 1,
                    HandlerStep::CancelRequested => {}
                    HandlerStep::Ended => *running = running.saturating_sub(1),
                }
            }
            EventKind::Died => {
                self.running.remove(&event.actor);
                self.capacity.remove(&event.actor);
            }
            _ => {}
        }
    }

    /// Notes which workers have no free permit now.
    fn note_full(&mut self, now_ms: u64) {
        for (worker, capacity) in &self.capacity {
            let held = self.workers.held.values().filter(|holder| holder.by == *worker).count();
            let held = u64::try_from(held).unwrap_or(u64::MAX);
            if held.max(self.running.get(worker).copied().unwrap_or(0)) >= *capacity {
                self.full_until.insert(*worker, now_ms);
            }
        }
    }

    /// Reports executions that wait too long, each once.
    fn look(&mut self, now_ms: u64, view: &View<'_>, findings: &mut Findings) {
        while self.alarms.first().is_some_and(|(at_ms, _)| *at_ms < now_ms) {
            let Some((_, id)) = self.alarms.pop_first() else { return };
            let Some(since_ms) = self.waiting.get(&id).copied() else { continue };
            let Some((worker, free_ms)) = self.free_since(&id, view) else {
                self.alarms.insert((now_ms + soon_ms(view), id));
                continue;
            };
            let shard = shard_of(id.partition().slot(), view);
            let failed_ms = self.failed_ms.get(&shard).copied().unwrap_or(0);
            let hurt_ms = view.disturbed_until_ms.max((view.slow_until)(shard)).max(failed_ms);
            let since_ms = since_ms.max(free_ms).max(hurt_ms);
            let late_ms = since_ms.saturating_add(soon_ms(view));
            let late_ms = late_ms.saturating_add(pass_ms(&id, view));
            if late_ms >= now_ms {
                self.alarms.insert((late_ms, id));
            } else if all_are_plain(worker, &id, view) {
                let waited = now_ms - since_ms;
                let what = format!("is eligible for {waited} ms while {worker} has a free permit");
                findings.add(view, &id, what);
            } else {
                // Those that are in its way take their time.
                self.waiting.insert(id.clone(), now_ms);
                self.alarms.insert((now_ms + soon_ms(view), id));
            }
        }
    }

    /// Which worker that takes an execution has a free permit, and since when; none if none has.
    fn free_since(&self, id: &ExecutionId, view: &View<'_>) -> Option<(Actor, u64)> {
        let up = self.workers.up_since.iter().filter(|(worker, _)| {
            if !is_worker(**worker) || !suits(**worker, id, view) {
                return false;
            }
            let capacity = self.capacity.get(worker).copied().unwrap_or(0);
            let held = self.workers.held.values().filter(|holder| holder.by == **worker).count();
            let running = self.running.get(worker).copied().unwrap_or(0);
            u64::try_from(held).unwrap_or(u64::MAX).max(running) < capacity
        });
        let since = |(worker, up_ms): (&Actor, &u64)| {
            (*worker, (*up_ms).max(self.full_until.get(worker).copied().unwrap_or(0)))
        };
        up.map(since).min_by_key(|(_, since_ms)| *since_ms)
    }
}

fn is_eligible(is: &ExecutionState) -> bool {
    is.vector.is_some_and(|vector| {
        vector.phase == LifecyclePhase::Runnable
            && vector.eligibility == EligibilityState::EligibleNow
    })
}

fn shard_of(slot: u16, view: &View<'_>) -> usize {
    (view.owners)(slot).min(view.shards.len() - 1)
}

/// Whether it, and all others in its place that the worker takes, can be claimed without an
/// admission, and the worker can run all of them at once.
fn all_are_plain(worker: Actor, id: &ExecutionId, view: &View<'_>) -> bool {
    let Some(place) = place_of(id, view) else { return false };
    let members = place.keys().map(|member| member.parse::<ExecutionId>());
    let mut own = 0;
    for member in members {
        let Ok(member) = member else { return false };
        if suits(worker, &member, view) {
            own += 1;
            if own > view.config.capacity || !is_plain(&member, view) {
                return false;
            }
        }
    }
    place.contains_key(&id.to_string())
}

/// All that is eligible where it is.
fn place_of<'a>(id: &ExecutionId, view: &'a View<'_>) -> Option<&'a BTreeMap<String, f64>> {
    let snapshot = view.of(id.partition());
    let lane = snapshot.execution(id)?.core.text("lane_id").parse().ok()?;
    Some(snapshot.zset(&Key::index(id.partition()).lane(&lane, LaneIndex::Eligible)))
}

/// How long a worker may take to look at all that is eligible there, and to rest after that.
fn pass_ms(id: &ExecutionId, view: &View<'_>) -> u64 {
    let looks = place_of(id, view).map_or(0, |place| place.len() as u64 / LOOKED_AT);
    2 * (round_trips(view.config, looks) + REST_PER_LOOK_MS * looks)
}

/// Candidates that a claim looks at.
const LOOKED_AT: u64 = 64;
/// How long a worker rests for each call that has found nothing.
const REST_PER_LOOK_MS: u64 = 10;

fn is_plain(id: &ExecutionId, view: &View<'_>) -> bool {
    let snapshot = view.of(id.partition());
    let Some(execution) = snapshot.execution(id) else { return false };
    let needs = ["required_capabilities", "budget_ids", "quota_policy_id", "unsealed"];
    let flow = execution.core.text("flow_id").parse::<FlowId>().ok();
    let flow = flow.and_then(|flow| snapshot.hash(&Key::flow(id.partition(), flow).core()));
    let of_cancelled_flow = flow.is_some_and(|core| core.text("public_flow_state") == "cancelled");
    needs.iter().all(|field| execution.core.text(field).is_empty()) && !of_cancelled_flow
}

fn soon_ms(view: &View<'_>) -> u64 {
    SLACK_MS + round_trips(view.config, ROUND_TRIPS)
}

/// Claims that found nothing, one after the other, and pauses.
const SLACK_MS: u64 = 3_000;
/// Round trips of a survey, of claims that page through candidates, and of the last claim.
const ROUND_TRIPS: u64 = 12;
