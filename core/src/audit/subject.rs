//! [`Subject`]: the unit in which oracles judge, and which subjects a change of a key concerns.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::right_kind::misplaced;
use super::{Execution, Fields, Snapshot, Stored};
use crate::id::{ExecutionId, FlowId, WaitpointId};
use crate::key::{BudgetPart, ExecutionPart, FlowPart, IndexPart, Key, PartitionIndex, QuotaPart};
use crate::partition::Partition;

/// What an oracle judges at a time, with all keys that belong to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An execution with everything under its name and all indexes that list it.
    Execution(ExecutionId),
    /// A flow with everything under its name.
    Flow(Partition, FlowId),
    /// One key.
    Key(Key),
    /// A key that is not part of this keyspace.
    ForeignKey(Vec<u8>),
}

impl Subject {
    pub(super) fn foreign_key(key: &[u8]) -> Self {
        Self::ForeignKey(key.to_vec())
    }

    /// The record of an execution, if this is one and has one.
    pub(super) fn execution_in<'a>(&'a self, snapshot: &'a Snapshot) -> Option<Execution<'a>> {
        match self {
            Self::Execution(id) => snapshot.execution(id),
            Self::Flow(..) | Self::Key(_) | Self::ForeignKey(_) => None,
        }
    }
}

/// Adds the subjects concerned when a key that held `was` holds `is` now.
///
/// With no value before, these are all subjects that the key belongs to.
pub(super) fn concerned(
    key: &Key,
    [was, is]: [Option<&Stored>; 2],
    subjects: &mut BTreeSet<Subject>,
) {
    match key {
        Key::Index(partition, part) => {
            return of_index(*partition, part, key, [was, is], subjects);
        }
        Key::Execution(id, ExecutionPart::Suspension) => {
            for stored in [was, is].into_iter().flatten() {
                subjects.extend(waitpoint_of(id.partition(), stored));
            }
            subjects.insert(Subject::Execution(id.clone()));
        }
        Key::Execution(id, _) | Key::Attempt(id, ..) | Key::Stream(id, ..) => {
            subjects.insert(Subject::Execution(id.clone()));
        }
        Key::Waitpoint(..) => {
            for stored in [was, is].into_iter().flatten() {
                subjects.extend(owner_of(stored));
            }
        }
        Key::Flow(partition, id, part) => {
            if let FlowPart::EdgeGroup(child) = part {
                subjects.insert(Subject::Execution(child.clone()));
            }
            if !matches!(part, FlowPart::Edge(_) | FlowPart::EdgeGroup(_)) {
                subjects.insert(Subject::Flow(*partition, *id));
            }
        }
        Key::Budget(partition, id, part) if *part != BudgetPart::Record => {
            subjects.insert(Subject::Key(Key::budget(*partition, *id).record()));
        }
        Key::Quota(partition, id, part) if *part != QuotaPart::Record => {
            subjects.insert(Subject::Key(Key::quota(*partition, *id).record()));
        }
        _ => {}
    }
    subjects.insert(Subject::Key(key.clone()));
}

