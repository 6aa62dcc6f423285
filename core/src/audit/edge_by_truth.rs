//! `EdgeByTruth`: what a state can show of it. Whether an edge took the outcome of its upstream,
//! only a history can tell.

use alloc::format;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::ExecutionPart;
use crate::state::TerminalOutcome;

pub(super) const ORACLE: Oracle = Oracle {
    name: "EdgeByTruth",
    statement: "a child is skipped only if its edges cannot be met",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(execution) = subject.execution_in(snapshot) else { return };
    let skipped = execution.vector().is_ok_and(|vector| vector.outcome == TerminalOutcome::Skipped);
    if !skipped || execution.is_being_purged() {
        return;
    }
    let group = snapshot.group_of(&execution).and_then(|(_, group)| group);
    if let Some(group) = group
        && matches!(group.text("policy_variant"), "any_of" | "quorum")
    {
        let state = group.text("group_state");
        return findings.expect(state == "impossible", execution.id, || {
            format!("is skipped, its group is {state}")
        });
    }
    let lost = snapshot.of_execution(execution.id).any(|(part, entry)| {
        matches!(part, ExecutionPart::Dependency(_))
            && entry.fields().is_some_and(|edge| edge.text("state") == "impossible")
    });
    findings.expect(lost, execution.id, || "is skipped, none of its edges is lost".into());
}
