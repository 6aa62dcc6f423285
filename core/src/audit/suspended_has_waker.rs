//! `SuspendedHasWaker`: every suspended execution has an open waitpoint with an open condition, or
//! a timeout; nothing else has an open suspension or an active waitpoint.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;

use super::{Execution, Fields, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::WaitpointId;
use crate::key::{ExecutionPart, Key, PartitionIndex, WaitpointPart};
use crate::state::LifecyclePhase;

pub(super) const ORACLE: Oracle = Oracle {
    name: "SuspendedHasWaker",
    statement: "every suspended execution has an open waitpoint with an open condition, or a \
                timeout; nothing else has an open suspension or an active waitpoint",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Execution(_) => {
            if let Some(execution) = subject.execution_in(snapshot) {
                suspension(snapshot, &execution, findings);
            }
        }
        Subject::Key(key @ Key::Waitpoint(partition, id, WaitpointPart::Record)) => {
            if let Some(record) = snapshot.hash(key) {
                let index = snapshot.index(*partition, PartitionIndex::PendingWaitpointExpiry);
                let closing = index.contains_key(&id.to_string());
                waitpoint(snapshot, key, record, closing, findings);
            }
        }
        Subject::Key(_) | Subject::Flow(..) | Subject::ForeignKey(_) => {}
    }
}

fn suspension(snapshot: &Snapshot, execution: &Execution<'_>, findings: &mut Findings) {
    let suspended = execution.core.text("lifecycle_phase") == LifecyclePhase::Suspended.as_str();
    let open = open_suspension(snapshot, execution);
    findings.expect(open.is_some() == suspended, execution.id, || {
        let what = match suspended {
            true => "is suspended, but the record of its suspension is gone or closed",
            false => "is not suspended, but has an open suspension",
        };
        String::from(what)
    });
    if let (true, Some(suspension)) = (suspended, open) {
        let timed = suspension.number("timeout_at") > 0;
        let waitpoint = suspension.text("waitpoint_id");
        findings.expect(
            timed || can_be_signalled(snapshot, execution, suspension),
            execution.id,
            || {
                format!(
                    "nothing can resume it: its waitpoint `{waitpoint}`, its token or its \
                     condition is closed or missing"
                )
            },
        );
    }
}

fn open_suspension<'a>(snapshot: &'a Snapshot, execution: &Execution<'_>) -> Option<Fields<'a>> {
    let key = Key::Execution(execution.id.clone(), ExecutionPart::Suspension);
    snapshot.hash(&key).filter(|suspension| {
        !suspension.text("suspension_id").is_empty() && suspension.text("closed_at").is_empty()
    })
}

fn can_be_signalled(
    snapshot: &Snapshot,
    execution: &Execution<'_>,
    suspension: Fields<'_>,
) -> bool {
    let Ok(id) = suspension.text("waitpoint_id").parse::<WaitpointId>() else { return false };
    let partition = execution.partition();
    let active = snapshot.hash(&Key::waitpoint(partition, id)).is_some_and(|record| {
        record.text("state") == "active" && !record.text("waitpoint_token").is_empty()
    });
    let condition = snapshot.hash(&Key::waitpoint_condition(partition, id));
    active
        && condition
            .is_some_and(|condition| can_be_met(condition) && waits_as_asked(condition, suspension))
}

/// The part of what a handler asked for when it suspended that names the signals.
#[derive(Deserialize)]
struct Asked {
    required_signal_names: Vec<String>,
}

/// Whether a condition waits for signals that the handler has named; true if that is unknown.
fn waits_as_asked(condition: Fields<'_>, suspension: Fields<'_>) -> bool {
    let asked = serde_json::from_str::<Asked>(suspension.text("resume_condition_json"));
    let Ok(Asked { required_signal_names }) = asked else { return true };
    (0..condition.number("total_matchers").min(MATCHERS_MAX)).all(|index| {
        let name = condition.text(&format!("matcher:{index}:name"));
        name.is_empty() || required_signal_names.iter().any(|asked| asked == name)
    })
}

/// Most signals that are compared.
const MATCHERS_MAX: i64 = 100;

/// Whether a condition is open and says what meets it.
fn can_be_met(condition: Fields<'_>) -> bool {
    let composite = condition.text("composite") == "1" && !condition.text("tree_json").is_empty();
    condition.text("closed") == "0" && (composite || condition.number("total_matchers") > 0)
}

fn waitpoint(
    snapshot: &Snapshot,
    key: &Key,
    record: Fields<'_>,
    closing: bool,
    findings: &mut Findings,
) {
    match record.text("state") {
        "active" => {
            let owner = record.text("execution_id");
            let open = owner.parse().is_ok_and(|owner| {
                snapshot.execution(&owner).is_some_and(|execution| {
                    open_suspension(snapshot, &execution).is_some_and(|suspension| {
                        suspension.text("suspension_id") == record.text("suspension_id")
                    })
                })
            });
            findings.expect(open, key, || format!("is active, `{owner}` is not suspended on it"));
        }
        "pending" => {
            findings.expect(closing, key, || String::from("is pending, and nobody will close it"))
        }
        _ => {}
    }
}
