//! Facts worth a log line, a metric or a trace event. The shell and the simulator each decide how
//! to say them.

use alloc::string::String;
use alloc::vec::Vec;

use super::scan::ScannerName;
use super::wire::Ticket;
use crate::error::ServerError;
use crate::id::ExecutionId;
use crate::partition::Partition;

/// What a scan or a cycle did. The counts are of different things and are never mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pieces of work done.
    pub processed: u64,
    /// Candidates with nothing to do.
    pub nothing: u64,
    /// Candidates that a function refused.
    pub refused: u64,
    /// Candidates passed over: backed off, or not ours.
    pub skipped: u64,
    /// Candidates that failed by their own fault.
    pub failed: u64,
    /// Candidates the store could not serve now, or left unanswered.
    pub deferred: u64,
    /// Index entries set aside.
    pub poisoned: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.processed += other.processed;
        self.nothing += other.nothing;
        self.refused += other.refused;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.deferred += other.deferred;
        self.poisoned += other.poisoned;
    }

    /// What the contract's metrics call errors.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.failed + self.refused + self.deferred + self.poisoned
    }

    /// Each count under its name.
    #[must_use]
    pub const fn counts(&self) -> [(&'static str, u64); 7] {
        [
            ("processed", self.processed),
            ("nothing", self.nothing),
            ("refused", self.refused),
            ("skipped", self.skipped),
            ("failed", self.failed),
            ("deferred", self.deferred),
            ("poisoned", self.poisoned),
        ]
    }

    /// Whether anything came up at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// What became of the cancel of a sibling; the contract's metric label.
    pub enum Disposition {
        /// Cancelled now.
        Cancelled = "cancelled",
        /// Had ended before.
        AlreadyTerminal = "already_terminal",
        /// Is gone.
        NotFound = "not_found",
    }
}

words! {
    /// What the reconciler did with a group; the contract's metric label.
    pub enum ReconcileAction {
        /// Removed a note whose group owes nothing.
        SremmedStale = "sremmed_stale",
        /// Finished a drain.
        CompletedDrain = "completed_drain",
        /// Left it to the dispatcher.
        NoOp = "no_op",
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// One scanner went over one partition.
    ScanDone {
        /// Which scanner.
        scanner: ScannerName,
        /// Which partition.
        partition: Partition,
        /// What it did.
        tally: Tally,
    },
    /// One scanner has been over all partitions.
    CycleDone {
        /// Which scanner.
        scanner: ScannerName,
        /// How long it took.
        elapsed_ms: u64,
        /// What it did.
        tally: Tally,
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
    /// A candidate failed so often that it is left alone for some cycles.
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
    /// An index entry that cannot be read was moved aside, for an operator to look at.
    PoisonSetAside {
        /// Which scanner met it.
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
    /// Sum of all cancel backlogs, from a complete sample.
    CancelBacklog(u64),
    /// A sample of the cancel backlogs was incomplete, and is not used.
    CancelBacklogPartial,
    /// The cancel of a sibling was attempted.
    SiblingCancelDispatched {
        /// The group's reason.
        reason: &'static str,
    },
    /// The cancel of a sibling was answered.
    SiblingCancelled(Disposition),
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
    /// A cascade went as deep as it may; the reconciler goes on.
    DepthReached {
        /// Where it stopped.
        execution: ExecutionId,
    },
    /// Dispatch could not finish; the reconciler goes on.
    HandedOver {
        /// Whose edges are left.
        execution: ExecutionId,
        /// Why.
        reason: &'static str,
    },
    /// A server lacks the library, or has another one.
    LibraryMissing {
        /// The server's words.
        text: String,
    },
    /// A server refuses us: rights, role, memory, disk.
    Denied {
        /// The server's words.
        text: String,
    },
    /// An answer came for a batch that is not open any more.
    AnswerIgnored(Ticket),
    /// A batch got no answer in time.
    TicketExpired(Ticket),
    /// Everything in flight has ended after a drain.
    Drained,
}
