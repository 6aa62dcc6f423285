use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Fields, Function};
use crate::capability::Capabilities;
use crate::error::CallError;
use crate::id::{
    AttemptId, AttemptIndex, ExecutionId, Fence, FlowId, LaneId, LeaseId, WorkerId,
    WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;
use crate::work_filter::WorkFilter;

/// Claims the best eligible execution of a lane that this worker can run, in one round trip. An
/// added function.
///
/// Repeating the call with the same lease id gives the same answer while that lease stands, so a
/// lost reply loses nothing.
#[derive(Clone, Debug)]
pub struct ClaimNext {
    /// Where to look.
    pub partition: Partition,
    /// Which lane of it.
    pub lane: LaneId,
    /// Who claims.
    pub worker_id: WorkerId,
    /// The instance that claims.
    pub worker_instance_id: WorkerInstanceId,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The new lease id. Use a new one for each claim, and the same one to repeat a claim.
    pub lease_id: LeaseId,
    /// How long the lease is valid.
    pub lease_ttl_ms: u64,
    /// The new attempt; an interrupted execution keeps its own.
    pub attempt_id: AttemptId,
    /// How many candidates to look at; the function has a default and a ceiling.
    pub window: Option<u32>,
    /// After which candidate to start: what an earlier call answered, when it found none.
    pub after: Option<ExecutionId>,
    /// An execution that was admitted after an earlier call had asked for that.
    pub admitted: Option<ExecutionId>,
    /// What it takes.
    pub filter: WorkFilter,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimNextReply {
    /// An execution, under a valid lease.
    Claimed(ClaimedWork),
    /// The best candidate is under budgets or a quota, which live elsewhere: admit it and call
    /// again with its id, or hold it back.
    NeedsAdmission {
        /// The candidate.
        execution_id: ExecutionId,
        /// Its budgets, joined by commas.
        budget_ids: String,
        /// Its quota policy, if any.
        quota_policy_id: String,
    },
    /// There are candidates, but none for this worker now.
    NoneClaimable(NoneClaimable),
    /// Nothing waits in the lane.
    Empty,
    /// An earlier call with this lease id claimed this execution, and the lease is over.
    Lapsed(ExecutionId),
}

/// Candidates were looked at, and none was for this worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoneClaimable {
    /// After which candidate to go on; none if all were looked at.
    pub next: Option<ExecutionId>,
    /// The first of a kind that the worker does not take.
    pub other_kind: Option<OtherKind>,
}

/// An execution in the namespace of a worker, of a kind that it does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherKind {
    /// The kind.
    pub kind: String,
    /// How long it had been eligible, in milliseconds.
    pub waited_ms: u64,
}

/// Everything a worker needs to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedWork {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The fence that the holder sends with every call.
    pub fence: Fence,
    /// When the lease ends unless it is renewed.
    pub lease_expires_at: ServerTime,
    /// The attempt.
    pub attempt_index: AttemptIndex,
    /// `initial`, `retry`, `replay`, `reclaim` or `resumed`.
    pub attempt_type: String,
    /// What kind of work it is.
    pub execution_kind: String,
    /// The flow it belongs to.
    pub flow_id: Option<FlowId>,
    /// Its input.
    pub payload: Vec<u8>,
    /// Its policy, as JSON; empty when it has none.
    pub policy_json: Vec<u8>,
    /// How long it had been eligible, in milliseconds; none from a library that does not tell.
    pub waited_ms: Option<u64>,
}

impl Function for ClaimNext {
    const NAME: &'static str = "ff_claim_next";
    const KEYS: &'static [&'static str] = &[
        "eligible",
        "active",
        "lease_expiry",
        "worker_leases",
        "attempt_timeout",
        "execution_deadline",
        "claim_note",
    ];
    const ARGS: &'static [&'static str] = &[
        "lane",
        "worker_id",
        "worker_instance_id",
        "worker_capabilities_csv",
        "lease_id",
        "lease_ttl_ms",
        "attempt_id",
        "window",
        "offset",
        "admitted_execution_id",
        "work_filter",
    ];

    type Reply = ClaimNextReply;

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.partition);
        alloc::vec![
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lane(&self.lane, LaneIndex::Active),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
            index.attempt_timeout(),
            index.execution_deadline(),
            Key::ClaimNote(self.partition, self.lease_id),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.lane,
            self.worker_id,
            self.worker_instance_id,
            self.capabilities.to_string(),
            self.lease_id,
            self.lease_ttl_ms,
            self.attempt_id,
            self.window,
            self.after,
            self.admitted,
            self.filter,
        ]
    }

    fn read(envelope: Envelope) -> Result<ClaimNextReply, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "claimed" => read_work(fields).map(ClaimNextReply::Claimed),
            "needs_admission" => Ok(ClaimNextReply::NeedsAdmission {
                execution_id: fields.parse("an execution id")?,
                budget_ids: fields.text()?,
                quota_policy_id: fields.text()?,
            }),
            "none_claimable" => read_none(fields).map(ClaimNextReply::NoneClaimable),
            "empty" => Ok(ClaimNextReply::Empty),
            "lapsed" => fields.parse("an execution id").map(ClaimNextReply::Lapsed),
            _ => Err(broken("an outcome of a claim", Value::Bulk(word.into_bytes()))),
        }
    }
}

pub(super) fn read_none(mut fields: Fields) -> Result<NoneClaimable, CallError> {
    let next = fields.parse_if_set("an execution id")?;
    Ok(NoneClaimable { next, other_kind: read_other_kind(fields)? })
}

/// The kind may be any text, and is empty if there is none.
pub(super) fn read_other_kind(mut fields: Fields) -> Result<Option<OtherKind>, CallError> {
    let kind = fields.text()?;
    let waited_ms = fields.parse_if_set("how long it waited")?;
    Ok(waited_ms.map(|waited_ms| OtherKind { kind, waited_ms }))
}

pub(super) fn read_work(mut fields: Fields) -> Result<ClaimedWork, CallError> {
    let execution_id = fields.parse("an execution id")?;
    let lease_id = fields.parse("a lease id")?;
    let lease_epoch = fields.parse("a lease epoch")?;
    let lease_expires_at = fields.parse("when the lease ends")?;
    let attempt_id = fields.parse("an attempt id")?;
    Ok(ClaimedWork {
        execution_id,
        fence: Fence { lease_id, lease_epoch, attempt_id },
        lease_expires_at,
        attempt_index: fields.parse("an attempt index")?,
        attempt_type: fields.text()?,
        execution_kind: fields.text()?,
        flow_id: fields.parse_if_set("a flow id")?,
        payload: fields.bytes()?,
        policy_json: fields.bytes()?,
        waited_ms: fields.parse_if_set("how long it waited")?,
    })
}
