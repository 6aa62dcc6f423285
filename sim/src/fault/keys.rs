//! Which keys are struck by what strangers and operators do: those whose loss or change can be told
//! from a fault of the engine afterwards.

use selvedge_core::key::{ExecutionPart, IndexPart, Key, LaneIndex};

use super::Fault;

impl Fault {
    /// Whether it may strike this key.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults strike no key by name")]
    pub(crate) fn may_strike(self, key: &Key) -> bool {
        match self {
            Self::Eviction => is_record(key),
            Self::WrongType => is_side_record(key),
            Self::OperatorEdit => in_lane(key) || of_worker(key) || is_core(key),
            _ => false,
        }
    }

    /// The same in words.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults strike no key by name")]
    pub(crate) const fn may_strike_told(self) -> &'static str {
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

/// Keys whose loss hurts an execution or a flow.
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

/// Records beside the core one, which an item needs and nobody else does.
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
