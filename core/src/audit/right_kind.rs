//! `RightKind`: every key holds the kind of value that its name says, and every count in it can be
//! read.

use alloc::format;
use alloc::string::String;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Stored, Subject};
use crate::key::{
    AttemptPart, BudgetPart, ExecutionPart, FlowPart, IndexPart, Key, PartitionIndex, QuotaPart,
    SignalPart, StreamPart, WaitpointPart,
};
use crate::strict_json;

pub(super) const ORACLE: Oracle = Oracle {
    name: "RightKind",
    statement: "every key holds the kind of value that its name says, and every count in it can \
                be read",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Subject::Key(key) = subject else { return };
    let Some(entry) = snapshot.entry(key) else { return };
    if let Some(kind) = misplaced(key, &entry.stored) {
        let found = Kind::of(&entry.stored).word();
        return findings.add(key, format!("holds a {found}, expected a {}", kind.word()));
    }
    if let Some(fields) = entry.fields() {
        for name in unreadable_numbers(snapshot, key) {
            let text = fields.text(name).escape_default();
            findings.add(key, format!("{name} is `{text}`, which is not a number"));
        }
    }
    if let (Key::PartitionCounts, Some(fields)) = (key, entry.fields()) {
        for name in ["num_flow_partitions", "num_budget_partitions", "num_quota_partitions"] {
            let text = fields.text(name);
            findings.expect(text.parse().is_ok_and(|count: u16| count > 0), key, || {
                format!("{name} is `{}`, which is no count of partitions", text.escape_default())
            });
        }
    }
    if let (Key::Execution(_, ExecutionPart::Policy), Stored::Text(text)) = (key, &entry.stored) {
        findings.expect(is_object(text), key, || {
            String::from(
                "cannot be read: the execution has neither the retries nor the limits of its policy",
            )
        });
    }
    if let (Key::Quota(_, _, QuotaPart::Concurrency), Stored::Text(text)) = (key, &entry.stored) {
        let sound = core::str::from_utf8(text).is_ok_and(is_number);
        findings
            .expect(sound, key, || format!("is `{}`, which is not a number", text.escape_ascii()));
    }
}

/// The type of the value that a key should hold, as the server calls it; none where nobody of ours
/// ever writes.
#[must_use]
pub fn expected_type(key: &Key) -> Option<&'static str> {
    kind_of(key).map(Kind::word)
}

/// The fields of a hash by which somebody counts and that cannot be read.
pub fn unreadable_numbers<'a>(
    snapshot: &'a Snapshot,
    key: &'a Key,
) -> impl Iterator<Item = &'static str> + 'a {
    let fields = snapshot.hash(key);
    counts_of(key).iter().copied().filter(move |name| {
        let text = fields.map(|fields| fields.text(name)).unwrap_or_default();
        !text.is_empty() && !is_number(text)
    })
}

/// The kind that a key should hold when it holds another one.
pub(super) fn misplaced(key: &Key, stored: &Stored) -> Option<Kind> {
    kind_of(key).filter(|kind| *kind != Kind::of(stored))
}

/// What a key can hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Hash,
    Set,
    Zset,
    Stream,
}

impl Kind {
    const fn of(stored: &Stored) -> Self {
        match stored {
            Stored::Text(_) => Self::Text,
            Stored::Hash(_) => Self::Hash,
            Stored::Set(_) => Self::Set,
            Stored::Zset(_) => Self::Zset,
            Stored::Stream(_) => Self::Stream,
        }
    }

    /// As the server calls it.
    const fn word(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::Zset => "zset",
            Self::Stream => "stream",
        }
    }
}

/// What stands under a key, by the contract; none where nobody of ours ever writes.
fn kind_of(key: &Key) -> Option<Kind> {
    Some(match key {
        Key::Execution(_, part) => of_execution(part),
        Key::Flow(_, _, part) => return of_flow(part),
        Key::Index(_, part) => of_index(part),
        Key::Budget(_, _, part) => return of_budget(part),
        Key::Attempt(
            ..,
            AttemptPart::Record | AttemptPart::Usage | AttemptPart::Policy | AttemptPart::Summary,
        )
        | Key::Stream(.., StreamPart::Meta)
        | Key::Waitpoint(.., WaitpointPart::Record | WaitpointPart::Condition)
        | Key::Signal(.., SignalPart::Record)
        | Key::Quota(.., QuotaPart::Record)
        | Key::SuspendDedup(..)
        | Key::WaitpointSecrets(_)
        | Key::WorkerCapabilities(_)
        | Key::PartitionCounts
        | Key::LaneStates
        | Key::Engines
        | Key::Aside(_) => Kind::Hash,
        Key::Signal(.., SignalPart::Payload)
        | Key::Quota(.., QuotaPart::Concurrency | QuotaPart::Admitted(_))
        | Key::SignalDedup(..)
        | Key::Idempotency(..)
        | Key::ClaimNote(..)
        | Key::WorkerAlive(_) => Kind::Text,
        Key::Quota(.., QuotaPart::AdmittedSet) | Key::Lanes | Key::Workers(_) => Kind::Set,
        Key::Quota(.., QuotaPart::Window(_)) => Kind::Zset,
        Key::Stream(.., StreamPart::Frames)
        | Key::Waitpoint(.., WaitpointPart::Signals)
        | Key::SignalDelivery(_)
        | Key::LeaseHistory(_) => Kind::Stream,
        // The word that a usage report was counted, or the list of the budgets that did.
        Key::UsageDedup(..) | Key::Noop(_) | Key::Reserved(_) => return None,
    })
}

