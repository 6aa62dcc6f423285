//! `QuietAtRest`

use std::collections::BTreeSet;

use selvedge_core::key::Key;

use super::call::{Answer, Call};
use super::scene::{Change, Group};
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Actor, Event, Phase, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "QuietAtRest",
    statement: "at rest only idle reads remain, and further cycles change nothing",
    class: Class::Liveness,
    judge: || Box::<QuietAtRest>::default(),
};

/// Calls that one engine may make in a second of rest, on each partition: seventeen scanners, most
/// of them every second or less often, and a page each.
const CALLS_PER_SECOND: u64 = 60;

/// What has its time at rest too: old records are purged, periods end, summaries tell the time.
const HOUSEKEEPING: [&str; 8] = [
    "purge_execution",
    "purge_flow",
    "project_flow",
    "reset_budget_if_due",
    "reconcile_budget",
    "forget_ledger",
    "reconcile_quota",
    "expire_pending_waitpoint_if_due",
];

#[derive(Default)]
struct QuietAtRest {
    calls: u64,
    since_ms: Option<u64>,
    told: bool,
    /// How many executions there are: one scanner looks at every one of them in each round.
    records: u64,
    /// Groups that books closed at rest left a note for.
    noted: BTreeSet<Key>,
}

impl Judge for QuietAtRest {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        if matches!(event.what, What::Phase(Phase::Rest)) {
            self.since_ms = Some(event.at_ms + view.config.dispatch_ms(view.shards));
            self.records = view.shards.iter().map(|shard| shard.executions().count() as u64).sum();
        }
        let (Some(since), What::Applied(applied)) = (self.since_ms, &event.what) else { return };
        if !matches!(event.actor, Actor::Engine(_)) {
            // Whoever comes late gives the engines something to do, and the rest begins anew.
            if !applied.writes.is_empty() {
                (self.since_ms, self.calls) = (Some(since.max(event.at_ms)), 0);
            }
            return;
        }
        let function = Call::of(applied).map_or("a command", |call| call.function);
        let closing = closes_books(function, &applied.answer);
        if closing {
            self.noted.extend(scene.groups.iter().filter_map(noted));
        }
        let paying = self.takes_a_note(scene);
        // The first cycle may find what is left to do; the second must not.
        let since = since + view.config.cycle_ms();
        if event.at_ms < since {
            return;
        }
        self.calls += 1;
        let due = HOUSEKEEPING.contains(&function) || closing || paying;
        if !applied.writes.is_empty() && !due {
            let answer = &applied.answer;
            findings.add(view, function, format!("still writes at rest: {answer:?}"));
        }
        let partitions = view.config.flow_partitions
            + view.config.budget_partitions
            + view.config.quota_partitions;
        let seconds = 5 + (event.at_ms - since) / 1000;
        let interval_ms = view.config.interval.0.max(100);
        let each = CALLS_PER_SECOND + 20_000 / interval_ms;
        let rounds = seconds * 1_000 / interval_ms + 1;
        let allowed = seconds * each * partitions.max(1) + rounds * self.records;
        let allowed = allowed * view.config.engines.max(1);
        if self.calls > allowed && !self.told {
            self.told = true;
            let calls = self.calls;
            findings.add(view, "engines", format!("made {calls} calls in {seconds} s of rest"));
        }
    }
}

impl QuietAtRest {
    /// Whether a call did nothing but take a note away that closed books had left at rest: nobody
    /// was left to be cancelled. Each is taken once, and must be in the end.
    fn takes_a_note(&mut self, scene: &Scene) -> bool {
        let [Change { of, was: Some(was), is }] = &scene.groups[..] else { return false };
        let taken = was.owes && is.as_ref().is_none_or(|is| !is.owes);
        taken && scene.executions.is_empty() && self.noted.remove(of)
    }
}

/// The group that owes cancels from now on.
fn noted(change: &Change<Key, Group>) -> Option<Key> {
    let owes = |group: &Option<Group>| group.as_ref().is_some_and(|group| group.owes);
    (owes(&change.is) && !owes(&change.was)).then(|| change.of.clone())
}

/// Whether a dispatch only closed edges of children that had ended. An engine with one batch in
/// flight may come to these long after everybody else has come to rest.
fn closes_books(function: &str, answer: &Answer) -> bool {
    let Answer::Done(words) = answer else { return false };
    let woken = words.get(5..7).is_some_and(|counts| counts.iter().any(|count| *count != "0"));
    function == "resolve_outgoing" && !woken
}
