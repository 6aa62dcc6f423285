use alloc::vec::Vec;

use super::waitpoint::{BoundWaitpoint, NewWaitpoint};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId};
use crate::key::Key;
use crate::time::ServerTime;

/// Creates a waitpoint that can be addressed before its execution suspends on it.
#[derive(Clone, Debug)]
pub struct CreatePendingWaitpoint {
    /// The execution that will wait.
    pub execution_id: ExecutionId,
    /// The attempt that runs.
    pub attempt_index: AttemptIndex,
    /// The waitpoint.
    pub waitpoint: NewWaitpoint,
    /// When it closes by itself unless the execution suspended on it.
    pub expires_at: ServerTime,
}

impl Function for CreatePendingWaitpoint {
    const NAME: &'static str = "ff_create_pending_waitpoint";
    const KEYS: &'static [&'static str] = &["exec_core", "waitpoint", "pending_wp_expiry", "hmac"];
    const ARGS: &'static [&'static str] =
        &["execution_id", "attempt_index", "waitpoint_id", "waitpoint_key", "expires_at"];

    type Reply = BoundWaitpoint;

    fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            Key::waitpoint(partition, self.waitpoint.id),
            Key::index(partition).pending_waitpoint_expiry(),
            Key::WaitpointSecrets(partition),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.execution_id,
            self.attempt_index,
            self.waitpoint.id,
            self.waitpoint.key,
            self.expires_at,
        ]
    }

    fn read(envelope: Envelope) -> Result<BoundWaitpoint, CallError> {
        BoundWaitpoint::read(&mut envelope.ok()?)
    }
}
