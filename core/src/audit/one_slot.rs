//! `OneSlot`: what a state can show of it. Which keys a call touches, only a history can tell.

use alloc::format;
use alloc::string::ToString;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::ExecutionId;
use crate::key::{FlowPart, Key, SignalPart, WaitpointPart};
use crate::partition::Partition;

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneSlot",
    statement: "everything that a record or an index names is in the same slot",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    match subject {
        Subject::Execution(id) => {
            for key in snapshot.indexes_listing(id.as_str()) {
                if let Key::Index(partition, _) = key {
                    together(key, *partition, id.as_str(), findings);
                }
            }
        }
        Subject::Flow(partition, flow) => {
            let key = Key::flow(*partition, *flow).members();
            for member in snapshot.set(&key) {
                together(&key, *partition, member, findings);
            }
        }
        Subject::Key(key) => {
            let (partition, fields): (_, &[&str]) = match key {
                Key::Flow(partition, _, FlowPart::Edge(_)) => {
                    (partition, &["upstream_execution_id", "downstream_execution_id"])
                }
                Key::Waitpoint(partition, _, WaitpointPart::Record) => {
                    (partition, &["execution_id"])
                }
                Key::Signal(partition, _, SignalPart::Record) => {
                    (partition, &["target_execution_id"])
                }
                _ => return,
            };
            let Some(record) = snapshot.hash(key) else { return };
            for field in fields {
                together(key, *partition, record.text(field), findings);
            }
        }
        Subject::ForeignKey(_) => {}
    }
}

/// Whether an execution that a key names lives where the key does. Ids that cannot be read are
/// another oracle's business.
fn together(key: &Key, partition: Partition, id: &str, findings: &mut Findings) {
    let tag = partition.to_string();
    let elsewhere = !id.starts_with(&tag) && id.parse::<ExecutionId>().is_ok();
    findings.expect(!elsewhere, key, || format!("names {id}, which is in another slot"));
}
