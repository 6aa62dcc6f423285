use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// Releases a child that is still blocked although nothing holds it back any more.
#[derive(Clone, Debug)]
pub struct PromoteBlockedToEligible {
    /// The child.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane_id: LaneId,
    /// When.
    pub now: ServerTime,
}

impl Function for PromoteBlockedToEligible {
    const NAME: &'static str = "ff_promote_blocked_to_eligible";
    const KEYS: &'static [&'static str] =
        &["exec_core", "blocked", "eligible", "deps_meta", "unresolved"];
    const ARGS: &'static [&'static str] = &["execution_id", "now_ms"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            execution.core(),
            index.lane(&self.lane_id, LaneIndex::BlockedDependencies),
            index.lane(&self.lane_id, LaneIndex::Eligible),
            execution.dependency_meta(),
            execution.dependencies_unresolved(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.now]
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok().map(drop)
    }
}
