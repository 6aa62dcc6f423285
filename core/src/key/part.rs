//! The last parts of keys: which record of an entity a key names.

use alloc::string::String;
use core::fmt;

use crate::id::{EdgeId, ExecutionId, LaneId, WorkerInstanceId};

/// Declares the parts of a key: plain words, and words followed by an id.
macro_rules! parts {
    (
        $(#[$doc:meta])*
        pub enum $name:ident {
            $( $(#[$plain_doc:meta])* $plain:ident = $word:literal, )*
            $( ; $( $(#[$with_doc:meta])* $with:ident($kind:ty) = $prefix:literal, )+ )?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$plain_doc])* $plain, )*
            $( $( $(#[$with_doc])* $with($kind), )+ )?
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$plain => f.write_str($word), )*
                    $( $( Self::$with(id) => write!(f, concat!($prefix, "{}"), id), )+ )?
                }
            }
        }

        impl $name {
            /// The part that `text` names, if it names one.
            pub(super) fn read(text: &str) -> Option<Self> {
                $( if text == $word { return Some(Self::$plain); } )*
                $( $( if let Some(rest) = text.strip_prefix($prefix) {
                    return rest.parse().ok().map(Self::$with);
                } )+ )?
                None
            }
        }
    };
}

parts! {
    /// Records of an execution.
    pub enum ExecutionPart {
        /// The execution record.
        Core = "core",
        /// Input payload.
        Payload = "payload",
        /// Result payload.
        Result = "result",
        /// Policy JSON.
        Policy = "policy",
        /// Tags.
        Tags = "tags",
        /// The current lease.
        Lease = "lease:current",
        /// What happened to its leases.
        LeaseHistory = "lease:history",
        /// The grant that waits to be claimed.
        ClaimGrant = "claim_grant",
        /// Its attempts.
        Attempts = "attempts",
        /// The current or last suspension.
        Suspension = "suspension:current",
        /// Tokens that satisfy a composite condition.
        SatisfiedSet = "suspension:current:satisfied_set",
        /// Signals that added such a token.
        SatisfiedSignals = "suspension:current:satisfied_set:signals",
        /// The waitpoint of each node of a composite condition.
        MemberMap = "suspension:current:member_map",
        /// Waitpoints ever bound by a suspension.
        Waitpoints = "waitpoints",
        /// Signals ever accepted.
        Signals = "signals",
        /// Counts of open dependencies.
        DependencyMeta = "deps:meta",
        /// Edges that are still open.
        DependenciesUnresolved = "deps:unresolved",
        /// Edges ever applied.
        DependenciesAll = "deps:all_edges",
        /// Edges that wait for this execution and that no flow lists, with their children.
        DependenciesAwaited = "deps:awaited",
        ;
        /// One dependency.
        Dependency(EdgeId) = "dep:",
    }
}

parts! {
    /// Records of an attempt.
    pub enum AttemptPart {
        /// The attempt record.
        Record = "",
        /// Usage reports.
        Usage = ":usage",
        /// The policy frozen at claim.
        Policy = ":policy",
        /// The rolling summary.
        Summary = ":summary",
    }
}

parts! {
    /// Records of an output stream.
    pub enum StreamPart {
        /// The frames.
        Frames = "",
        /// What is known about the stream.
        Meta = ":meta",
    }
}

parts! {
    /// Records of a waitpoint.
    pub enum WaitpointPart {
        /// The waitpoint record.
        Record = "",
        /// Signals that it received.
        Signals = ":signals",
        /// Its resume condition.
        Condition = ":condition",
    }
}

parts! {
    /// Records of a signal.
    pub enum SignalPart {
        /// The signal record.
        Record = "",
        /// Its payload.
        Payload = ":payload",
    }
}

parts! {
    /// Records of a flow.
    pub enum FlowPart {
        /// The flow record; readers refuse fields that they do not know.
        Core = "core",
        /// Its members.
        Members = "members",
        /// Its tags.
        Tags = "tags",
        /// Members that are still to be cancelled.
        PendingCancels = "pending_cancels",
        /// What the projector counted.
        Summary = "summary",
        /// How far the submission of the whole flow has come; gone once it is sealed.
        Submission = "submission",
        /// Members that wait for the seal of their flow.
        Unsealed = "unsealed",
        /// Reserved.
        Events = "events",
        ;
        /// One edge.
        Edge(EdgeId) = "edge:",
        /// Edges that leave an execution.
        Out(ExecutionId) = "out:",
        /// Edges that enter an execution.
        In(ExecutionId) = "in:",
        /// The group of all edges that enter an execution.
        EdgeGroup(ExecutionId) = "edgegroup:",
        /// Passed when an edge is staged, never touched.
        Grant(EdgeId) = "grant:",
        /// Reserved.
        Member(ExecutionId) = "member:",
    }
}

wire_enum! {
    /// The indexes of a lane; every execution is in exactly the one that its record demands.
    pub enum LaneIndex {
        /// Can be claimed now.
        Eligible = "eligible",
        /// Can be claimed later.
        Delayed = "delayed",
        /// Leased, or its lease was lost.
        Active = "active",
        /// Waits for a signal.
        Suspended = "suspended",
        /// Ended.
        Terminal = "terminal",
        /// Waits for its upstreams.
        BlockedDependencies = "blocked:dependencies",
        /// Waits for a budget.
        BlockedBudget = "blocked:budget",
        /// Waits for a quota.
        BlockedQuota = "blocked:quota",
        /// Waits for a capable worker.
        BlockedRoute = "blocked:route",
        /// Held by an operator.
        BlockedOperator = "blocked:operator",
    }
}

/// Indexes of a partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexPart {
    /// One index of one lane.
    Lane(LaneId, LaneIndex),
    /// Executions that a worker instance holds.
    WorkerLeases(WorkerInstanceId),
    /// An index of the whole partition.
    Whole(PartitionIndex),
}

wire_enum! {
    /// Indexes over a whole partition.
    pub enum PartitionIndex {
        /// Leases by their end.
        LeaseExpiry = "lease_expiry",
        /// Suspensions by their timeout.
        SuspensionTimeout = "suspension_timeout",
        /// Pending waitpoints by their end.
        PendingWaitpointExpiry = "pending_waitpoint_expiry",
        /// Attempts by their timeout.
        AttemptTimeout = "attempt_timeout",
        /// Executions by their deadline.
        ExecutionDeadline = "execution_deadline",
        /// Every execution.
        AllExecutions = "all_executions",
        /// Every flow that is not finished.
        FlowIndex = "flow_index",
        /// Cancelled flows with members that are still to be cancelled.
        CancelBacklog = "cancel_backlog",
        /// Edge groups with siblings that are still to be cancelled.
        PendingCancelGroups = "pending_cancel_groups",
        /// Budgets by their next reset.
        BudgetResets = "budget_resets",
        /// Every budget.
        BudgetPolicies = "budget_policies",
        /// Every quota policy.
        QuotaPolicies = "quota_policies",
    }
}

impl fmt::Display for IndexPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(lane, index) => write!(f, "lane:{lane}:{index}"),
            Self::WorkerLeases(instance) => write!(f, "worker:{instance}:leases"),
            Self::Whole(index) => index.fmt(f),
        }
    }
}

impl IndexPart {
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("lane:") {
            return LaneIndex::ALL.iter().find_map(|&index| {
                let lane = rest.strip_suffix(index.as_str())?.strip_suffix(':')?;
                Some(Self::Lane(lane.parse().ok()?, index))
            });
        }
        if let Some(rest) = text.strip_prefix("worker:") {
            return Some(Self::WorkerLeases(WorkerInstanceId::new(rest.strip_suffix(":leases")?)));
        }
        text.parse().ok().map(Self::Whole)
    }
}

parts! {
    /// Records of a budget.
    pub enum BudgetPart {
        /// The budget record.
        Record = "",
        /// Its limits.
        Limits = ":limits",
        /// What was used.
        Usage = ":usage",
        /// Executions with a ledger.
        LedgerIndex = ":by_exec:index",
        /// Reserved.
        Executions = ":executions",
        ;
        /// What one execution spent.
        Ledger(ExecutionId) = ":by_exec:",
        /// In which period it did.
        LedgerPeriod(ExecutionId) = ":by_exec_period:",
    }
}

parts! {
    /// Records of a quota policy.
    pub enum QuotaPart {
        /// The policy record.
        Record = "",
        /// How many run now.
        Concurrency = ":concurrency",
        /// Who was admitted.
        AdmittedSet = ":admitted_set",
        ;
        /// Admissions within the window, per dimension.
        Window(String) = ":window:",
        /// Says that one execution was admitted in this window.
        Admitted(ExecutionId) = ":admitted:",
    }
}
