use alloc::vec::Vec;

use super::HoldReason;
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// Makes an execution eligible again that admission held back for `reason`, and for no other.
#[derive(Clone, Debug)]
pub struct UnblockExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane_id: LaneId,
    /// Why it was held back.
    pub reason: HoldReason,
    /// Since when it is eligible.
    pub now: ServerTime,
}

impl Function for UnblockExecution {
    const NAME: &'static str = "ff_unblock_execution";
    const KEYS: &'static [&'static str] = &["exec_core", "blocked", "eligible"];
    const ARGS: &'static [&'static str] = &["execution_id", "now_ms", "expected_blocking_reason"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            index.lane(&self.lane_id, self.reason.index()),
            index.lane(&self.lane_id, LaneIndex::Eligible),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.now, self.reason.as_str()]
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok()?.expect("unblocked")
    }
}
