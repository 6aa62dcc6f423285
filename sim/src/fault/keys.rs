//! Which keys a data fault may damage: those for which the damage can be told apart from a bug
//! afterwards.

use selvedge_core::key::{ExecutionPart, IndexPart, Key, LaneIndex};

use super::Fault;

impl Fault {
    /// Whether it may damage this key.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults damage no key")]
    pub(crate) fn applies_to_key(self, key: &Key) -> bool {
        match self {
            Self::Eviction => is_record(key),
            Self::WrongType => is_side_record(key),
            Self::OperatorEdit => in_lane(key) || of_worker(key) || is_core(key),
            _ => false,
        }
    }

    /// The keys that it may damage, for error messages.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults damage no key")]
    pub(crate) const fn key_description(self) -> &'static str {
        match self {
            Self::Eviction => {
                "an execution's core, payload, lease:current, suspension:current, deps:meta or \
                 deps:unresolved, an attempt or a waitpoint"
            }
            Self::WrongType => {
                "an execution's payload, lease:current, suspension:current, tags or result, or an \
                 attempt"
            }
            Self::OperatorEdit => {
                "the index of a lane (eligible, active, delayed, suspended, blocked:dependencies), \
                 the leases of a worker or an execution's core"
            }
            _ => "no key",
        }
    }
}

/// Records whose loss affects an execution or a flow.
fn is_record(key: &Key) -> bool {
    matches!(
        key,
        Key::Execution(
            _,
            ExecutionPart::Core
                | ExecutionPart::Payload
                | ExecutionPart::Lease
                | ExecutionPart::Suspension
                | ExecutionPart::DependencyMeta
                | ExecutionPart::DependenciesUnresolved,
        ) | Key::Attempt(..)
            | Key::Waitpoint(..)
    )
}

/// Records besides the core record, used by one execution only.
fn is_side_record(key: &Key) -> bool {
    matches!(
        key,
        Key::Execution(
            _,
            ExecutionPart::Payload
                | ExecutionPart::Lease
                | ExecutionPart::Suspension
                | ExecutionPart::Tags
                | ExecutionPart::Result,
        ) | Key::Attempt(..)
    )
}

pub(super) fn in_lane(key: &Key) -> bool {
    matches!(
        key,
        Key::Index(
            _,
            IndexPart::Lane(
                _,
                LaneIndex::Eligible
                    | LaneIndex::Active
                    | LaneIndex::Delayed
                    | LaneIndex::Suspended
                    | LaneIndex::BlockedDependencies
            )
        )
    )
}

pub(super) fn of_worker(key: &Key) -> bool {
    matches!(key, Key::Index(_, IndexPart::WorkerLeases(_)))
}

pub(super) fn is_core(key: &Key) -> bool {
    matches!(key, Key::Execution(_, ExecutionPart::Core))
}
