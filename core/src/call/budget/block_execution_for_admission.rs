use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

wire_enum! {
    /// Why admission holds an execution back.
    pub enum HoldReason {
        /// A budget is used up.
        Budget = "waiting_for_budget",
        /// A quota is used up.
        Quota = "waiting_for_quota",
        /// No worker can run it.
        Route = "waiting_for_capable_worker",
        /// An operator paused it.
        Operator = "paused_by_operator",
        /// The lane's policy paused it.
        Policy = "paused_by_policy",
    }
}

impl HoldReason {
    /// The index of those held back for this reason; a lane's policy has none and shares one.
    #[must_use]
    pub const fn index(self) -> LaneIndex {
        match self {
            Self::Budget => LaneIndex::BlockedBudget,
            Self::Quota => LaneIndex::BlockedQuota,
            Self::Route => LaneIndex::BlockedRoute,
            Self::Operator | Self::Policy => LaneIndex::BlockedOperator,
        }
    }
}

/// Takes an execution out of the eligible ones until admission lets it pass.
#[derive(Clone, Debug)]
pub struct BlockExecutionForAdmission {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane_id: LaneId,
    /// Why.
    pub reason: HoldReason,
    /// Why, for people.
    pub detail: String,
    /// Since when.
    pub now: ServerTime,
}

impl Function for BlockExecutionForAdmission {
    const NAME: &'static str = "ff_block_execution_for_admission";
    const KEYS: &'static [&'static str] = &["exec_core", "eligible", "blocked"];
    const ARGS: &'static [&'static str] =
        &["execution_id", "blocking_reason", "blocking_detail", "now_ms"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            index.lane(&self.lane_id, LaneIndex::Eligible),
            index.lane(&self.lane_id, self.reason.index()),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.reason.as_str(), self.detail, self.now]
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok()?.expect("blocked")
    }
}
