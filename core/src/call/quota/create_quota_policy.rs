use alloc::vec::Vec;

use super::CREATION_DIMENSION;
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::QuotaPolicyId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// Defines a rate and concurrency policy; zero means no limit.
#[derive(Clone, Debug)]
pub struct CreateQuotaPolicy {
    /// The partition of the policy.
    pub partition: Partition,
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// How long a window lasts.
    pub window_seconds: u64,
    /// How many may start within it.
    pub max_requests_per_window: u64,
    /// How many may run at a time.
    pub max_concurrent: u64,
    /// Stored with it.
    pub now: ServerTime,
}

/// Whether the policy is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyCreation {
    /// It is.
    Created,
    /// It existed; its first definition is kept.
    AlreadyThere,
}

impl Function for CreateQuotaPolicy {
    const NAME: &'static str = "ff_create_quota_policy";
    const KEYS: &'static [&'static str] =
        &["def", "window", "concurrency", "admitted_set", "policies"];
    const ARGS: &'static [&'static str] = &[
        "quota_policy_id",
        "window_seconds",
        "max_requests_per_window",
        "max_concurrent",
        "now_ms",
    ];

    type Reply = PolicyCreation;

    fn keys(&self) -> Vec<Key> {
        let quota = Key::quota(self.partition, self.quota_policy_id);
        alloc::vec![
            quota.record(),
            quota.window(CREATION_DIMENSION),
            quota.concurrency(),
            quota.admitted_set(),
            Key::index(self.partition).quota_policies(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.quota_policy_id,
            self.window_seconds,
            self.max_requests_per_window,
            self.max_concurrent,
            self.now,
        ]
    }

    fn read(envelope: Envelope) -> Result<PolicyCreation, CallError> {
        match envelope.status.as_str() {
            "OK" => Ok(PolicyCreation::Created),
            "ALREADY_SATISFIED" => Ok(PolicyCreation::AlreadyThere),
            _ => Err(envelope.unexpected()),
        }
    }
}
