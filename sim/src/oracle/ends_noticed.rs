//! `EndsNoticed`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::client::Wait;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;

use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Actor, Event, EventKind};
use crate::fault::Fault;

pub(super) const ORACLE: Oracle = Oracle {
    name: "EndsNoticed",
    statement: "a waiter notices the end of what it waits for, soon, and not before",
    class: Class::Liveness,
    checker: || Box::<EndsNoticed>::default(),
};

/// Pauses between repeats of a read, and the delay of a subscription.
const SLACK_MS: u64 = 4_000;
/// Round trips of a wait: members of a flow, page by page, and their records.
const ROUND_TRIPS: u64 = 8;

#[derive(Default)]
struct EndsNoticed {
    waits: BTreeMap<u64, Waiting>,
    /// All outcomes that an execution had.
    outcomes: BTreeMap<ExecutionId, BTreeSet<TerminalOutcome>>,
    /// Outcomes that a waiter read and nobody wrote, as far as is known now, and when.
    imagined: Vec<(ExecutionId, TerminalOutcome, u64)>,
    /// Until when pushes are lost without a gap.
    silent_until_ms: u64,
}

/// A wait.
struct Waiting {
    by: Actor,
    began_ms: u64,
    executions: BTreeSet<ExecutionId>,
    /// Those that have not ended, or were replayed.
    open: BTreeSet<ExecutionId>,
    /// When the last one ended.
    ended_ms: u64,
}

impl Checker for EndsNoticed {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        for change in &changes.executions {
            let outcome = change.is.as_ref().and_then(|is| is.vector).map(|vector| vector.outcome);
            let outcome = outcome.filter(|outcome| *outcome != TerminalOutcome::None);
            if let Some(outcome) = outcome {
                self.outcomes.entry(change.of.clone()).or_default().insert(outcome);
            }
            let gone = change.is.is_none();
            // What was purged cannot be waited for.
            self.waits.retain(|_, wait| !(gone && wait.executions.contains(&change.of)));
            for wait in self.waits.values_mut() {
                wait.changed(&change.of, outcome.is_some(), event.at_ms);
            }
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other events are about no wait")]
        match &event.kind {
            EventKind::Waits { waiter, executions } => {
                let wait = Waiting::begin(event, executions, view);
                self.waits.insert(*waiter, wait);
            }
            EventKind::WaitOver { waiter, ended } => {
                self.judge(*waiter, view, findings);
                self.waits.remove(waiter);
                self.compare(ended.as_deref().unwrap_or_default(), event.at_ms);
            }
            EventKind::Died => self.waits.retain(|_, wait| wait.by != event.actor),
            EventKind::Fault { fault: Fault::PushesSilent, .. } => {
                self.silent_until_ms = self.silent_until_ms.max(view.disturbed_until_ms);
            }
            // After a loss, work is done again: the records are read when it ends.
            EventKind::CommitsLost { .. } => {
                for wait in self.waits.values_mut() {
                    wait.look(event.at_ms, view);
                }
            }
            _ => {}
        }
        let late: Vec<u64> = self.waits.keys().copied().collect();
        for waiter in late {
            self.judge(waiter, view, findings);
        }
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        let waiters: Vec<u64> = self.waits.keys().copied().collect();
        for waiter in waiters {
            self.judge(waiter, view, findings);
        }
        for (id, outcome, told_ms) in &self.imagined {
            let had = self.outcomes.get(id).is_some_and(|had| had.contains(outcome));
            if !had {
                let what = format!("was noticed as {outcome}, which it never was");
                findings.add_or_lost(view, id, what, (id, *told_ms));
            }
        }
    }
}

impl EndsNoticed {
    /// Reports a wait that is late, once.
    fn judge(&mut self, waiter: u64, view: &View<'_>, findings: &mut Findings) {
        let Some(wait) = self.waits.get(&waiter) else { return };
        if !wait.open.is_empty() {
            return;
        }
        let slow = view.any_slow_until_ms();
        let since_ms = wait.ended_ms.max(wait.began_ms).max(view.disturbed_until_ms).max(slow);
        let config = view.config;
        let mut soon_ms = SLACK_MS + config.patience.0 + ROUND_TRIPS * 2 * config.link.0.to;
        if !config.push || wait.ended_ms <= self.silent_until_ms {
            soon_ms += u64::try_from(Wait::POLL_EVERY.as_millis()).unwrap_or(u64::MAX);
        }
        if view.now_ms > since_ms + soon_ms {
            let last = wait.executions.last().map(ToString::to_string).unwrap_or_default();
            let what = format!(
                "ended at {} ms, and {} has not noticed it {} ms later",
                wait.ended_ms,
                wait.by,
                view.now_ms - wait.ended_ms
            );
            findings.add(view, last, what);
            self.waits.remove(&waiter);
        }
    }

    /// Compares what a waiter read with what was written. A replaced node may have told it of
    /// writes that are lost later, so this is reported at the end.
    fn compare(&mut self, ended: &[(ExecutionId, TerminalOutcome)], told_ms: u64) {
        for (id, outcome) in ended {
            if !self.outcomes.get(id).is_some_and(|had| had.contains(outcome)) {
                self.imagined.push((id.clone(), *outcome, told_ms));
            }
        }
    }
}

impl Waiting {
    fn begin(event: &Event, executions: &[ExecutionId], view: &View<'_>) -> Self {
        let executions: BTreeSet<ExecutionId> = executions.iter().cloned().collect();
        let open = BTreeSet::new();
        let (began_ms, ended_ms) = (event.at_ms, event.at_ms);
        let mut wait = Self { by: event.actor, began_ms, executions, open, ended_ms };
        wait.look(event.at_ms, view);
        wait
    }

    /// Reads which of the executions have ended.
    fn look(&mut self, now_ms: u64, view: &View<'_>) {
        let is_open = |id: &&ExecutionId| {
            let found = view.of(id.partition()).execution(id);
            !found.is_some_and(|found| found.vector().is_ok_and(|vector| vector.is_terminal()))
        };
        self.open = self.executions.iter().filter(is_open).cloned().collect();
        self.ended_ms = now_ms;
    }

    fn changed(&mut self, id: &ExecutionId, has_ended: bool, now_ms: u64) {
        if !self.executions.contains(id) {
            return;
        }
        if !has_ended {
            self.open.insert(id.clone());
        } else if self.open.remove(id) {
            self.ended_ms = now_ms;
        }
    }
}
