//! `DebtHasNote`

use alloc::format;
use alloc::string::{String, ToString};

use super::{Findings, Oracle, Snapshot};
use crate::id::{ExecutionId, FlowId};
use crate::key::{FlowPart, IndexPart, Key, PartitionIndex};

pub(super) const ORACLE: Oracle = Oracle {
    name: "DebtHasNote",
    statement: "every debt has its note, every note its index entry, until it is paid",
    look,
};

fn look(snapshot: &Snapshot, findings: &mut Findings) {
    for (key, _) in snapshot.iter() {
        match key {
            Key::Flow(partition, flow, FlowPart::EdgeGroup(child)) => {
                let flagged = snapshot
                    .hash(key)
                    .is_some_and(|group| group.text("cancel_siblings_pending_flag") == "true");
                let noted = snapshot
                    .index_set(*partition, PartitionIndex::PendingCancelGroups)
                    .contains(&format!("{flow}|{child}"));
                findings.expect(flagged == noted, key, || {
                    format!("owes sibling cancels: {flagged}, noted: {noted}")
                });
            }
            Key::Flow(partition, flow, FlowPart::PendingCancels) => {
                let noted = snapshot
                    .index(*partition, PartitionIndex::CancelBacklog)
                    .contains_key(&flow.to_string());
                findings.expect(noted, key, || String::from("owes cancels that nobody will pay"));
            }
            Key::Index(partition, IndexPart::Whole(PartitionIndex::CancelBacklog)) => {
                for member in snapshot.zset(key).keys() {
                    let owed = member.parse::<FlowId>().is_ok_and(|flow| {
                        snapshot.holds(&Key::flow(*partition, flow).pending_cancels())
                    });
                    findings.expect(owed, key, || format!("{member} owes nothing"));
                }
            }
            Key::Index(partition, IndexPart::Whole(PartitionIndex::PendingCancelGroups)) => {
                for member in snapshot.set(key) {
                    let group = member.split_once('|').and_then(|(flow, child)| {
                        let child: ExecutionId = child.parse().ok()?;
                        Some(Key::flow(*partition, flow.parse().ok()?).edge_group(&child))
                    });
                    let owed = group.is_some_and(|group| snapshot.holds(&group));
                    findings.expect(owed, key, || format!("{member} names no group"));
                }
            }
            _ => {}
        }
    }
}
