use alloc::string::String;
use alloc::vec::Vec;

use super::{ADMISSION_DIMENSION, CREATION_DIMENSION};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::QuotaPolicyId;
use crate::key::Key;
use crate::partition::Partition;

/// Makes a policy's counter equal to its holders, trims its windows, and answers a page of the
/// holders: those that have ended are to be released. An added function.
#[derive(Clone, Debug)]
pub struct ReconcileQuota {
    /// The partition of the policy.
    pub partition: Partition,
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// Where the page starts: what the last page answered, zero at first.
    pub cursor: u64,
    /// About how many entries a page has.
    pub count: u32,
}

wire_enum! {
    /// Whether anything was inconsistent.
    pub enum QuotaReconciliation {
        /// It was, and is not now.
        Reconciled = "reconciled",
        /// It was not.
        Unchanged = "unchanged",
        /// There is no such policy; its index entry is gone.
        Unknown = "unknown_cleaned",
    }
}

/// A policy after its reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// What had to be done.
    pub reconciliation: QuotaReconciliation,
    /// How many run.
    pub concurrency: i64,
    /// Where the next page starts; zero after the last.
    pub next_cursor: u64,
    /// Members of the page, as they are stored; one may come twice.
    pub holders: Vec<String>,
}

impl Function for ReconcileQuota {
    const NAME: &'static str = "ff_reconcile_quota";
    const KEYS: &'static [&'static str] =
        &["def", "window_default", "window_requests", "concurrency", "admitted_set", "policies"];
    const ARGS: &'static [&'static str] = &["quota_policy_id", "cursor", "count"];

    type Reply = QuotaState;

    fn keys(&self) -> Vec<Key> {
        let quota = Key::quota(self.partition, self.quota_policy_id);
        alloc::vec![
            quota.record(),
            quota.window(ADMISSION_DIMENSION),
            quota.window(CREATION_DIMENSION),
            quota.concurrency(),
            quota.admitted_set(),
            Key::index(self.partition).quota_policies(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.quota_policy_id, self.cursor, self.count]
    }

    fn read(envelope: Envelope) -> Result<QuotaState, CallError> {
        let mut fields = envelope.ok()?;
        let mut state = QuotaState {
            reconciliation: fields.parse("an outcome of a reconciliation")?,
            concurrency: fields.parse("a count")?,
            next_cursor: fields.parse("a cursor")?,
            holders: Vec::new(),
        };
        while !fields.is_empty() {
            state.holders.push(fields.text()?);
        }
        Ok(state)
    }
}
