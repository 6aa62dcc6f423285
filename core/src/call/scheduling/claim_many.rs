use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::claim_next::{
    ClaimedWork, NoneClaimable, OtherKind, read_none, read_other_kind, read_work,
};
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Fields, Function};
use crate::capability::Capabilities;
use crate::error::CallError;
use crate::id::{AttemptId, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use crate::key::{Key, LaneIndex};
use crate::partition::Partition;
use crate::value::Value;
use crate::work_filter::WorkFilter;

/// Claims several executions of a lane that this worker can run, in one call. An added function.
///
/// Repeating the call with the same leases gives those claims that are still valid, so a lost reply
/// loses nothing.
#[derive(Clone, Debug)]
pub struct ClaimMany {
    /// Where to look.
    pub partition: Partition,
    /// Who claims, and what.
    pub terms: ClaimTerms,
    /// An execution that was admitted after an earlier call had asked for that.
    pub admitted: Option<ExecutionId>,
    /// The leases to grant.
    pub leases: NewLeases,
}

/// Who claims in which lane, and on which terms.
#[derive(Clone, Debug)]
pub struct ClaimTerms {
    /// The lane.
    pub lane: LaneId,
    /// Who claims.
    pub worker_id: WorkerId,
    /// The instance that claims.
    pub worker_instance_id: WorkerInstanceId,
    /// What it can do.
    pub capabilities: Capabilities,
    /// How long a lease is valid.
    pub lease_ttl_ms: u64,
    /// How many candidates to look at; the function has a default and a ceiling.
    pub window: Option<u32>,
    /// After which candidate to start: what an earlier call answered.
    pub after: Option<ExecutionId>,
    /// What it takes.
    pub filter: WorkFilter,
}

/// A lease to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLease {
    /// The new lease id. Use a new one for each claim, and the same one to repeat a claim.
    pub lease_id: LeaseId,
    /// The new attempt; an interrupted execution keeps its own.
    pub attempt_id: AttemptId,
}

/// The leases that a call asks for, in this order: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLeases {
    /// The first. Its id names the note by which a repeated call is recognised.
    pub first: NewLease,
    /// The others, [`NewLeases::MAX`] in all at most.
    pub more: Vec<NewLease>,
}

impl NewLeases {
    /// The function refuses more than this in one call.
    pub const MAX: usize = 64;

    /// A single lease.
    #[must_use]
    pub const fn one(first: NewLease) -> Self {
        Self { first, more: Vec::new() }
    }

    /// How many.
    #[must_use]
    pub const fn count(&self) -> usize {
        1 + self.more.len()
    }

    /// Lease and attempt ids as arguments.
    pub(super) fn args(&self) -> Vec<Vec<u8>> {
        let all = core::iter::once(&self.first).chain(&self.more);
        all.flat_map(|lease| args![lease.lease_id, lease.attempt_id]).collect()
    }
}

/// The result of claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimManyReply {
    /// Executions under valid leases.
    Claimed {
        /// One or more, at most as many as were asked for.
        works: Vec<ClaimedWork>,
        /// What was passed over; none if nothing was.
        passed: Option<Passed>,
    },
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
    /// An earlier call with these leases claimed something, and all of these leases are over.
    Lapsed,
}

/// Candidates that a call passed over before it claimed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The last of them: the next call may start after it.
    pub last: ExecutionId,
    /// The first of a kind that the worker does not take.
    pub other_kind: Option<OtherKind>,
}

impl ClaimManyReply {
    pub(super) fn read(mut fields: Fields) -> Result<Self, CallError> {
        let word = fields.text()?;
        match word.as_str() {
            "claimed" => {
                let (mut works, mut passed) = (Vec::new(), None);
                while !fields.is_empty() {
                    let item = fields.array()?;
                    if item.first() == Some(&Value::Bulk(b"passed".to_vec())) {
                        passed = Some(read_passed(Fields::over(item))?);
                    } else {
                        works.push(read_work(Fields::over(item))?);
                    }
                }
                Ok(Self::Claimed { works, passed })
            }
            "needs_admission" => Ok(Self::NeedsAdmission {
                execution_id: fields.parse("an execution id")?,
                budget_ids: fields.text()?,
                quota_policy_id: fields.text()?,
            }),
            "none_claimable" => read_none(fields).map(Self::NoneClaimable),
            "empty" => Ok(Self::Empty),
            "lapsed" => Ok(Self::Lapsed),
            _ => Err(broken("an outcome of claims", Value::Bulk(word.into_bytes()))),
        }
    }
}

fn read_passed(mut fields: Fields) -> Result<Passed, CallError> {
    fields.expect("passed")?;
    let last = fields.parse("an execution id")?;
    Ok(Passed { last, other_kind: read_other_kind(fields)? })
}

impl Function for ClaimMany {
    const NAME: &'static str = "ff_claim_many";
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
        "lease_ttl_ms",
        "window",
        "offset",
        "admitted_execution_id",
    ];

    type Reply = ClaimManyReply;

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.partition);
        alloc::vec![
            index.lane(&self.terms.lane, LaneIndex::Eligible),
            index.lane(&self.terms.lane, LaneIndex::Active),
            index.lease_expiry(),
            index.worker_leases(&self.terms.worker_instance_id),
            index.attempt_timeout(),
            index.execution_deadline(),
            Key::ClaimNote(self.partition, self.leases.first.lease_id),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut list = self.terms.args();
        list.extend(args![self.admitted]);
        list.extend(self.leases.args());
        list.extend(args![self.terms.filter]);
        list
    }

    fn read(envelope: Envelope) -> Result<ClaimManyReply, CallError> {
        ClaimManyReply::read(envelope.ok()?)
    }
}

impl ClaimTerms {
    pub(super) fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.lane,
            self.worker_id,
            self.worker_instance_id,
            self.capabilities.to_string(),
            self.lease_ttl_ms,
            self.window,
            self.after,
        ]
    }
}
