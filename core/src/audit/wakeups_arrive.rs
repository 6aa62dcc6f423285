//! `WakeupsArrive`: no execution whose dependencies are met is blocked, even if every push is lost.

use alloc::string::String;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::Key;
use crate::state::{EligibilityState, LifecyclePhase};

pub(super) const ORACLE: Oracle = Oracle {
    name: "WakeupsArrive",
    statement: "no execution whose dependencies are met is blocked, even if every push is lost",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(execution) = subject.execution_in(snapshot) else { return };
    let Ok(vector) = execution.vector() else { return };
    let blocked = vector.phase == LifecyclePhase::Runnable
        && vector.eligibility == EligibilityState::BlockedByDependencies;
    // While its flow is being submitted, the seal is what a member waits for.
    if !blocked || !execution.core.text("unsealed").is_empty() {
        return;
    }
    let group = snapshot.group_of(&execution).and_then(|(_, group)| group);
    let counted = group.filter(|group| group.text("policy_variant") != "all_of");
    let decided = match counted {
        // A quorum may wait for edges that are still to be added.
        Some(group) => group.text("group_state") != "pending",
        None => snapshot.set(&Key::execution(execution.id).dependencies_unresolved()).is_empty(),
    };
    let since = execution.core.number("last_transition_at");
    findings.expect(!decided || !snapshot.is_overdue(since), execution.id, || {
        String::from("is blocked, although its dependencies are decided")
    });
}
