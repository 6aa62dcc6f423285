//! Keys by name: `Key::execution(&id).core()`.

use alloc::string::String;

use super::part::PartitionIndex;
use super::{
    AttemptPart, BudgetPart, ExecutionPart, FlowPart, IndexPart, Key, LaneIndex, QuotaPart,
    StreamPart,
};
use crate::id::{
    AttemptIndex, BudgetId, EdgeId, ExecutionId, FlowId, LaneId, QuotaPolicyId, WorkerInstanceId,
};
use crate::partition::Partition;

/// Declares one method per plain part.
macro_rules! plain {
    ($( $(#[$doc:meta])* $method:ident => $part:expr ),+ $(,)?) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $method(&self) -> Key {
            self.part($part)
        }
    )+};
}

/// Keys of one execution.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionKeys<'a> {
    id: &'a ExecutionId,
}

impl<'a> ExecutionKeys<'a> {
    pub(super) const fn new(id: &'a ExecutionId) -> Self {
        Self { id }
    }

    fn part(&self, part: ExecutionPart) -> Key {
        Key::Execution(self.id.clone(), part)
    }

    plain! {
        /// The execution record.
        core => ExecutionPart::Core,
        /// Input payload.
        payload => ExecutionPart::Payload,
        /// Result payload.
        result => ExecutionPart::Result,
        /// Policy JSON.
        policy => ExecutionPart::Policy,
        /// Tags.
        tags => ExecutionPart::Tags,
        /// The current lease.
        lease => ExecutionPart::Lease,
        /// What happened to its leases.
        lease_history => ExecutionPart::LeaseHistory,
        /// The grant that waits to be claimed.
        claim_grant => ExecutionPart::ClaimGrant,
        /// Its attempts.
        attempts => ExecutionPart::Attempts,
        /// The current or last suspension.
        suspension => ExecutionPart::Suspension,
        /// Tokens that satisfy a composite condition.
        satisfied_set => ExecutionPart::SatisfiedSet,
        /// Signals that added such a token.
        satisfied_signals => ExecutionPart::SatisfiedSignals,
        /// The waitpoint of each node of a composite condition.
        member_map => ExecutionPart::MemberMap,
        /// Waitpoints ever bound by a suspension.
        waitpoints => ExecutionPart::Waitpoints,
        /// Signals ever accepted.
        signals => ExecutionPart::Signals,
        /// Counts of open dependencies.
        dependency_meta => ExecutionPart::DependencyMeta,
        /// Edges that are still open.
        dependencies_unresolved => ExecutionPart::DependenciesUnresolved,
        /// Edges ever applied.
        dependencies_all => ExecutionPart::DependenciesAll,
        /// Edges that wait for this execution and that no flow lists, with their children.
        dependencies_awaited => ExecutionPart::DependenciesAwaited,
    }

    /// One dependency.
    #[must_use]
    pub fn dependency(&self, edge: EdgeId) -> Key {
        self.part(ExecutionPart::Dependency(edge))
    }

    /// The record of one attempt.
    #[must_use]
    pub fn attempt(&self, index: AttemptIndex) -> Key {
        Key::Attempt(self.id.clone(), index, AttemptPart::Record)
    }

    /// The usage reports of one attempt.
    #[must_use]
    pub fn attempt_usage(&self, index: AttemptIndex) -> Key {
        Key::Attempt(self.id.clone(), index, AttemptPart::Usage)
    }

    /// The policy frozen for one attempt.
    #[must_use]
    pub fn attempt_policy(&self, index: AttemptIndex) -> Key {
        Key::Attempt(self.id.clone(), index, AttemptPart::Policy)
    }

    /// The rolling summary of one attempt.
    #[must_use]
    pub fn attempt_summary(&self, index: AttemptIndex) -> Key {
        Key::Attempt(self.id.clone(), index, AttemptPart::Summary)
    }

    /// The output frames of one attempt.
    #[must_use]
    pub fn stream(&self, index: AttemptIndex) -> Key {
        Key::Stream(self.id.clone(), index, StreamPart::Frames)
    }

    /// What is known about the output of one attempt.
    #[must_use]
    pub fn stream_meta(&self, index: AttemptIndex) -> Key {
        Key::Stream(self.id.clone(), index, StreamPart::Meta)
    }

    /// The outcome of a suspend with this idempotency key.
    #[must_use]
    pub fn suspend_dedup(&self, idempotency_key: impl Into<String>) -> Key {
        Key::SuspendDedup(self.id.clone(), idempotency_key.into())
    }
}

/// Keys of one flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowKeys {
    partition: Partition,
    id: FlowId,
}

impl FlowKeys {
    pub(super) const fn new(partition: Partition, id: FlowId) -> Self {
        Self { partition, id }
    }

    fn part(&self, part: FlowPart) -> Key {
        Key::Flow(self.partition, self.id, part)
    }

    plain! {
        /// The flow record.
        core => FlowPart::Core,
        /// Its members.
        members => FlowPart::Members,
        /// Its tags.
        tags => FlowPart::Tags,
        /// Members that are still to be cancelled.
        pending_cancels => FlowPart::PendingCancels,
        /// What the projector counted.
        summary => FlowPart::Summary,
        /// How far the submission of the whole flow has come.
        submission => FlowPart::Submission,
        /// Members that wait for the seal of their flow.
        unsealed => FlowPart::Unsealed,
    }