const fn of_execution(part: &ExecutionPart) -> Kind {
    match part {
        ExecutionPart::Core
        | ExecutionPart::Tags
        | ExecutionPart::Lease
        | ExecutionPart::ClaimGrant
        | ExecutionPart::Suspension
        | ExecutionPart::MemberMap
        | ExecutionPart::DependencyMeta
        | ExecutionPart::DependenciesAwaited
        | ExecutionPart::Dependency(_) => Kind::Hash,
        ExecutionPart::Payload | ExecutionPart::Result | ExecutionPart::Policy => Kind::Text,
        ExecutionPart::SatisfiedSet
        | ExecutionPart::SatisfiedSignals
        | ExecutionPart::Waitpoints
        | ExecutionPart::DependenciesUnresolved
        | ExecutionPart::DependenciesAll => Kind::Set,
        ExecutionPart::Attempts | ExecutionPart::Signals => Kind::Zset,
        ExecutionPart::LeaseHistory => Kind::Stream,
    }
}

const fn of_flow(part: &FlowPart) -> Option<Kind> {
    Some(match part {
        FlowPart::Core
        | FlowPart::Tags
        | FlowPart::Summary
        | FlowPart::Edge(_)
        | FlowPart::EdgeGroup(_) => Kind::Hash,
        FlowPart::Members | FlowPart::PendingCancels | FlowPart::Out(_) | FlowPart::In(_) => {
            Kind::Set
        }
        FlowPart::Submission => Kind::Text,
        FlowPart::Unsealed => Kind::Zset,
        FlowPart::Events | FlowPart::Grant(_) | FlowPart::Member(_) => return None,
    })
}

const fn of_index(part: &IndexPart) -> Kind {
    match part {
        IndexPart::Lane(..)
        | IndexPart::Whole(
            PartitionIndex::LeaseExpiry
            | PartitionIndex::SuspensionTimeout
            | PartitionIndex::PendingWaitpointExpiry
            | PartitionIndex::AttemptTimeout
            | PartitionIndex::ExecutionDeadline
            | PartitionIndex::CancelBacklog
            | PartitionIndex::BudgetResets,
        ) => Kind::Zset,
        IndexPart::WorkerLeases(_)
        | IndexPart::Whole(
            PartitionIndex::AllExecutions
            | PartitionIndex::FlowIndex
            | PartitionIndex::PendingCancelGroups
            | PartitionIndex::BudgetPolicies
            | PartitionIndex::QuotaPolicies,
        ) => Kind::Set,
    }
}

const fn of_budget(part: &BudgetPart) -> Option<Kind> {
    Some(match part {
        BudgetPart::Record | BudgetPart::Limits | BudgetPart::Usage | BudgetPart::Ledger(_) => {
            Kind::Hash
        }
        BudgetPart::LedgerIndex => Kind::Set,
        BudgetPart::LedgerPeriod(_) => Kind::Text,
        BudgetPart::Executions => return None,
    })
}

/// The fields of a hash by which somebody counts. An empty or missing one counts as nothing; one
/// that cannot be read does so too, and that is a count lost.
const fn counts_of(key: &Key) -> &'static [&'static str] {
    match key {
        Key::Execution(_, ExecutionPart::Core) => &[
            "created_at",
            "current_attempt_index",
            "current_lease_epoch",
            "last_mutation_at",
            "lease_expires_at",
            "lease_reclaim_count",
            "priority",
            "replay_count",
            "retry_count",
            "total_attempt_count",
        ],
        Key::Execution(_, ExecutionPart::DependencyMeta) => {
            &["impossible_required_count", "unsatisfied_required_count"]
        }
        Key::Flow(_, _, FlowPart::Core) => {
            &["created_at", "edge_count", "graph_revision", "last_mutation_at", "node_count"]
        }
        Key::Flow(_, _, FlowPart::EdgeGroup(_)) => {
            &["failed", "k", "n", "repeats", "skipped", "succeeded"]
        }
        Key::Quota(_, _, QuotaPart::Record) => {
            &["active_concurrency_cap", "max_requests_per_window", "requests_per_window_seconds"]
        }
        _ => &[],
    }
}

/// Whether the text is a JSON object, as far as every reader of policies needs it.
fn is_object(text: &[u8]) -> bool {
    text.is_empty() || strict_json::is_object(text)
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}
