use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};

/// Gives an eligible execution another priority, and another place in the queue with it.
#[derive(Clone, Debug)]
pub struct ChangePriority {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane_id: LaneId,
    /// The new priority; the function holds it within 0 and 9000.
    pub new_priority: i64,
}

/// Priorities as they are stored, which may have fractions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityChanged {
    /// Before.
    pub old: String,
    /// After.
    pub new: String,
}

impl Function for ChangePriority {
    const NAME: &'static str = "ff_change_priority";
    const KEYS: &'static [&'static str] = &["exec_core", "eligible"];
    const ARGS: &'static [&'static str] = &["execution_id", "new_priority"];

    type Reply = PriorityChanged;

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            index.lane(&self.lane_id, LaneIndex::Eligible),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.new_priority]
    }

    fn read(envelope: Envelope) -> Result<PriorityChanged, CallError> {
        let mut fields = envelope.ok()?;
        Ok(PriorityChanged { old: fields.text()?, new: fields.text()? })
    }
}
