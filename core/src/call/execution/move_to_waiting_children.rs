use alloc::vec::Vec;

use super::{Authority, Running};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::{Key, LaneIndex};

/// Gives up a lease until the dependencies are resolved; the same attempt goes on afterwards.
#[derive(Clone, Debug)]
pub struct MoveToWaitingChildren {
    /// The running attempt and the keys it is in.
    pub running: Running,
    /// The authority that the caller shows.
    pub authority: Authority,
}

impl Function for MoveToWaitingChildren {
    const NAME: &'static str = "ff_move_to_waiting_children";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "lease_current",
        "lease_history",
        "lease_expiry",
        "worker_leases",
        "active",
        "blocked_dependencies",
        "attempt_timeout",
    ];
    const ARGS: &'static [&'static str] =
        &["execution_id", "lease_id", "lease_epoch", "attempt_id", "source"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let (execution, index) = (self.running.execution(), self.running.index());
        alloc::vec![
            execution.core(),
            self.running.attempt(),
            execution.lease(),
            execution.lease_history(),
            index.lease_expiry(),
            self.running.worker_leases(),
            self.running.lane(LaneIndex::Active),
            self.running.lane(LaneIndex::BlockedDependencies),
            index.attempt_timeout(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut list = args![self.running.execution_id];
        list.extend(self.authority.fence());
        list.extend(args![self.authority.source()]);
        list
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok().map(drop)
    }
}
