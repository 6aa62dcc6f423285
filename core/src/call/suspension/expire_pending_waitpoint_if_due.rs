use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::WaitpointId;
use crate::key::Key;
use crate::partition::Partition;

/// Closes a waitpoint whose suspension never came, when it is due by the server's clock. An added
/// function: the contract's own function closes without checking.
#[derive(Clone, Copy, Debug)]
pub struct ExpirePendingWaitpointIfDue {
    /// Its partition.
    pub partition: Partition,
    /// The waitpoint.
    pub waitpoint_id: WaitpointId,
}

wire_enum! {
    /// The result of checking a pending waitpoint's expiry.
    pub enum PendingWaitpointExpiry {
        /// It was due and is closed.
        Closed = "closed",
        /// It is not due; its entry stands at its time.
        NotYetDue = "not_yet_due",
        /// There is no such waitpoint; its entry is gone.
        NotFound = "not_found_cleaned",
        /// It was activated or closed; its entry is gone.
        NotPending = "not_pending_cleaned",
    }
}

impl Function for ExpirePendingWaitpointIfDue {
    const NAME: &'static str = "ff_expire_pending_waitpoint_if_due";
    const KEYS: &'static [&'static str] = &["waitpoint", "pending_wp_expiry"];
    const ARGS: &'static [&'static str] = &["waitpoint_id"];

    type Reply = PendingWaitpointExpiry;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![
            Key::waitpoint(self.partition, self.waitpoint_id),
            Key::index(self.partition).pending_waitpoint_expiry(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.waitpoint_id]
    }

    fn read(envelope: Envelope) -> Result<PendingWaitpointExpiry, CallError> {
        envelope.ok()?.parse("an outcome of a pending waitpoint")
    }
}
