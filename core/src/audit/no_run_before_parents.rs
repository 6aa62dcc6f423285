//! `NoRunBeforeParents`: what a state can show of it. Whether an attempt started too early, only a
//! history can tell.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::ExecutionPart;
use crate::state::{EligibilityState, LifecyclePhase};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoRunBeforeParents",
    statement: "nothing that never ran can be claimed while an edge holds it",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(execution) = subject.execution_in(snapshot) else { return };
    let Ok(vector) = execution.vector() else { return };
    let claimable = vector.phase == LifecyclePhase::Runnable
        && vector.eligibility == EligibilityState::EligibleNow;
    // Edges that come when a child has run hold it no more.
    if !claimable || execution.core.number("total_attempt_count") > 0 {
        return;
    }
    let group = snapshot.group_of(&execution).and_then(|(_, group)| group);
    if group.is_some_and(|group| {
        group.text("policy_variant") != "all_of" && group.text("group_state") == "satisfied"
    }) {
        return;
    }
    let open: Vec<_> = snapshot
        .of_execution(execution.id)
        .filter_map(|(part, entry)| match part {
            ExecutionPart::Dependency(edge) if entry.fields()?.text("state") != "satisfied" => {
                Some(edge)
            }
            _ => None,
        })
        .collect();
    findings.expect(open.is_empty(), execution.id, || {
        let edges: Vec<_> = open.iter().map(ToString::to_string).collect();
        format!("can be claimed while these edges are open: {}", edges.join(", "))
    });
}
