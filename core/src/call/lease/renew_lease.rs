use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId, Fence};
use crate::key::Key;
use crate::time::ServerTime;

/// Extends a lease that still stands.
#[derive(Clone, Debug)]
pub struct RenewLease {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt that runs.
    pub attempt_index: AttemptIndex,
    /// The holder's fence.
    pub fence: Fence,
    /// How long the lease stands from now on.
    pub lease_ttl_ms: u64,
    /// How long the lease record outlives it.
    pub lease_history_grace_ms: u64,
}

impl Function for RenewLease {
    const NAME: &'static str = "ff_renew_lease";
    const KEYS: &'static [&'static str] =
        &["exec_core", "lease_current", "lease_history", "lease_expiry"];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "attempt_index",
        "attempt_id",
        "lease_id",
        "lease_epoch",
        "lease_ttl_ms",
        "lease_history_grace_ms",
    ];

    /// When the lease ends now.
    type Reply = ServerTime;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        alloc::vec![
            execution.core(),
            execution.lease(),
            execution.lease_history(),
            Key::index(self.execution_id.partition()).lease_expiry(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.execution_id,
            self.attempt_index,
            self.fence.attempt_id,
            self.fence.lease_id,
            self.fence.lease_epoch,
            self.lease_ttl_ms,
            self.lease_history_grace_ms,
        ]
    }

    fn read(envelope: Envelope) -> Result<ServerTime, CallError> {
        envelope.ok()?.parse("when the lease ends")
    }
}
