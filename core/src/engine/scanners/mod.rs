//! The scanners, one file each.
//!
//! A scanner declares which indexes offer its candidates, and what to do with one of them. Paging,
//! batching, the candidate filter, the failure tracker, unreadable entries and counting are the
//! business of `scanning`.

mod attempt_timeout;
mod budget_reconciler;
mod budget_reset;
mod cancel_execution;
mod cancel_reconciler;
mod delayed_promoter;
mod dependency_reconciler;
mod edge_cancel_dispatcher;
mod edge_cancel_reconciler;
mod execution_deadline;
mod flow_projector;
mod index_reconciler;
mod lease_expiry;
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
use super::scanning::{CandidateOutcome, ScanStep};
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex, PartitionIndex};
use crate::partition::{Family, Partition};
use crate::requests::Priority;
use crate::time::ServerTime;

wire_enum! {
    /// The scanners, by the names that metrics carry.
    #[non_exhaustive]
    pub enum ScannerName {
        /// Marks lost leases and requeues their executions.
        LeaseExpiry = "lease_expiry",
        /// Makes delayed executions eligible when their time has come.
        DelayedPromoter = "delayed_promoter",
        /// Ends or retries attempts that exceed their timeout.
        AttemptTimeout = "attempt_timeout",
        /// Ends executions that exceed their deadline.
        ExecutionDeadline = "execution_deadline",
        /// Applies the timeout of a suspension.
        SuspensionTimeout = "suspension_timeout",
        /// Closes waitpoints whose suspension never came.
        PendingWpExpiry = "pending_wp_expiry",
        /// Deletes executions past their retention.
        RetentionTrimmer = "retention_trimmer",
        /// Resets budgets.
        BudgetReset = "budget_reset",
        /// Corrects the breach marks of budgets.
        BudgetReconciler = "budget_reconciler",
        /// Corrects the counts of quotas.
        QuotaReconciler = "quota_reconciler",
        /// Releases executions that admission held.
        Unblock = "unblock",
        /// Resolves edges whose completion no dispatch has handled.
        DependencyReconciler = "dependency_reconciler",
        /// Writes the summaries of flows.
        FlowProjector = "flow_projector",
        /// Repairs index memberships.
        IndexReconciler = "index_reconciler",
        /// Finishes the cancellation of flows.
        CancelReconciler = "cancel_reconciler",
        /// Cancels the siblings that an edge group no longer needs.
        EdgeCancelDispatcher = "edge_cancel_dispatcher",
        /// Finishes interrupted drains of edge groups.
        EdgeCancelReconciler = "edge_cancel_reconciler",
    }
}

/// How far in the past a score is.
#[derive(Clone, Copy, Debug)]
pub enum Age {
    /// So many milliseconds.
    Ms(u64),
    /// The retention of the deployment.
    Retention,
}

impl Age {
    /// In milliseconds, with this configuration.
    #[must_use]
    pub fn ms(self, config: &EngineConfig) -> u64 {
        match self {
            Self::Ms(ms) => ms,
            Self::Retention => config.retention_ms(),
        }
    }
}

/// Where candidates come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Members of a partition's sorted set whose score is in the past.
    Due(PartitionIndex),
    /// The same for an index of each lane, with scores at least this far in the past.
    DueInLane(LaneIndex, Age),
    /// The members of an index of each lane whose scores are less than this far in the past, a few
    /// pages at a time: a slow sweep for what is rarely of interest.
    SweepLane(LaneIndex, Age),
    /// The first members of an index of each lane, without the last ones that the deployment keeps
    /// by number; none if it keeps any number.
    SurplusInLane(LaneIndex),
    /// Every member of an index of each lane, whatever its score.
    AllInLane(LaneIndex),
    /// Every member of a partition's set.
    Members(PartitionIndex),
    /// The executions of a partition whose index entries look wrong: an audit looks at a page of
    /// this set at a time.
    Audit(PartitionIndex),
}

impl Source {
    /// Whether a push tells of what is due in it sooner than an engine would look.
    pub(super) const fn is_told(&self) -> bool {
        match self {
            Self::Due(_) | Self::DueInLane(..) => true,
            Self::AllInLane(LaneIndex::BlockedDependencies) => false,
            Self::AllInLane(_) => true,
            Self::Members(index) => matches!(index, PartitionIndex::PendingCancelGroups),
            Self::SweepLane(..) | Self::SurplusInLane(_) | Self::Audit(_) => false,
        }
    }

    /// Whether it is an index of each lane.
    pub(super) const fn is_by_lane(&self) -> bool {
        match self {
            Self::DueInLane(..)
            | Self::SweepLane(..)
            | Self::SurplusInLane(_)
            | Self::AllInLane(_) => true,
            Self::Due(_) | Self::Members(_) | Self::Audit(_) => false,
        }
    }
}

