use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, QuotaPolicyId};
use crate::key::Key;
use crate::partition::Partition;

/// Gives an admission slot back, once.
#[derive(Clone, Debug)]
pub struct ReleaseAdmission {
    /// The partition of the policy.
    pub partition: Partition,
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// The execution that held the slot.
    pub execution_id: ExecutionId,
}

impl Function for ReleaseAdmission {
    const NAME: &'static str = "ff_release_admission";
    const KEYS: &'static [&'static str] = &["guard", "admitted_set", "concurrency"];
    const ARGS: &'static [&'static str] = &["execution_id"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let quota = Key::quota(self.partition, self.quota_policy_id);
        alloc::vec![quota.admitted(&self.execution_id), quota.admitted_set(), quota.concurrency()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id]
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok()?.expect("released")
    }
}
