//! `NoOrphans`: every key belongs to a live record or expires.

use alloc::format;
use alloc::string::{String, ToString};

use super::{Entry, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::ExecutionId;
use crate::key::{BudgetPart, ExecutionPart, Key, PartitionIndex, QuotaPart, WaitpointPart};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoOrphans",
    statement: "every key belongs to a live record or expires",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let mut judge = |key: &Key, entry: &Entry| {
        if let Err(why) = owner(snapshot, key, entry) {
            findings.add(key, why);
        }
    };
    match subject {
        Subject::ForeignKey(key) => {
            findings.add(key.escape_ascii(), "is not a key of this keyspace")
        }
        Subject::Execution(id) => {
            snapshot.named_after(id).for_each(|(key, entry)| judge(key, entry));
        }
        Subject::Key(Key::Execution(..) | Key::Attempt(..) | Key::Stream(..)) => {}
        Subject::Flow(partition, id) => {
            let listed = snapshot.index_set(*partition, PartitionIndex::FlowIndex);
            if !snapshot.holds(&Key::flow(*partition, *id).core()) {
                for (part, entry) in snapshot.of_flow(*partition, *id) {
                    judge(&Key::Flow(*partition, *id, part.clone()), entry);
                }
                findings.expect(!listed.contains(&id.to_string()), id, || {
                    String::from("is in flow_index without a record")
                });
            }
        }
        Subject::Key(key) => {
            if let Some(entry) = snapshot.entry(key) {
                judge(key, entry);
            }
            named_by_index(snapshot, key, findings);
        }
    }
}

/// Whether a key has somebody who will remove it; why not, otherwise.
fn owner(snapshot: &Snapshot, key: &Key, entry: &Entry) -> Result<(), String> {
    let needs = |record: Key| {
        if snapshot.holds(&record) { Ok(()) } else { Err(format!("there is no {record}")) }
    };
    let ends = || entry.expires_at.map(drop).ok_or_else(|| String::from("never expires"));
    match key {
        Key::Execution(_, ExecutionPart::ClaimGrant) => ends(),
        Key::Execution(id, _) | Key::Attempt(id, ..) | Key::Stream(id, ..) => {
            needs(Key::execution(id).core())
        }
        Key::Waitpoint(partition, id, _) => {
            let record = Key::waitpoint(*partition, *id);
            needs(record.clone())?;
            needs(core_named(snapshot, &record, "execution_id")?)
        }
        Key::Signal(partition, id, _) => {
            let record = Key::signal(*partition, *id);
            needs(record.clone())?;
            needs(core_named(snapshot, &record, "target_execution_id")?)
        }
        Key::Flow(partition, id, _) => needs(Key::flow(*partition, *id).core()),
        Key::Budget(partition, id, _) => needs(Key::budget(*partition, *id).record()),
        Key::Quota(partition, id, _) => needs(Key::quota(*partition, *id).record()),
        Key::SignalDedup(..)
        | Key::SuspendDedup(..)
        | Key::Idempotency(..)
        | Key::ClaimNote(..)
        | Key::UsageDedup(..)
        | Key::WorkerAlive(_) => ends(),
        // Indexes are judged by what they list; a worker that connects registers for good; the
        // rest belongs to the deployment and is bounded.
        Key::Index(..)
        | Key::WorkerCapabilities(_)
        | Key::Workers(_)
        | Key::WaitpointSecrets(_)
        | Key::SignalDelivery(_)
        | Key::LeaseHistory(_)
        | Key::Aside(_)
        | Key::PartitionCounts
        | Key::Lanes
        | Key::LaneStates
        | Key::Engines => Ok(()),
        Key::Noop(_) | Key::Reserved(_) => Err(String::from("nobody may write it")),
    }
}

/// The execution record that a field of another record names.
fn core_named(snapshot: &Snapshot, record: &Key, field: &str) -> Result<Key, String> {
    let named = snapshot.hash(record).map(|fields| fields.text(field)).unwrap_or_default();
    let id: ExecutionId = named.parse().map_err(|_| format!("`{named}` is not an execution id"))?;
    Ok(Key::execution(&id).core())
}

/// Whether what an index lists is there.
fn named_by_index(snapshot: &Snapshot, key: &Key, findings: &mut Findings) {
    let (partition, id, indexes): (_, _, &[PartitionIndex]) = match key {
        Key::Waitpoint(partition, id, WaitpointPart::Record) => {
            (partition, id.to_string(), &[PartitionIndex::PendingWaitpointExpiry])
        }
        Key::Budget(partition, id, BudgetPart::Record) => (
            partition,
            id.to_string(),
            &[PartitionIndex::BudgetResets, PartitionIndex::BudgetPolicies],
        ),
        Key::Quota(partition, id, QuotaPart::Record) => {
            (partition, id.to_string(), &[PartitionIndex::QuotaPolicies])
        }
        _ => return,
    };
    for &index in indexes {
        let listed = snapshot.index(*partition, index).contains_key(&id)
            || snapshot.index_set(*partition, index).contains(&id);
        findings.expect(snapshot.holds(key) || !listed, key, || {
            format!("is in {index} without a record")
        });
    }
}