/// What a scanner declares.
#[derive(Clone, Copy, Debug)]
pub struct ScannerSpec {
    /// Its name.
    pub name: ScannerName,
    /// How often it runs unless configured otherwise.
    pub interval: Duration,
    /// The environment variable that configures its interval.
    pub interval_variable: &'static str,
    /// Which partitions it scans.
    pub family: Family,
    /// Where its candidates come from.
    pub sources: &'static [Source],
    /// How many candidates it reads at a time.
    pub batch: u32,
    /// Whether its candidates are executions to which the engine's filter applies.
    pub filtered: bool,
}

/// A scanner: a declaration, and what to do with one candidate.
pub(super) trait Scanner: Send + Sync {
    fn spec(&self) -> &'static ScannerSpec;

    /// The first step of a candidate.
    ///
    /// # Errors
    /// The outcome, where it is clear without a step. It is not a failure of the scan.
    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome>;

    /// For a sweep over what waits, in case that something was missed: about how many commands a
    /// candidate costs. The more there are, the rarer it comes.
    fn sweep_cost(&self) -> u64 {
        0
    }

    /// Whether its commands let those of other scanners pass.
    fn priority(&self) -> Priority {
        Priority::Due
    }
}

/// What a scanner needs to know besides the candidate.
#[derive(Clone, Debug)]
pub(super) struct ScanContext {
    pub(super) config: Arc<EngineConfig>,
    /// The partition that is scanned.
    pub(super) partition: Partition,
    /// The server's clock when it offered the candidate.
    pub(super) now: ServerTime,
}

/// A member that an index offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The member, verbatim.
    pub(super) member: Vec<u8>,
    /// Its score; none in a plain set.
    pub(super) score: Option<i64>,
    /// The index.
    pub(super) index: Key,
    /// The index's lane, if it has one.
    pub(super) lane: Option<LaneId>,
}

impl Candidate {
    /// The member as text; bytes that are not UTF-8 read as empty, which is no id.
    pub(super) fn text(&self) -> &str {
        core::str::from_utf8(&self.member).unwrap_or_default()
    }

    /// The member as an execution id of this partition.
    ///
    /// # Errors
    /// When it is not one: the entry is unreadable.
    pub(super) fn execution(&self, context: &ScanContext) -> Result<ExecutionId, CandidateOutcome> {
        match self.text().parse::<ExecutionId>() {
            Ok(id) if id.partition() == context.partition => Ok(id),
            Ok(_) => Err(CandidateOutcome::unreadable("an execution of another partition")),
            Err(_) => Err(CandidateOutcome::unreadable("not an execution id")),
        }
    }

    /// The lane of the index.
    ///
    /// # Errors
    /// When the index belongs to no lane: the entry is unreadable.
    pub(super) fn lane(&self) -> Result<LaneId, CandidateOutcome> {
        self.lane.clone().ok_or_else(|| CandidateOutcome::unreadable("an index without a lane"))
    }

    /// The member as any other id. It has to be spelled as the library spells it: a call about
    /// another spelling would miss the index entry.
    ///
    /// # Errors
    /// When it is not one: the entry is unreadable, for this reason.
    pub(super) fn id<T>(&self, reason: &'static str) -> Result<T, CandidateOutcome>
    where
        T: core::str::FromStr + ToString,
    {
        match self.text().parse::<T>() {
            Ok(id) if id.to_string() == self.text() => Ok(id),
            Ok(_) | Err(_) => Err(CandidateOutcome::unreadable(reason)),
        }
    }

    /// A name for logs and for the failure tracker.
    pub(super) fn label(&self) -> String {
        String::from_utf8_lossy(&self.member).into_owned()
    }
}

/// Every scanner, in the order in which a visit reads their pages.
pub(super) static SCANNERS: &[&dyn Scanner] = &[
    &lease_expiry::LeaseExpiry,
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

/// What every scanner declares, in the order in which a visit reads their pages.
pub fn scanner_specs() -> impl Iterator<Item = &'static ScannerSpec> {
    SCANNERS.iter().map(|scanner| scanner.spec())
}

/// Whether a scanner goes at a pace of its own: the more there is to look at, the longer it takes.
pub(super) fn is_paced(spec: &ScannerSpec) -> bool {
    let audits = spec.sources.iter().any(|source| matches!(source, Source::Audit(_)));
    audits || SCANNERS[position(spec.name)].sweep_cost() > 0
}

/// The position of a scanner in [`SCANNERS`].
pub(super) fn position(name: ScannerName) -> usize {
    SCANNERS
        .iter()
        .position(|scanner| scanner.spec().name == name)
        .expect("every scanner is listed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scanner_is_listed_once() {
        for &name in ScannerName::ALL {
            assert_eq!(SCANNERS[position(name)].spec().name, name);
        }
        assert_eq!(SCANNERS.len(), ScannerName::ALL.len());
    }
}
