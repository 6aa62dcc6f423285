use alloc::vec::Vec;

use super::GrantTerms;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::key::Key;
use crate::time::ServerTime;

/// Reserves an execution whose lease was lost for one worker; answers when the grant ends.
#[derive(Clone, Debug)]
pub struct IssueReclaimGrant {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The worker it is for, and how long it is valid.
    pub terms: GrantTerms,
}

impl Function for IssueReclaimGrant {
    const NAME: &'static str = "ff_issue_reclaim_grant";
    const KEYS: &'static [&'static str] = &["exec_core", "claim_grant", "lease_expiry"];
    const ARGS: &'static [&'static str] = GrantTerms::ARGS;

    type Reply = ServerTime;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        alloc::vec![execution.core(), execution.claim_grant(), index.lease_expiry()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.terms.args(&self.execution_id)
    }

    fn read(envelope: Envelope) -> Result<ServerTime, CallError> {
        let mut fields = envelope.ok()?;
        fields.text()?;
        fields.parse("when the grant ends")
    }
}
