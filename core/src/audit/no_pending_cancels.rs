//! `NoPendingCancels`: no cancel is pending, and no edge of an ended upstream is open.

use alloc::format;
use alloc::vec::Vec;

use super::{Execution, Fields, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::ExecutionId;
use crate::key::{ExecutionPart, FlowPart, Key};
use crate::state::TerminalOutcome;

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoPendingCancels",
    statement: "no cancel is pending, and no edge of an ended upstream is open",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Execution(_) => {
            if let Some(execution) = subject.execution_in(snapshot)
                && execution.vector().is_ok_and(|vector| !vector.is_terminal())
            {
                edges(snapshot, &execution, findings);
            }
        }
        Subject::Flow(partition, id) => {
            let key = Key::flow(*partition, *id).pending_cancels();
            let owed = snapshot.set(&key);
            findings.expect(owed.is_empty(), &key, || {
                let members: Vec<_> = owed.iter().cloned().collect();
                format!("these members were never cancelled: {}", members.join(", "))
            });
        }
        Subject::Key(key @ Key::Flow(_, _, FlowPart::EdgeGroup(_))) => {
            let owing = |group: &Fields<'_>| group.text("cancel_siblings_pending_flag") == "true";
            if let Some(group) = snapshot.hash(key).filter(owing) {
                findings.add(
                    key,
                    format!(
                        "has pending cancels of siblings: {}",
                        owed(snapshot, group).join(", ")
                    ),
                );
            }
        }
        Subject::Key(_) | Subject::ForeignKey(_) => {}
    }
}

/// The siblings that a group has yet to cancel: those that have not ended.
fn owed<'a>(snapshot: &Snapshot, group: Fields<'a>) -> Vec<&'a str> {
    let names = group.text("cancel_siblings_pending_members").split('|');
    let live = |name: &&str| {
        let sibling = name.parse::<ExecutionId>();
        let ended = |one: Execution<'_>| one.vector().is_ok_and(|vector| vector.is_terminal());
        sibling.is_ok_and(|id| snapshot.execution(&id).is_some_and(|one| !ended(one)))
    };
    names.filter(live).collect()
}

/// Every open edge has an upstream that still runs, or whose end it outlived by a replay of its
/// child. Once an any-of or quorum group has its verdict, nobody waits for its other edges.
fn edges(snapshot: &Snapshot, child: &Execution<'_>, findings: &mut Findings) {
    let decided = snapshot.group_of(child).and_then(|(_, group)| group).is_some_and(|group| {
        group.text("policy_variant") != "all_of" && group.text("group_state") != "pending"
    });
    if decided {
        return;
    }
    for (part, entry) in snapshot.of_execution(child.id) {
        let (ExecutionPart::Dependency(edge), Some(dependency)) = (part, entry.fields()) else {
            continue;
        };
        let open = !matches!(dependency.text("state"), "satisfied" | "impossible");
        if open && let Some(ended) = ended_at(snapshot, dependency) {
            let owed = snapshot.is_overdue(ended);
            findings.expect(!owed, child.id, || {
                let upstream = dependency.text("upstream_execution_id");
                format!("the edge {edge} is open, its upstream {upstream} ended at {ended}")
            });
        }
    }
}

/// When the upstream of an edge ended, if it did and this end still counts.
fn ended_at(snapshot: &Snapshot, dependency: Fields<'_>) -> Option<i64> {
    let upstream: ExecutionId = dependency.text("upstream_execution_id").parse().ok()?;
    let upstream = snapshot.execution(&upstream)?;
    let vector = upstream.vector().ok().filter(|vector| vector.is_terminal())?;
    let run = dependency.text("outlived_run");
    let outlived = vector.outcome != TerminalOutcome::Success
        && !run.is_empty()
        && run.parse() == Ok(upstream.core.number("replay_count"));
    (!outlived).then(|| upstream.core.number("completed_at"))
}
