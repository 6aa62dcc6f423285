//! The scanners: one short file each, saying only what is particular to it.
//!
//! A scanner names the indexes that offer candidates and what to do with one. Paging, batching,
//! the candidate filter, the failure tracker, poison and accounting are the driver's.

mod attempt_timeout;
mod budget_reconciler;
mod budget_reset;
mod cancel;
mod cancel_reconciler;
mod delayed_promoter;
mod dependency_reconciler;
mod edge_cancel_dispatcher;
mod edge_cancel_reconciler;
mod execution_deadline;
mod flow_projector;
mod index_reconciler;
mod lease_expiry;
mod lease_reclaimer;
mod pending_wp_expiry;
mod quota_reconciler;
mod retention_trimmer;
mod staged_edges;
mod suspension_timeout;
mod unblock;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::config::EngineConfig;
use super::step::{Step, Verdict};
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex, PartitionIndex};
use crate::partition::{Family, Partition};
use crate::time::ServerTime;

words! {
    /// The scanners by the names that metrics carry.
    pub enum ScannerName {
        /// Marks leases past their end.
        LeaseExpiry = "lease_expiry",
        /// Brings lost work back in line.
        LeaseReclaimer = "lease_reclaimer",
        /// Moves delayed executions whose time came.
        DelayedPromoter = "delayed_promoter",
        /// Ends or retries attempts that take too long.
        AttemptTimeout = "attempt_timeout",
        /// Ends executions past their deadline.
        ExecutionDeadline = "execution_deadline",
        /// Applies the timeout of a suspension.
        SuspensionTimeout = "suspension_timeout",
        /// Closes waitpoints whose suspension never came.
        PendingWpExpiry = "pending_wp_expiry",
        /// Deletes what ended long ago.
        RetentionTrimmer = "retention_trimmer",
        /// Resets budgets.
        BudgetReset = "budget_reset",
        /// Keeps the breach mark of budgets true.
        BudgetReconciler = "budget_reconciler",
        /// Keeps the counts of quotas true.
        QuotaReconciler = "quota_reconciler",
        /// Lets go what admission held back.
        Unblock = "unblock",
        /// Resolves edges whose completion nobody heard.
        DependencyReconciler = "dependency_reconciler",
        /// Writes the summaries of flows.
        FlowProjector = "flow_projector",
        /// Repairs index memberships.
        IndexReconciler = "index_reconciler",
        /// Finishes the cancel of flows.
        CancelReconciler = "cancel_reconciler",
        /// Cancels the siblings that a group no longer needs.
        EdgeCancelDispatcher = "edge_cancel_dispatcher",
        /// Finishes interrupted drains.
        EdgeCancelReconciler = "edge_cancel_reconciler",
    }
}

/// Where candidates come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Members of a partition's sorted set whose score has come.
    Due(PartitionIndex),
    /// The same for an index of each lane, with scores this many milliseconds in the past.
    DueInLane(LaneIndex, u64),
    /// The members of an index of each lane whose scores are less than so many milliseconds in
    /// the past, as a slow sweep: a few pages at a time, for what is only rarely of interest.
    SweepLane(LaneIndex, u64),
    /// Every member of an index of each lane, whatever its score.
    AllInLane(LaneIndex),
    /// Every member of a partition's set.
    Members(PartitionIndex),
}

impl Source {
    /// Whether it is an index of each lane.
    #[must_use]
    pub const fn is_by_lane(&self) -> bool {
        match self {
            Self::DueInLane(..) | Self::SweepLane(..) | Self::AllInLane(_) => true,
            Self::Due(_) | Self::Members(_) => false,
        }
    }
}

/// What the driver must know about a scanner.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name.
    pub name: ScannerName,
    /// How often it runs unless told otherwise.
    pub every: Duration,
    /// The variable that tells otherwise.
    pub interval_variable: &'static str,
    /// Over which partitions.
    pub family: Family,
    /// Where its candidates come from.
    pub sources: &'static [Source],
    /// How many candidates at a time.
    pub batch: u32,
    /// Whether candidates are executions to which the engine's filter applies.
    pub filtered: bool,
}

