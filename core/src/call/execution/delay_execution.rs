use alloc::vec::Vec;

use super::{Authority, Running};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// Gives up a lease until a time; the same attempt goes on afterwards.
#[derive(Clone, Debug)]
pub struct DelayExecution {
    /// The running attempt and the keys it is in.
    pub running: Running,
    /// The authority that the caller shows.
    pub authority: Authority,
    /// When to try again.
    pub delay_until: ServerTime,
}

impl Function for DelayExecution {
    const NAME: &'static str = "ff_delay_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "lease_current",
        "lease_history",
        "lease_expiry",
        "worker_leases",
        "active",
        "delayed",
        "attempt_timeout",
    ];
    const ARGS: &'static [&'static str] =
        &["execution_id", "lease_id", "lease_epoch", "attempt_id", "delay_until", "source"];

    type Reply = ServerTime;

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
            self.running.lane(LaneIndex::Delayed),
            index.attempt_timeout(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut list = args![self.running.execution_id];
        list.extend(self.authority.fence());
        list.extend(args![self.delay_until, self.authority.source()]);
        list
    }

    fn read(envelope: Envelope) -> Result<ServerTime, CallError> {
        envelope.ok()?.parse("when it goes on")
    }
}
