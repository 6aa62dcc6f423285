//! `SuccessIsTrue`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::admission::budget_ids;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::state::TerminalOutcome;

use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Claim, Event, EventKind};
use crate::world::engines::partition_counts;

pub(super) const ORACLE: Oracle = Oracle {
    name: "SuccessIsTrue",
    statement: "what a client's procedure reports as done is done, under limits that exist",
    class: Class::Safety,
    checker: || Box::<SuccessIsTrue>::default(),
};

#[derive(Default)]
struct SuccessIsTrue {
    executions: BTreeMap<ExecutionId, Seen>,
    /// Reports that nothing shows to be true, and when they were made. A replaced node may have
    /// done what was reported: its losses are known at the end.
    doubtful: Vec<(ExecutionId, String, u64)>,
}

/// What an execution went through.
#[derive(Default)]
struct Seen {
    outcomes: BTreeSet<TerminalOutcome>,
    was_replayed: bool,
}

impl Checker for SuccessIsTrue {
    fn on_event(&mut self, event: &Event, changes: &Changes, view: &View<'_>, _: &mut Findings) {
        for change in &changes.executions {
            let Some(is) = &change.is else { continue };
            let seen = self.executions.entry(change.of.clone()).or_default();
            seen.outcomes.extend(is.vector.map(|vector| vector.outcome));
            let had_ended = change.was.as_ref().is_some_and(|was| was.is_terminal());
            seen.was_replayed |= had_ended && !is.is_terminal();
        }
        if let EventKind::Succeeded { claim, executions } = &event.kind {
            for id in executions {
                let wrong = self.wrong(*claim, id, view);
                self.doubtful.extend(wrong.map(|what| (id.clone(), what, event.at_ms)));
            }
        }
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        for (id, what, told_ms) in &self.doubtful {
            findings.add_or_lost(view, id, what.clone(), (id, *told_ms));
        }
    }
}

impl SuccessIsTrue {
    /// What is wrong with a report about an execution.
    fn wrong(&self, claim: Claim, id: &ExecutionId, view: &View<'_>) -> Option<String> {
        let Some(seen) = self.executions.get(id) else {
            return Some(format!("was reported as {claim:?}, but never existed"));
        };
        match claim {
            Claim::Submitted | Claim::Created => {
                // It may have been purged since.
                let found = view.of(id.partition()).execution(id)?;
                if !found.core.text("unsealed").is_empty() {
                    return Some("was reported as Submitted, but still waits for the seal".into());
                }
                let counts = partition_counts(view.config);
                let missing = budget_ids(found.core.text("budget_ids")).find(|id| {
                    let partition = counts.of_budget(*id);
                    let record = Key::budget(partition, *id).record();
                    view.of(partition).hash(&record).is_none()
                });
                missing.map(|budget| format!("was started under budget {budget}, which is missing"))
            }
            Claim::Cancelled => {
                let was_cancelled = seen.outcomes.contains(&TerminalOutcome::Cancelled);
                (!was_cancelled).then(|| "was reported as Cancelled, but never was".to_owned())
            }
            Claim::Replayed => {
                (!seen.was_replayed).then(|| "was reported as Replayed, but never was".to_owned())
            }
        }
    }
}