/// A scanner: a declaration, and what to do with one candidate.
pub trait Scanner: Send + Sync {
    /// What the driver must know.
    fn spec(&self) -> &'static Spec;

    /// What to do with a candidate; a verdict, where that is clear at once.
    ///
    /// # Errors
    /// The verdict: not a failure of the scan, but its end for this candidate.
    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict>;

    /// Whether its work gives way to what is due: nobody waits for an audit.
    fn is_patient(&self) -> bool {
        false
    }
}

/// The circumstances of a scan.
#[derive(Clone, Debug)]
pub struct Scene {
    /// How the engine is configured.
    pub config: Arc<EngineConfig>,
    /// The partition that is scanned.
    pub partition: Partition,
    /// The server's clock when it offered the candidates.
    pub now: ServerTime,
}

/// A member that an index offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The member, verbatim.
    pub member: Vec<u8>,
    /// Its score; none from a plain set.
    pub score: Option<i64>,
    /// The index.
    pub index: Key,
    /// The index's lane, if it has one.
    pub lane: Option<LaneId>,
}

impl Candidate {
    /// The member as text; bytes that are none read as empty, which is no id.
    #[must_use]
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.member).unwrap_or_default()
    }

    /// The member as an execution id of this partition.
    ///
    /// # Errors
    /// The verdict on a member that is none: poison.
    pub fn execution(&self, scene: &Scene) -> Result<ExecutionId, Verdict> {
        match self.text().parse::<ExecutionId>() {
            Ok(id) if id.partition() == scene.partition => Ok(id),
            Ok(_) => Err(Verdict::poison("an execution of another partition")),
            Err(_) => Err(Verdict::poison("not an execution id")),
        }
    }

    /// The lane of the index.
    ///
    /// # Errors
    /// The verdict on a candidate of an index without lane: poison.
    pub fn lane(&self) -> Result<LaneId, Verdict> {
        self.lane.clone().ok_or_else(|| Verdict::poison("an index without a lane"))
    }

    /// The member as any other id, spelled as the library does: a call about another spelling
    /// would miss the index entry.
    ///
    /// # Errors
    /// The verdict on a member that is none: poison.
    pub fn id<T>(&self, reason: &'static str) -> Result<T, Verdict>
    where
        T: core::str::FromStr + ToString,
    {
        match self.text().parse::<T>() {
            Ok(id) if id.to_string() == self.text() => Ok(id),
            Ok(_) | Err(_) => Err(Verdict::poison(reason)),
        }
    }

    /// A name for logs and for the failure tracker.
    #[must_use]
    pub fn label(&self) -> String {
        String::from_utf8_lossy(&self.member).into_owned()
    }
}

/// Every scanner, in the order in which a visit asks for their candidates.
pub static SCANNERS: &[&dyn Scanner] = &[
    &lease_expiry::LeaseExpiry,
    &lease_reclaimer::LeaseReclaimer,
    &delayed_promoter::DelayedPromoter,
    &attempt_timeout::AttemptTimeout,
    &execution_deadline::ExecutionDeadline,
    &suspension_timeout::SuspensionTimeout,
    &pending_wp_expiry::PendingWpExpiry,
    &edge_cancel_dispatcher::EdgeCancelDispatcher,
    &edge_cancel_reconciler::EdgeCancelReconciler,
    &cancel_reconciler::CancelReconciler,
    &dependency_reconciler::DependencyReconciler,
    &unblock::Unblock,
    &flow_projector::FlowProjector,
    &index_reconciler::IndexReconciler,
    &retention_trimmer::RetentionTrimmer,
    &budget_reset::BudgetReset,
    &budget_reconciler::BudgetReconciler,
    &quota_reconciler::QuotaReconciler,
];

/// Where a scanner stands among [`SCANNERS`].
pub(super) fn position(name: ScannerName) -> Option<usize> {
    SCANNERS.iter().position(|scanner| scanner.spec().name == name)
}
