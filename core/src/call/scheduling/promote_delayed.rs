use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// Makes a delayed execution eligible when its time has come.
#[derive(Clone, Debug)]
pub struct PromoteDelayed {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane_id: LaneId,
    /// By which its time is judged.
    pub now: ServerTime,
}

wire_enum! {
    /// What happened to an entry of the delayed index.
    pub enum Promotion {
        /// It is eligible now.
        Promoted = "promoted",
        /// There was no execution; the entry is gone.
        NotFound = "not_found_cleaned",
        /// The execution is not runnable; the entry is gone.
        NotRunnable = "not_runnable_cleaned",
        /// The execution is not delayed; the entry is gone.
        NotDelayed = "not_delayed_cleaned",
        /// It is due later, and the entry says when.
        NotYetDue = "not_yet_due",
    }
}

impl Function for PromoteDelayed {
    const NAME: &'static str = "ff_promote_delayed";
    const KEYS: &'static [&'static str] = &["exec_core", "delayed", "eligible"];
    const ARGS: &'static [&'static str] = &["execution_id", "now_ms"];

    type Reply = Promotion;

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            index.lane(&self.lane_id, LaneIndex::Delayed),
            index.lane(&self.lane_id, LaneIndex::Eligible),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.now]
    }

    fn read(envelope: Envelope) -> Result<Promotion, CallError> {
        envelope.ok()?.parse("an outcome of a promotion")
    }
}
