//! `NoLostUpstream`: no child waits for an execution whose record is gone.

use alloc::format;

use super::{Execution, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::{ExecutionId, FlowId};
use crate::key::{ExecutionPart, Key};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoLostUpstream",
    statement: "no child waits for an execution whose record is gone",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(child) = subject.execution_in(snapshot) else { return };
    if !child.vector().is_ok_and(|vector| !vector.is_terminal()) || is_decided(snapshot, &child) {
        return;
    }
    for (part, entry) in snapshot.of_execution(child.id) {
        let (ExecutionPart::Dependency(edge), Some(dependency)) = (part, entry.fields()) else {
            continue;
        };
        let open = !matches!(dependency.text("state"), "satisfied" | "impossible");
        let Ok(upstream) = dependency.text("upstream_execution_id").parse() else { continue };
        let lost = open && is_lost(snapshot, &upstream, dependency.text("flow_id"));
        findings.expect(!lost, child.id, || {
            format!("waits for {upstream} (edge {edge}), whose record is gone")
        });
    }
}

/// Once an any-of or quorum group has its verdict, its other edges hold nobody.
fn is_decided(snapshot: &Snapshot, child: &Execution<'_>) -> bool {
    snapshot.group_of(child).and_then(|(_, group)| group).is_some_and(|group| {
        group.text("policy_variant") != "all_of" && group.text("group_state") != "pending"
    })
}

/// Whether an execution once had a record and has none. One that only an edge names may be created
/// yet.
fn is_lost(snapshot: &Snapshot, id: &ExecutionId, flow: &str) -> bool {
    let is_member = || {
        let flow = flow.parse::<FlowId>();
        flow.is_ok_and(|flow| {
            snapshot.set(&Key::flow(id.partition(), flow).members()).contains(id.as_str())
        })
    };
    !snapshot.holds(&Key::execution(id).core()) && is_member()
}
