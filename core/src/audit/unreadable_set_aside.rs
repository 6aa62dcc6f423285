//! `UnreadableSetAside`: whatever an index listed and nobody can read was set aside with a reason,
//! and nothing else was.

use alloc::format;
use alloc::string::String;

use super::subject::{lists_executions, tuple};
use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::{ExecutionId, FlowId, WaitpointId};
use crate::key::{IndexPart, Key, PartitionIndex};
use crate::partition::Partition;

pub(super) const ORACLE: Oracle = Oracle {
    name: "UnreadableSetAside",
    statement: "whatever an index listed and nobody can read was set aside with a reason, and \
                nothing else was",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Key(key @ Key::Index(partition, part)) => {
            let members = snapshot.zset(key).keys().chain(snapshot.set(key));
            for member in members.filter(|member| is_due(snapshot, key, member)) {
                findings.expect(is_readable(*partition, part, member), key, || {
                    format!("still lists `{}`", member.escape_default())
                });
            }
        }
        Subject::Key(key @ Key::Aside(partition)) => {
            let Some(entries) = snapshot.hash(key) else { return };
            for (entry, reason) in entries.iter() {
                findings.expect(!reason.is_empty(), key, || format!("no reason for `{entry}`"));
                let (index, member) = entry.split_once(' ').unwrap_or((entry, ""));
                let sound = matches!(
                    index.parse(),
                    Ok(Key::Index(_, part)) if is_readable(*partition, &part, member)
                );
                findings.expect(!sound, key, || format!("`{entry}` could be read"));
            }
        }
        Subject::Key(_) | Subject::Execution(_) | Subject::Flow(..) | Subject::ForeignKey(_) => {}
    }
}

/// The entries of an index that cannot be read.
pub fn unreadable_entries<'a>(
    snapshot: &'a Snapshot,
    key: &'a Key,
) -> impl Iterator<Item = &'a str> {
    let part = if let Key::Index(partition, part) = key { Some((*partition, part)) } else { None };
    let members = snapshot.zset(key).keys().chain(snapshot.set(key));
    members.map(String::as_str).filter(move |member| {
        part.is_some_and(|(partition, part)| !is_readable(partition, part, member))
    })
}

/// Entries that are not due yet have not been looked at.
#[expect(clippy::cast_possible_truncation, reason = "a time that is too large is never due")]
fn is_due(snapshot: &Snapshot, key: &Key, member: &String) -> bool {
    snapshot.zset(key).get(member).is_none_or(|at| snapshot.is_overdue(*at as i64))
}

fn is_readable(partition: Partition, part: &IndexPart, member: &str) -> bool {
    let IndexPart::Whole(index) = part else { return member.parse::<ExecutionId>().is_ok() };
    match index {
        _ if lists_executions(part) => member.parse::<ExecutionId>().is_ok(),
        PartitionIndex::FlowIndex | PartitionIndex::CancelBacklog => {
            member.parse::<FlowId>().is_ok()
        }
        PartitionIndex::PendingCancelGroups => tuple(partition, member).is_some(),
        PartitionIndex::PendingWaitpointExpiry => member.parse::<WaitpointId>().is_ok(),
        PartitionIndex::BudgetResets | PartitionIndex::BudgetPolicies => {
            member.parse::<crate::id::BudgetId>().is_ok()
        }
        PartitionIndex::QuotaPolicies => member.parse::<crate::id::QuotaPolicyId>().is_ok(),
        _ => true,
    }
}
