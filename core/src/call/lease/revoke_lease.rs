use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LeaseEpoch, LeaseId, WorkerInstanceId};
use crate::key::Key;
use crate::value::Value;

/// Takes a lease away at once.
#[derive(Clone, Debug)]
pub struct RevokeLease {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Who holds it, as far as the caller knows.
    pub worker_instance_id: WorkerInstanceId,
    /// The lease to revoke; the current one if none is given.
    pub expected_lease_id: Option<LeaseId>,
    /// Why.
    pub reason: String,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// This lease is no longer valid.
    Revoked {
        /// Its id.
        lease_id: Option<LeaseId>,
        /// Its epoch.
        lease_epoch: Option<LeaseEpoch>,
    },
    /// It was revoked before.
    AlreadyRevoked,
    /// It had expired before.
    AlreadyExpired,
}

impl Function for RevokeLease {
    const NAME: &'static str = "ff_revoke_lease";
    const KEYS: &'static [&'static str] =
        &["exec_core", "lease_current", "lease_history", "lease_expiry", "worker_leases"];
    const ARGS: &'static [&'static str] = &["execution_id", "expected_lease_id", "revoke_reason"];

    type Reply = Revocation;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            execution.core(),
            execution.lease(),
            execution.lease_history(),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.expected_lease_id, self.reason]
    }

    fn read(mut envelope: Envelope) -> Result<Revocation, CallError> {
        let word = envelope.fields.text()?;
        match (envelope.status.as_str(), word.as_str()) {
            ("OK", "revoked") => Ok(Revocation::Revoked {
                lease_id: envelope.fields.parse_if_set("a lease id")?,
                lease_epoch: envelope.fields.parse_if_set("a lease epoch")?,
            }),
            ("ALREADY_SATISFIED", "already_revoked") => Ok(Revocation::AlreadyRevoked),
            ("ALREADY_SATISFIED", "already_expired") => Ok(Revocation::AlreadyExpired),
            _ => Err(broken("an outcome of a revocation", Value::Bulk(word.into_bytes()))),
        }
    }
}
