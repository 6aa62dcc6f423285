use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::key::Key;

/// Marks a lapsed lease as reclaimable.
#[derive(Clone, Debug)]
pub struct MarkLeaseExpiredIfDue {
    /// The execution.
    pub execution_id: ExecutionId,
}

wire_enum! {
    /// What happened to an entry of the lease index.
    pub enum LeaseMark {
        /// It is marked now.
        Marked = "marked_expired",
        /// There was no execution; the entry is gone.
        NotFound = "execution_not_found",
        /// The execution is not active; the entry is gone.
        NotActive = "not_active",
        /// It was marked before.
        AlreadyExpired = "already_expired",
        /// It was revoked.
        AlreadyRevoked = "already_revoked",
        /// Nobody holds it; the entry is gone.
        Unowned = "unowned",
        /// It still stands.
        NotYetExpired = "not_yet_expired",
    }
}

impl Function for MarkLeaseExpiredIfDue {
    const NAME: &'static str = "ff_mark_lease_expired_if_due";
    const KEYS: &'static [&'static str] =
        &["exec_core", "lease_current", "lease_expiry", "lease_history"];
    const ARGS: &'static [&'static str] = &["execution_id"];

    type Reply = LeaseMark;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        alloc::vec![
            execution.core(),
            execution.lease(),
            Key::index(self.execution_id.partition()).lease_expiry(),
            execution.lease_history(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id]
    }

    fn read(mut envelope: Envelope) -> Result<LeaseMark, CallError> {
        match envelope.status.as_str() {
            "OK" | "ALREADY_SATISFIED" => envelope.fields.parse("an outcome of a lapse"),
            _ => Err(envelope.unexpected()),
        }
    }
}
