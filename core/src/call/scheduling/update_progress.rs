use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LeaseEpoch, LeaseId};
use crate::key::Key;

/// Notes how far a worker has come with an execution it holds.
#[derive(Clone, Debug)]
pub struct UpdateProgress {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The holder's lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub lease_epoch: LeaseEpoch,
    /// How much is done; none leaves the noted share alone.
    pub progress_pct: Option<u16>,
    /// What is being done; none leaves the noted message alone.
    pub progress_message: Option<String>,
}

impl Function for UpdateProgress {
    const NAME: &'static str = "ff_update_progress";
    const KEYS: &'static [&'static str] = &["exec_core"];
    const ARGS: &'static [&'static str] =
        &["execution_id", "lease_id", "lease_epoch", "progress_pct", "progress_message"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.execution_id,
            self.lease_id,
            self.lease_epoch,
            self.progress_pct,
            self.progress_message,
        ]
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok().map(drop)
    }
}
