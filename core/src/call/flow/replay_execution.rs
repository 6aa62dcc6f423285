use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function, ToArg};
use crate::error::CallError;
use crate::id::{EdgeId, ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};

/// Resets a terminal execution for another run.
#[derive(Clone, Debug)]
pub struct ReplayExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane_id: LaneId,
    /// The edges that lead to it, as far as the caller knows; the store knows those applied.
    pub inbound_edges: Vec<EdgeId>,
}

impl Function for ReplayExecution {
    const NAME: &'static str = "ff_replay_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "terminal",
        "eligible",
        "lease_history",
        "blocked",
        "deps_meta",
        "unresolved",
        "deps",
    ];
    const ARGS: &'static [&'static str] = &["execution_id", "now_ms", "edge_ids"];

    /// How many edges it waits for; none means that it can be claimed.
    type Reply = u64;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        let mut keys = alloc::vec![
            execution.core(),
            index.lane(&self.lane_id, LaneIndex::Terminal),
            index.lane(&self.lane_id, LaneIndex::Eligible),
            execution.lease_history(),
            index.lane(&self.lane_id, LaneIndex::BlockedDependencies),
            execution.dependency_meta(),
            execution.dependencies_unresolved(),
        ];
        keys.extend(self.inbound_edges.iter().map(|&edge| execution.dependency(edge)));
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.execution_id, ""];
        args.extend(self.inbound_edges.iter().map(ToArg::to_arg));
        args
    }

    fn read(envelope: Envelope) -> Result<u64, CallError> {
        envelope.ok()?.parse("a count")
    }
}
