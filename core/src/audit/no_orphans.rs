//! `NoOrphans`

use alloc::format;
use alloc::string::String;

use super::{Entry, Findings, Oracle, Snapshot};
use crate::id::{ExecutionId, FlowId, WaitpointId};
use crate::key::{ExecutionPart, IndexPart, Key, PartitionIndex};

pub(super) const ORACLE: Oracle =
    Oracle { name: "NoOrphans", statement: "every key belongs to a live record or expires", look };

fn look(snapshot: &Snapshot, findings: &mut Findings) {
    for stranger in snapshot.strangers() {
        findings.add(stranger.escape_ascii(), "is no key of ours");
    }
    for (key, entry) in snapshot.iter() {
        if let Err(why) = owner(snapshot, key, entry) {
            findings.add(key, why);
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
        Key::Index(partition, IndexPart::Whole(index)) => {
            named_by_index(snapshot, *partition, *index)
        }
        // OneHome looks after the other indexes; a worker that connects registers for good; the
        // rest belongs to the deployment and is bounded.
        Key::Index(..)
        | Key::WorkerCapabilities(_)
        | Key::Workers(_)
        | Key::WaitpointSecrets(_)
        | Key::SignalDelivery(_)
        | Key::LeaseHistory(_)
        | Key::Aside(_)
        | Key::PartitionCounts
        | Key::Lanes => Ok(()),
        Key::Noop(_) | Key::Reserved(_) => Err(String::from("nobody may write it")),
    }
}

/// The execution record that a field of another record names.
fn core_named(snapshot: &Snapshot, record: &Key, field: &str) -> Result<Key, String> {
    let named = snapshot.hash(record).map(|fields| fields.text(field)).unwrap_or_default();
    let id: ExecutionId = named.parse().map_err(|_| format!("`{named}` is no execution"))?;
    Ok(Key::execution(&id).core())
}

/// Whether all that an index lists is there.
fn named_by_index(
    snapshot: &Snapshot,
    partition: crate::partition::Partition,
    index: PartitionIndex,
) -> Result<(), String> {
    let exists = |id: &String| match index {
        PartitionIndex::PendingWaitpointExpiry => {
            id.parse::<WaitpointId>().is_ok_and(|id| snapshot.holds(&Key::waitpoint(partition, id)))
        }
        PartitionIndex::FlowIndex => {
            id.parse::<FlowId>().is_ok_and(|id| snapshot.holds(&Key::flow(partition, id).core()))
        }
        PartitionIndex::BudgetResets | PartitionIndex::BudgetPolicies => {
            id.parse().is_ok_and(|id| snapshot.holds(&Key::budget(partition, id).record()))
        }
        PartitionIndex::QuotaPolicies => {
            id.parse().is_ok_and(|id| snapshot.holds(&Key::quota(partition, id).record()))
        }
        // OneHome and DebtHasNote look after these.
        PartitionIndex::LeaseExpiry
        | PartitionIndex::SuspensionTimeout
        | PartitionIndex::AttemptTimeout
        | PartitionIndex::ExecutionDeadline
        | PartitionIndex::AllExecutions
        | PartitionIndex::CancelBacklog
        | PartitionIndex::PendingCancelGroups => true,
    };
    let mut members =
        snapshot.index(partition, index).keys().chain(snapshot.index_set(partition, index));
    match members.find(|id| !exists(id)) {
        Some(id) => Err(format!("{id} has no record")),
        None => Ok(()),
    }
}
