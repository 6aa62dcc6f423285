use alloc::string::String;
use alloc::vec::Vec;

use super::claim_many::{ClaimManyReply, ClaimTerms, NewLeases};
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, Fence};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;
use crate::value::Value;

/// Reports the end of a run and claims what comes next in the same partition: one call per task. An
/// added function.
///
/// If the end is refused, nothing is claimed. Repeating the call with the same leases gives the
/// same answer as far as the claims are still valid; a call that claimed nothing is refused when it
/// is repeated, as [`CompleteExecution`](crate::call::execution::CompleteExecution) is, with
/// details that show whose end was applied.
#[derive(Clone, Debug)]
pub struct EndAndClaim {
    /// The execution whose run ended; what is claimed lives in the same partition.
    pub execution_id: ExecutionId,
    /// The fence of its lease.
    pub fence: Fence,
    /// How the run ended.
    pub end: RunEnd,
    /// Who claims, and what.
    pub terms: ClaimTerms,
    /// The leases to grant.
    pub leases: NewLeases,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Successfully.
    Complete {
        /// Its result; an empty one leaves what is there.
        result_payload: Vec<u8>,
    },
    /// Not; the retry policy decides what comes next.
    Fail {
        /// What went wrong.
        failure_reason: String,
        /// What kind of failure it is: `transient`, `permanent`, `timeout`, …
        failure_category: String,
        /// The `retry_policy` member of the stored policy, as JSON; empty for no retry.
        retry_policy_json: String,
    },
}

/// What became of the ended run, and what was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndAndClaimReply {
    /// The end.
    pub ended: Ended,
    /// The claims.
    pub claims: ClaimManyReply,
}

/// What became of the execution whose run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded.
    Completed,
    /// It failed and is tried again then.
    RetryAt(ServerTime),
    /// It failed, and it was the last try.
    Failed,
}

impl Function for EndAndClaim {
    const NAME: &'static str = "ff_end_and_claim";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "result",
        "terminal",
        "delayed",
        "eligible",
        "active",
        "lease_expiry",
        "worker_leases",
        "attempt_timeout",
        "execution_deadline",
    ];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "lease_id",
        "lease_epoch",
        "attempt_id",
        "ending",
        "outcome",
        "failure_category",
        "retry_policy_json",
        "lane",
        "worker_id",
        "worker_instance_id",
        "worker_capabilities_csv",
        "lease_ttl_ms",
        "window",
        "offset",
    ];

    type Reply = EndAndClaimReply;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        let lane = &self.terms.lane;
        alloc::vec![
            execution.core(),
            execution.result(),
            index.lane(lane, LaneIndex::Terminal),
            index.lane(lane, LaneIndex::Delayed),
            index.lane(lane, LaneIndex::Eligible),
            index.lane(lane, LaneIndex::Active),
            index.lease_expiry(),
            index.worker_leases(&self.terms.worker_instance_id),
            index.attempt_timeout(),
            index.execution_deadline(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let fence = &self.fence;
        let mut list =
            args![self.execution_id, fence.lease_id, fence.lease_epoch, fence.attempt_id];
        list.extend(match &self.end {
            RunEnd::Complete { result_payload } => args!["complete", result_payload, "", ""],
            RunEnd::Fail { failure_reason, failure_category, retry_policy_json } => {
                args!["fail", failure_reason, failure_category, retry_policy_json]
            }
        });
        list.extend(self.terms.args());
        list.extend(self.leases.args());
        list.extend(args![self.terms.filter]);
        list
    }

    fn read(envelope: Envelope) -> Result<EndAndClaimReply, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        let retry_at = fields.parse_if_set("when it is tried again")?;
        let ended = match (word.as_str(), retry_at) {
            ("completed", None) => Ended::Completed,
            ("retry_scheduled", Some(at)) => Ended::RetryAt(at),
            ("terminal_failed", None) => Ended::Failed,
            _ => return Err(broken("an end of a run", Value::Bulk(word.into_bytes()))),
        };
        Ok(EndAndClaimReply { ended, claims: ClaimManyReply::read(fields)? })
    }
}
