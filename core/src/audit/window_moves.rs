//! `WindowMoves`: every due candidate was acted on, whatever is before it in the index.

use alloc::format;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::{IndexPart, Key, LaneIndex, PartitionIndex};
use crate::partition::Partition;

pub(super) const ORACLE: Oracle = Oracle {
    name: "WindowMoves",
    statement: "every due candidate was acted on, whatever is before it in the index",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

/// Indexes whose score says when something is to be done.
const DUE: [PartitionIndex; 4] = [
    PartitionIndex::SuspensionTimeout,
    PartitionIndex::AttemptTimeout,
    PartitionIndex::ExecutionDeadline,
    PartitionIndex::PendingWaitpointExpiry,
];

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Execution(id) => {
            for key in snapshot.indexes_listing(id.as_str()) {
                let due = match key {
                    Key::Index(_, IndexPart::Lane(_, LaneIndex::Delayed)) => true,
                    Key::Index(_, IndexPart::Whole(index)) => DUE.contains(index),
                    _ => false,
                };
                if due {
                    acted_on(snapshot, key, id.as_str(), findings);
                }
            }
        }
        Subject::Key(Key::Waitpoint(partition, id, _)) => {
            let key = whole(*partition, PartitionIndex::PendingWaitpointExpiry);
            acted_on(snapshot, &key, &alloc::string::ToString::to_string(id), findings);
        }
        Subject::Key(Key::Budget(partition, id, _)) => {
            let key = whole(*partition, PartitionIndex::BudgetResets);
            acted_on(snapshot, &key, &alloc::string::ToString::to_string(id), findings);
        }
        Subject::Key(_) | Subject::Flow(..) | Subject::ForeignKey(_) => {}
    }
}

fn whole(partition: Partition, index: PartitionIndex) -> Key {
    Key::Index(partition, IndexPart::Whole(index))
}

#[expect(clippy::cast_possible_truncation, reason = "a time that is too large is never due")]
fn acted_on(snapshot: &Snapshot, key: &Key, member: &str, findings: &mut Findings) {
    let Some(&at) = snapshot.zset(key).get(member) else { return };
    findings.expect(!snapshot.is_overdue(at as i64), key, || {
        format!("{member} has been due since {at}")
    });
}
