//! `SuspendedHasWaker`

use alloc::format;
use alloc::string::String;

use super::{Execution, Findings, Oracle, Snapshot};
use crate::id::WaitpointId;
use crate::key::{ExecutionPart, Key, PartitionIndex, WaitpointPart};
use crate::state::LifecyclePhase;

pub(super) const ORACLE: Oracle = Oracle {
    name: "SuspendedHasWaker",
    statement: "every suspended execution has an open waitpoint with an open condition, or a \
                timeout; nothing else has an open suspension or an active waitpoint",
    look,
};

fn look(snapshot: &Snapshot, findings: &mut Findings) {
    for execution in snapshot.executions() {
        let suspended =
            execution.core.text("lifecycle_phase") == LifecyclePhase::Suspended.as_str();
        let open = open_suspension(snapshot, &execution);
        findings.expect(open.is_some() == suspended, execution.id, || {
            format!("suspended: {suspended}, suspension open: {}", open.is_some())
        });
        if let (true, Some(suspension)) = (suspended, open) {
            let timed = suspension.number("timeout_at") > 0;
            findings.expect(
                timed || can_be_signalled(snapshot, &execution, suspension.text("waitpoint_id")),
                execution.id,
                || String::from("nothing can wake it"),
            );
        }
    }
    waitpoints(snapshot, findings);
}

fn open_suspension<'a>(
    snapshot: &'a Snapshot,
    execution: &Execution<'_>,
) -> Option<super::Fields<'a>> {
    let key = Key::Execution(execution.id.clone(), ExecutionPart::Suspension);
    snapshot.hash(&key).filter(|suspension| {
        !suspension.text("suspension_id").is_empty() && suspension.text("closed_at").is_empty()
    })
}

fn can_be_signalled(snapshot: &Snapshot, execution: &Execution<'_>, waitpoint: &str) -> bool {
    let Ok(id) = waitpoint.parse::<WaitpointId>() else { return false };
    let partition = execution.partition();
    let active = snapshot
        .hash(&Key::waitpoint(partition, id))
        .is_some_and(|record| record.text("state") == "active");
    let condition = snapshot.hash(&Key::waitpoint_condition(partition, id));
    active && condition.is_some_and(|condition| condition.text("closed") == "0")
}

fn waitpoints(snapshot: &Snapshot, findings: &mut Findings) {
    for (key, _) in snapshot.iter() {
        let Key::Waitpoint(partition, id, WaitpointPart::Record) = key else { continue };
        let Some(record) = snapshot.hash(key) else { continue };
        let id = alloc::string::ToString::to_string(id);
        match record.text("state") {
            "active" => {
                let owner = record.text("execution_id").parse();
                let open = owner.is_ok_and(|owner| {
                    snapshot.execution(&owner).is_some_and(|execution| {
                        open_suspension(snapshot, &execution).is_some_and(|suspension| {
                            suspension.text("suspension_id") == record.text("suspension_id")
                        })
                    })
                });
                findings.expect(open, key, || String::from("is active without its suspension"));
            }
            "pending" => {
                let index = snapshot.index(*partition, PartitionIndex::PendingWaitpointExpiry);
                findings.expect(index.contains_key(&id), key, || {
                    String::from("is pending, and nobody will close it")
                });
            }
            _ => {}
        }
    }
}
