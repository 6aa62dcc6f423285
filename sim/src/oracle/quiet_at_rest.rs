//! `QuietAtRest`: at rest only idle reads remain, and further cycles change nothing.

use std::collections::BTreeSet;

use selvedge_core::key::Key;

use super::call::{Answer, Call};
use super::changes::{Change, Group};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Actor, Event, EventKind, Phase};

pub(super) const ORACLE: Oracle = Oracle {
    name: "QuietAtRest",
    statement: "at rest only idle reads remain, and further cycles change nothing",
    class: Class::Liveness,
    checker: || Box::<QuietAtRest>::default(),
};

/// Calls per second that an engine may make for each partition: most of the seventeen scanners run
/// every second or less often, with one page each.
const CALLS_PER_SECOND: u64 = 60;

/// Calls that are also due at rest: purges, resets and summaries.
const HOUSEKEEPING: [&str; 9] = [
    "purge_execution",
    "purge_executions",
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
    /// The number of executions: one scanner visits all of them in each cycle.
    records: u64,
    /// Groups that got siblings to cancel from edges closed at rest.
    now_pending: BTreeSet<Key>,
}

impl Checker for QuietAtRest {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if matches!(event.kind, EventKind::Phase(Phase::Rest)) {
            self.since_ms = Some(event.at_ms + view.config.dispatch_ms(view.shards));
            self.records = view.shards.iter().map(|shard| shard.executions().count() as u64).sum();
        }
        let (Some(since), EventKind::Applied(applied)) = (self.since_ms, &event.kind) else {
            return;
        };
        if !matches!(event.actor, Actor::Engine(_)) {
            // A late write of a client gives the engines new work.
            if !applied.writes.is_empty() {
                (self.since_ms, self.calls) = (Some(since.max(event.at_ms)), 0);
            }
            return;
        }
        let function = Call::of(applied).map_or("a command", |call| call.function);
        let closing = closes_edges(function, &applied.answer);
        if closing {
            self.now_pending.extend(changes.groups.iter().filter_map(now_pending));
        }
        let clearing = self.clears_group(changes);
        // The first cycle may still find work; the second must not.
        let since = since + view.config.cycle_ms();
        if event.at_ms < since {
            return;
        }
        self.calls += 1;
        let due = HOUSEKEEPING.contains(&function) || closing || clearing;
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
        let cycles = seconds * 1_000 / interval_ms + 1;
        let allowed = seconds * each * partitions.max(1) + cycles * self.records;
        let allowed = allowed * view.config.engines.max(1);
        if self.calls > allowed && !self.told {
            self.told = true;
            let calls = self.calls;
            findings.add(view, "engines", format!("made {calls} calls in {seconds} s of rest"));
        }
    }
}

impl QuietAtRest {
    /// Whether a call only cleared a group that got siblings to cancel at rest, all of which had
    /// ended. This is allowed once for each.
    fn clears_group(&mut self, changes: &Changes) -> bool {
        let [Change { of, was: Some(was), is }] = &changes.groups[..] else { return false };
        let taken = was.cancels_pending && is.as_ref().is_none_or(|is| !is.cancels_pending);
        taken && changes.executions.is_empty() && self.now_pending.remove(of)
    }
}

/// A group with siblings to cancel from now on.
fn now_pending(change: &Change<Key, Group>) -> Option<Key> {
    let cancels_pending =
        |group: &Option<Group>| group.as_ref().is_some_and(|group| group.cancels_pending);
    (cancels_pending(&change.is) && !cancels_pending(&change.was)).then(|| change.of.clone())
}

/// Whether a dispatch only closed edges of children that had ended. An engine with one batch in
/// flight may do this long after everything else has come to rest.
fn closes_edges(function: &str, answer: &Answer) -> bool {
    let Answer::Done(words) = answer else { return false };
    let woken = words.get(5..7).is_some_and(|counts| counts.iter().any(|count| *count != "0"));
    function == "resolve_outgoing" && !woken
}