/// A change of an index concerns the members that were added or removed, and the index itself only
/// if it or a member cannot be read.
fn of_index(
    partition: Partition,
    part: &IndexPart,
    key: &Key,
    stored: [Option<&Stored>; 2],
    subjects: &mut BTreeSet<Subject>,
) {
    if stored[1].is_some_and(|is| misplaced(key, is).is_some()) {
        subjects.insert(Subject::Key(key.clone()));
    }
    changed_members(stored, |member, is_in| {
        let concerned = match part {
            IndexPart::Lane(..) | IndexPart::WorkerLeases(_) => execution(member),
            IndexPart::Whole(index) => match index {
                _ if lists_executions(part) => execution(member),
                PartitionIndex::FlowIndex | PartitionIndex::CancelBacklog => {
                    member.parse().ok().map(|id| Subject::Flow(partition, id))
                }
                PartitionIndex::PendingCancelGroups => tuple(partition, member).map(Subject::Key),
                PartitionIndex::PendingWaitpointExpiry => {
                    let id = member.parse().ok();
                    id.map(|id| Subject::Key(Key::waitpoint(partition, id)))
                }
                PartitionIndex::BudgetResets | PartitionIndex::BudgetPolicies => {
                    let id = member.parse().ok();
                    id.map(|id| Subject::Key(Key::budget(partition, id).record()))
                }
                PartitionIndex::QuotaPolicies => {
                    let id = member.parse().ok();
                    id.map(|id| Subject::Key(Key::quota(partition, id).record()))
                }
                _ => None,
            },
        };
        match concerned {
            Some(subject) => drop(subjects.insert(subject)),
            None if is_in => drop(subjects.insert(Subject::Key(key.clone()))),
            None => {}
        }
    });
}

/// Whether the members of an index are executions.
pub(super) fn lists_executions(part: &IndexPart) -> bool {
    match part {
        IndexPart::Lane(..) | IndexPart::WorkerLeases(_) => true,
        IndexPart::Whole(index) => matches!(
            index,
            PartitionIndex::LeaseExpiry
                | PartitionIndex::SuspensionTimeout
                | PartitionIndex::AttemptTimeout
                | PartitionIndex::ExecutionDeadline
                | PartitionIndex::AllExecutions
        ),
    }
}

/// The edge group that an entry of `pending_cancel_groups` names.
pub(super) fn tuple(partition: Partition, member: &str) -> Option<Key> {
    let (flow, child) = member.split_once('|')?;
    let child: ExecutionId = child.parse().ok()?;
    Some(Key::flow(partition, flow.parse().ok()?).edge_group(&child))
}

/// Calls `each` for every member that was added, removed or given another score, with whether it is
/// a member now. Both are sorted, so one pass is enough.
pub(super) fn changed_members([was, is]: [Option<&Stored>; 2], mut each: impl FnMut(&str, bool)) {
    let (mut was, mut is) = (members(was).peekable(), members(is).peekable());
    loop {
        let order = match (was.peek(), is.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((before, _)), Some((after, _))) => before.cmp(after),
        };
        let before = if order.is_le() { was.next() } else { None };
        let after = if order.is_ge() { is.next() } else { None };
        match (before, after) {
            (Some((gone, _)), None) => each(gone, false),
            (before, Some((member, _))) if before != after => each(member, true),
            _ => {}
        }
    }
}

/// The members of a set or sorted set in their order, with their scores if they have any.
fn members(stored: Option<&Stored>) -> impl Iterator<Item = (&str, Option<f64>)> {
    let (set, zset) = match stored {
        Some(Stored::Set(members)) => (Some(members), None),
        Some(Stored::Zset(members)) => (None, Some(members)),
        _ => (None, None),
    };
    let set = set.into_iter().flatten().map(|member| (member.as_str(), None));
    let zset = zset.into_iter().flatten();
    set.chain(zset.map(|(member, score)| (member.as_str(), Some(*score))))
}

fn execution(member: &str) -> Option<Subject> {
    member.parse().ok().map(Subject::Execution)
}

fn fields(stored: &Stored) -> Option<Fields<'_>> {
    match stored {
        Stored::Hash(fields) => Some(Fields::new(fields)),
        _ => None,
    }
}

/// The waitpoint that a suspension waits at.
fn waitpoint_of(partition: Partition, suspension: &Stored) -> Option<Subject> {
    let id: WaitpointId = fields(suspension)?.text("waitpoint_id").parse().ok()?;
    Some(Subject::Key(Key::waitpoint(partition, id)))
}

/// The execution whose waitpoint this is.
fn owner_of(waitpoint: &Stored) -> Option<Subject> {
    execution(fields(waitpoint)?.text("execution_id"))
}
