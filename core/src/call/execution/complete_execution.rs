use alloc::vec::Vec;

use super::{Authority, Running};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::{Key, LaneIndex};

/// Ends an execution successfully.
#[derive(Clone, Debug)]
pub struct CompleteExecution {
    /// The running attempt and the keys it is in.
    pub running: Running,
    /// The authority that the caller shows.
    pub authority: Authority,
    /// Its result; an empty one leaves what is there.
    pub result_payload: Vec<u8>,
}

impl Function for CompleteExecution {
    const NAME: &'static str = "ff_complete_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "lease_expiry",
        "worker_leases",
        "terminal",
        "lease_current",
        "lease_history",
        "active",
        "stream_meta",
        "result",
        "attempt_timeout",
        "execution_deadline",
    ];
    const ARGS: &'static [&'static str] =
        &["execution_id", "lease_id", "lease_epoch", "attempt_id", "result_payload", "source"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let (execution, index) = (self.running.execution(), self.running.index());
        alloc::vec![
            execution.core(),
            self.running.attempt(),
            index.lease_expiry(),
            self.running.worker_leases(),
            self.running.lane(LaneIndex::Terminal),
            execution.lease(),
            execution.lease_history(),
            self.running.lane(LaneIndex::Active),
            self.running.stream_meta(),
            execution.result(),
            index.attempt_timeout(),
            index.execution_deadline(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut list = args![self.running.execution_id];
        list.extend(self.authority.fence());
        list.extend(args![self.result_payload, self.authority.source()]);
        list
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok()?.expect("completed")
    }
}
