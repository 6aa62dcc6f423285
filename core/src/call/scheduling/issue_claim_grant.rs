use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::capability::Capabilities;
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId, WorkerId, WorkerInstanceId};
use crate::key::{Key, LaneIndex};

/// For whom a grant is meant, for how long, and what is noted with it.
#[derive(Clone, Debug)]
pub struct GrantTerms {
    /// The worker; any of its instances may spend the grant.
    pub worker_id: WorkerId,
    /// The instance that asked.
    pub worker_instance_id: WorkerInstanceId,
    /// The lane it serves.
    pub lane_id: LaneId,
    /// What the worker can do.
    pub capabilities: Capabilities,
    /// How long the grant stands.
    pub grant_ttl_ms: u64,
    /// Stored with the grant.
    pub capability_hash: String,
    /// Stored with the grant.
    pub route_snapshot_json: String,
    /// Stored with the grant.
    pub admission_summary: String,
}

impl GrantTerms {
    pub(super) const ARGS: &'static [&'static str] = &[
        "execution_id",
        "worker_id",
        "worker_instance_id",
        "lane_id",
        "capability_hash",
        "grant_ttl_ms",
        "route_snapshot_json",
        "admission_summary",
        "worker_capabilities_csv",
    ];

    pub(super) fn args(&self, execution_id: &ExecutionId) -> Vec<Vec<u8>> {
        args![
            execution_id,
            self.worker_id,
            self.worker_instance_id,
            self.lane_id,
            self.capability_hash,
            self.grant_ttl_ms,
            self.route_snapshot_json,
            self.admission_summary,
            self.capabilities.to_string(),
        ]
    }
}

/// Reserves one eligible execution for one worker.
#[derive(Clone, Debug)]
pub struct IssueClaimGrant {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The worker it is for, and how long it is valid.
    pub terms: GrantTerms,
}

impl Function for IssueClaimGrant {
    const NAME: &'static str = "ff_issue_claim_grant";
    const KEYS: &'static [&'static str] = &["exec_core", "claim_grant", "eligible"];
    const ARGS: &'static [&'static str] = GrantTerms::ARGS;

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            execution.core(),
            execution.claim_grant(),
            index.lane(&self.terms.lane_id, LaneIndex::Eligible),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.terms.args(&self.execution_id)
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok().map(drop)
    }
}
