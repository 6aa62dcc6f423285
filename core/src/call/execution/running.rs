use alloc::vec::Vec;

use crate::call::args::args;
use crate::id::{AttemptIndex, ExecutionId, Fence, LaneId, WorkerInstanceId};
use crate::key::{ExecutionKeys, IndexKeys, Key, LaneIndex};

/// A running execution as a caller knows it. Where this is out of date, the library goes by the
/// record.
#[derive(Clone, Debug)]
pub struct Running {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt that runs.
    pub attempt_index: AttemptIndex,
    /// Its lane.
    pub lane: LaneId,
    /// Who holds it.
    pub worker_instance_id: WorkerInstanceId,
}

impl Running {
    pub(super) fn execution(&self) -> ExecutionKeys<'_> {
        Key::execution(&self.execution_id)
    }

    pub(super) fn index(&self) -> IndexKeys {
        Key::index(self.execution_id.partition())
    }

    pub(super) fn attempt(&self) -> Key {
        self.execution().attempt(self.attempt_index)
    }

    pub(super) fn stream_meta(&self) -> Key {
        self.execution().stream_meta(self.attempt_index)
    }

    pub(super) fn lane(&self, index: LaneIndex) -> Key {
        self.index().lane(&self.lane, index)
    }

    pub(super) fn worker_leases(&self) -> Key {
        self.index().worker_leases(&self.worker_instance_id)
    }
}

/// By what right a holder's call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The holder sends its whole fence.
    Holder(Fence),
    /// An operator acts in the holder's name.
    Operator,
}

impl Authority {
    /// Lease id, epoch and attempt id as arguments; empty for an operator.
    pub(super) fn fence(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Holder(fence) => args![fence.lease_id, fence.lease_epoch, fence.attempt_id],
            Self::Operator => args!["", "", ""],
        }
    }

    /// The source argument.
    pub(super) const fn source(&self) -> &'static str {
        match self {
            Self::Holder(_) => "",
            Self::Operator => "operator_override",
        }
    }
}
