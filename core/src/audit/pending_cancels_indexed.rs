//! `PendingCancelsIndexed`: pending cancels and entries of their indexes match one to one.

use alloc::format;
use alloc::string::{String, ToString};

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::key::{FlowPart, Key, PartitionIndex};

pub(super) const ORACLE: Oracle = Oracle {
    name: "PendingCancelsIndexed",
    statement: "pending cancels and entries of their indexes match one to one",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Flow(partition, flow) => {
            let owed = snapshot.holds(&Key::flow(*partition, *flow).pending_cancels());
            let noted = snapshot
                .index(*partition, PartitionIndex::CancelBacklog)
                .contains_key(&flow.to_string());
            findings.expect(owed == noted, flow, || {
                let what = match owed {
                    true => "has members to cancel and is not in the cancel backlog",
                    false => "is in the cancel backlog without members to cancel",
                };
                String::from(what)
            });
        }
        Subject::Key(key @ Key::Flow(partition, flow, FlowPart::EdgeGroup(child))) => {
            let flagged = snapshot
                .hash(key)
                .is_some_and(|group| group.text("cancel_siblings_pending_flag") == "true");
            let noted = snapshot
                .index_set(*partition, PartitionIndex::PendingCancelGroups)
                .contains(&format!("{flow}|{child}"));
            findings.expect(flagged == noted, key, || {
                let what = match flagged {
                    true => "has siblings to cancel and is not in pending_cancel_groups",
                    false => "is in pending_cancel_groups without siblings to cancel",
                };
                String::from(what)
            });
        }
        _ => {}
    }
}
