//! The three ways to close a sibling-cancel job, and what each of them answers.

use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::value::Value;

/// A job: the siblings that a decided group no longer needs are to be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiblingCancelJob {
    /// The flow.
    pub flow_id: FlowId,
    /// The child whose group was decided.
    pub downstream: ExecutionId,
}

const KEYS: &[&str] = &["pending_cancel_groups", "edgegroup"];

impl SiblingCancelJob {
    fn keys(&self) -> Vec<Key> {
        let partition = self.downstream.partition();
        alloc::vec![
            Key::index(partition).pending_cancel_groups(),
            Key::flow(partition, self.flow_id).edge_group(&self.downstream),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.flow_id, self.downstream]
    }
}

/// Closes a job without checking whether the siblings have ended.
#[derive(Clone, Debug)]
pub struct DrainSiblingCancelGroup(pub SiblingCancelJob);

wire_enum! {
    /// The result of closing a job.
    pub enum Drain {
        /// It is closed.
        Drained = "drained",
        /// It is closed; its group had been gone.
        DrainedSansGroup = "drained_sans_group",
        /// It had been closed before.
        AlreadyDrained = "already_drained",
    }
}

impl Function for DrainSiblingCancelGroup {
    const NAME: &'static str = "ff_drain_sibling_cancel_group";
    const KEYS: &'static [&'static str] = KEYS;
    const ARGS: &'static [&'static str] = &["flow_id", "downstream_eid"];

    type Reply = Drain;

    fn keys(&self) -> Vec<Key> {
        self.0.keys()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.0.args()
    }

    fn read(envelope: Envelope) -> Result<Drain, CallError> {
        envelope.ok()?.parse("an outcome of a drain")
    }
}

/// Closes a job if all its siblings have ended; otherwise returns the next ones to cancel.
#[derive(Clone, Debug)]
pub struct DrainSiblingCancelGroupChecked {
    /// The job.
    pub job: SiblingCancelJob,
    /// How many siblings to answer; the store has its own limit unless given.
    pub limit: Option<u32>,
    /// The last sibling of the previous page; empty for the first page.
    pub after: Option<ExecutionId>,
}

/// What became of a sibling-cancel job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedDrain {
    /// All its siblings have ended: it is closed.
    Drained(Drain),
    /// These siblings still run, perhaps among others; none if only those are left that were
    /// answered before.
    SiblingsRunning(Vec<ExecutionId>),
}

impl Function for DrainSiblingCancelGroupChecked {
    const NAME: &'static str = "ff_drain_sibling_cancel_group_checked";
    const KEYS: &'static [&'static str] = KEYS;
    const ARGS: &'static [&'static str] = &["flow_id", "downstream_eid", "limit", "after"];

    type Reply = CheckedDrain;

    fn keys(&self) -> Vec<Key> {
        self.job.keys()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.job.flow_id, self.job.downstream, self.limit, self.after]
    }

    fn read(envelope: Envelope) -> Result<CheckedDrain, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        if let Ok(drain) = word.parse() {
            return Ok(CheckedDrain::Drained(drain));
        }
        if word != "siblings_running" {
            return Err(broken("an outcome of a drain", Value::Bulk(word.into_bytes())));
        }
        let mut siblings = Vec::new();
        while !fields.is_empty() {
            siblings.push(fields.parse("an execution id")?);
        }
        Ok(CheckedDrain::SiblingsRunning(siblings))
    }
}

/// Finishes a job whose drain was lost.
#[derive(Clone, Debug)]
pub struct ReconcileSiblingCancelGroup(pub SiblingCancelJob);

wire_enum! {
    /// What a reconciliation did.
    pub enum GroupReconciliation {
        /// Nothing: a sibling runs, or there is no such job.
        NoOp = "no_op",
        /// It removed a note without a job.
        RemovedStale = "sremmed_stale",
        /// It closed the job.
        CompletedDrain = "completed_drain",
    }
}

impl Function for ReconcileSiblingCancelGroup {
    const NAME: &'static str = "ff_reconcile_sibling_cancel_group";
    const KEYS: &'static [&'static str] = KEYS;
    const ARGS: &'static [&'static str] = &["flow_id", "downstream_eid"];

    type Reply = GroupReconciliation;

    fn keys(&self) -> Vec<Key> {
        self.0.keys()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.0.args()
    }

    fn read(envelope: Envelope) -> Result<GroupReconciliation, CallError> {
        envelope.ok()?.parse("an outcome of a reconciliation")
    }
}
