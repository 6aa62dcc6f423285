//! Observations: facts worth a log line, a metric or a trace event. The shell and the simulator
//! each decide what to do with them.

use alloc::string::String;
use alloc::vec::Vec;

use super::scanners::ScannerName;
use crate::command::Ticket;
use crate::error::{Class, ServerError};
use crate::id::ExecutionId;
use crate::partition::Partition;

/// What a scan or a cycle did. Every candidate is counted once, in one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanCounts {
    /// Pieces of work done.
    pub processed: u64,
    /// Candidates with nothing to do.
    pub nothing: u64,
    /// Candidates that a function refused.
    pub refused: u64,
    /// Candidates passed over: backed off, or excluded by the filter.
    pub skipped: u64,
    /// Candidates whose data cannot be worked on.
    pub failed: u64,
    /// Candidates that the store could not serve now, or whose call was not answered.
    pub deferred: u64,
    /// Index entries that cannot be read, set aside for the operator.
    pub set_aside: u64,
}

impl ScanCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.processed += other.processed;
        self.nothing += other.nothing;
        self.refused += other.refused;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.deferred += other.deferred;
        self.set_aside += other.set_aside;
    }

    /// What the contract's metrics call errors.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.failed + self.refused + self.deferred + self.set_aside
    }

    /// Each count under its name.
    #[must_use]
    pub const fn by_name(&self) -> [(&'static str, u64); 7] {
        [
            ("processed", self.processed),
            ("nothing", self.nothing),
            ("refused", self.refused),
            ("skipped", self.skipped),
            ("failed", self.failed),
            ("deferred", self.deferred),
            ("set_aside", self.set_aside),
        ]
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

wire_enum! {
    /// How the cancellation of a sibling was answered; the contract's metric label.
    #[non_exhaustive]
    pub enum CancelDisposition {
        /// Cancelled by this call.
        Cancelled = "cancelled",
        /// It had ended before.
        AlreadyTerminal = "already_terminal",
        /// There is no such execution.
        NotFound = "not_found",
    }
}

wire_enum! {
    /// What the edge cancel reconciler did with a group; the contract's metric label.
    #[non_exhaustive]
    pub enum ReconcileAction {
        /// Removed an entry whose group has no cancellation pending.
        SremmedStale = "sremmed_stale",
        /// Finished a drain: all siblings had ended.
        CompletedDrain = "completed_drain",
        /// Left it to the edge cancel dispatcher: siblings are running.
        NoOp = "no_op",
    }
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A scan ended: one scanner, one partition.
    ScanDone {
        /// Which scanner.
        scanner: ScannerName,
        /// Which partition.
        partition: Partition,
        /// What it did.
        counts: ScanCounts,
    },
    /// A cycle ended: one scanner, all partitions.
    CycleDone {
        /// Which scanner.
        scanner: ScannerName,
        /// How long it took.
        elapsed_ms: u64,
        /// What it did.
        counts: ScanCounts,
    },
    /// A candidate failed.
    ItemFailed {
        /// Which scanner.
        scanner: ScannerName,
        /// Which partition.
        partition: Partition,
        /// Which candidate.
        item: String,
        /// How.
        error: String,
    },
    /// A candidate failed so often that it is skipped for some cycles.
    ItemBackedOff {
        /// Which scanner.
        scanner: ScannerName,
        /// Which candidate.
        item: String,
        /// How often.
        failures: u32,
        /// For how many cycles.
        backoff_cycles: u64,
    },
    /// An index entry that cannot be read was set aside for the operator.
    EntrySetAside {
        /// Which scanner found it.
        scanner: ScannerName,
        /// Where.
        partition: Partition,
        /// The entry, verbatim.
        member: Vec<u8>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A partition could not be read.
    PartitionFailed {
        /// Which.
        partition: Partition,
        /// Why.
        error: ServerError,
    },
    /// Size of all cancel backlogs together.
    CancelBacklog(u64),
    /// A cancel backlog could not be read, so that the sum is not known.
    CancelBacklogPartial,
    /// The cancellation of a sibling was attempted.
    SiblingCancelDispatched {
        /// The group's reason.
        reason: &'static str,
    },
    /// The cancellation of a sibling was answered.
    SiblingCancelled(CancelDisposition),
    /// A group was reconciled.
    SiblingReconciled(ReconcileAction),
    /// All outgoing edges of an ended execution were resolved.
    Dispatched {
        /// The execution that ended.
        execution: ExecutionId,
        /// How many edges.
        resolved: u64,
        /// How many children were skipped by it.
        skipped: u64,
    },
    /// A cascade reached its depth limit; the reconciler goes on.
    DepthReached {
        /// Where it stopped.
        execution: ExecutionId,
    },
    /// A dispatch could not finish; the reconciler goes on.
    HandedOver {
        /// The execution whose edges may be left.
        execution: ExecutionId,
        /// Why.
        reason: &'static str,
    },
    /// A server lacks the library, or has another one.
    LibraryMissing {
        /// The server's message.
        text: String,
    },
    /// A server refuses commands: permissions, role, memory or disk.
    Denied {
        /// The server's message.
        text: String,
    },
    /// An answer came for a batch that is not in flight.
    AnswerIgnored(Ticket),
    /// A batch got no answer in time.
    BatchTimedOut(Ticket),
    /// After a drain: nothing is in flight any more.
    Drained,
}

impl Observation {
    /// What an error of the store says about the deployment; nothing, when it may be temporary.
    pub(super) fn of_server_error(error: &ServerError) -> Option<Self> {
        let text = || error.text.clone();
        match error.class {
            Class::Library => Some(Self::LibraryMissing { text: text() }),
            Class::Denied => Some(Self::Denied { text: text() }),
            Class::Silence | Class::NotNow | Class::Redirect | Class::Broken => None,
        }
    }
}