    /// One edge.
    #[must_use]
    pub fn edge(&self, edge: EdgeId) -> Key {
        self.part(FlowPart::Edge(edge))
    }

    /// The grant position of one edge; never touched.
    #[must_use]
    pub fn grant(&self, edge: EdgeId) -> Key {
        self.part(FlowPart::Grant(edge))
    }

    /// Edges that leave an execution.
    #[must_use]
    pub fn out_of(&self, upstream: &ExecutionId) -> Key {
        self.part(FlowPart::Out(upstream.clone()))
    }

    /// Edges that enter an execution.
    #[must_use]
    pub fn in_to(&self, downstream: &ExecutionId) -> Key {
        self.part(FlowPart::In(downstream.clone()))
    }

    /// The group of all edges that enter an execution.
    #[must_use]
    pub fn edge_group(&self, downstream: &ExecutionId) -> Key {
        self.part(FlowPart::EdgeGroup(downstream.clone()))
    }
}

/// Indexes of one partition.
#[derive(Clone, Copy, Debug)]
pub struct IndexKeys {
    partition: Partition,
}

impl IndexKeys {
    pub(super) const fn new(partition: Partition) -> Self {
        Self { partition }
    }

    fn part(&self, index: PartitionIndex) -> Key {
        Key::Index(self.partition, IndexPart::Whole(index))
    }

    plain! {
        /// Leases by their end.
        lease_expiry => PartitionIndex::LeaseExpiry,
        /// Suspensions by their timeout.
        suspension_timeout => PartitionIndex::SuspensionTimeout,
        /// Pending waitpoints by their end.
        pending_waitpoint_expiry => PartitionIndex::PendingWaitpointExpiry,
        /// Attempts by their timeout.
        attempt_timeout => PartitionIndex::AttemptTimeout,
        /// Executions by their deadline.
        execution_deadline => PartitionIndex::ExecutionDeadline,
        /// Every execution.
        all_executions => PartitionIndex::AllExecutions,
        /// Every flow that is not finished.
        flow_index => PartitionIndex::FlowIndex,
        /// Cancelled flows with members that are still to be cancelled.
        cancel_backlog => PartitionIndex::CancelBacklog,
        /// Edge groups with siblings that are still to be cancelled.
        pending_cancel_groups => PartitionIndex::PendingCancelGroups,
        /// Budgets by their next reset.
        budget_resets => PartitionIndex::BudgetResets,
        /// Every budget.
        budget_policies => PartitionIndex::BudgetPolicies,
        /// Every quota policy.
        quota_policies => PartitionIndex::QuotaPolicies,
    }

    /// An index of the whole partition.
    #[must_use]
    pub fn whole(&self, index: PartitionIndex) -> Key {
        self.part(index)
    }

    /// One index of a lane.
    #[must_use]
    pub fn lane(&self, lane: &LaneId, index: LaneIndex) -> Key {
        Key::Index(self.partition, IndexPart::Lane(lane.clone(), index))
    }

    /// Executions that a worker instance holds; an empty name is legal.
    #[must_use]
    pub fn worker_leases(&self, instance: &WorkerInstanceId) -> Key {
        Key::Index(self.partition, IndexPart::WorkerLeases(instance.clone()))
    }
}

/// Keys of one budget.
#[derive(Clone, Copy, Debug)]
pub struct BudgetKeys {
    partition: Partition,
    id: BudgetId,
}

impl BudgetKeys {
    pub(super) const fn new(partition: Partition, id: BudgetId) -> Self {
        Self { partition, id }
    }

    fn part(&self, part: BudgetPart) -> Key {
        Key::Budget(self.partition, self.id, part)
    }

    plain! {
        /// The budget record.
        record => BudgetPart::Record,
        /// Its limits.
        limits => BudgetPart::Limits,
        /// What was used.
        usage => BudgetPart::Usage,
        /// Executions with a ledger.
        ledger_index => BudgetPart::LedgerIndex,
    }

    /// What one execution spent.
    #[must_use]
    pub fn ledger(&self, execution: &ExecutionId) -> Key {
        self.part(BudgetPart::Ledger(execution.clone()))
    }

    /// In which period that execution did.
    #[must_use]
    pub fn ledger_period(&self, execution: &ExecutionId) -> Key {
        self.part(BudgetPart::LedgerPeriod(execution.clone()))
    }
}

/// Keys of one quota policy.
#[derive(Clone, Copy, Debug)]
pub struct QuotaKeys {
    partition: Partition,
    id: QuotaPolicyId,
}

impl QuotaKeys {
    pub(super) const fn new(partition: Partition, id: QuotaPolicyId) -> Self {
        Self { partition, id }
    }

    fn part(&self, part: QuotaPart) -> Key {
        Key::Quota(self.partition, self.id, part)
    }

    plain! {
        /// The policy record.
        record => QuotaPart::Record,
        /// How many run now.
        concurrency => QuotaPart::Concurrency,
        /// Who was admitted.
        admitted_set => QuotaPart::AdmittedSet,
    }

    /// Admissions within the window of one dimension.
    #[must_use]
    pub fn window(&self, dimension: impl Into<String>) -> Key {
        self.part(QuotaPart::Window(dimension.into()))
    }

    /// Says that one execution was admitted in this window.
    #[must_use]
    pub fn admitted(&self, execution: &ExecutionId) -> Key {
        self.part(QuotaPart::Admitted(execution.clone()))
    }
}
