//! Observations of a worker: facts worth a log line, a metric or a trace event.

use alloc::string::String;

use super::inputs_and_effects::HandlerOutcome;
use crate::call::budget::HoldReason;
use crate::command::Ticket;
use crate::error::{CallError, Refusal};
use crate::id::{ExecutionId, LaneId};
use crate::partition::Partition;

/// How an attempt ended, as the contract's metric labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// Completed.
    Ok,
    /// Failed, and will not be retried.
    Error,
    /// Timed out, or its lease expired.
    Timeout,
    /// Cancelled.
    Cancelled,
    /// Failed, and will be retried.
    Retry,
}

impl AttemptOutcome {
    /// The outcome of an attempt whose report or renewal was refused. The refusal's first detail is
    /// the execution's outcome, if it has ended.
    pub(super) fn of_refused(refusal: &Refusal) -> Self {
        match refusal.detail(0).as_str() {
            "cancelled" => Self::Cancelled,
            _ => Self::Timeout,
        }
    }

    /// The contract's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Retry => "retry",
        }
    }
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// An execution was claimed.
    Claimed {
        /// Which.
        execution: ExecutionId,
        /// From which lane.
        lane: LaneId,
        /// Its kind.
        kind: String,
        /// How long the claim took.
        took_ms: u64,
        /// How long the execution had been eligible.
        waited_ms: Option<u64>,
        /// Whether the claim had been repeated because its reply was lost.
        repeated: bool,
    },
    /// A claim failed, and will be repeated.
    ClaimFailed {
        /// Where.
        partition: Partition,
        /// How.
        error: CallError,
    },
    /// Claims on a partition stay unanswered: others use their permits meanwhile.
    ClaimSlow(Partition),
    /// A claim whose reply was lost is repeated.
    ClaimRepeated(Partition),
    /// A claim whose reply was lost is repeated no more: a lease from it has lapsed.
    ClaimGivenUp(Partition),
    /// A claimed execution waits for a permit: its claim was slow.
    NoPermit(ExecutionId),
    /// A claimed execution is put back without having run, or after its handler did not stop.
    PutBack(ExecutionId),
    /// Executions became ready while all permits were in use.
    AtCapacity,
    /// Executions of a kind wait in a lane, and no worker is registered that handles it.
    KindUnhandled {
        /// In which lane.
        lane: LaneId,
        /// Which kind.
        kind: String,
        /// How long one of them has waited.
        waited_ms: u64,
    },
    /// An operator has paused a lane, or ended its pause.
    LanePaused {
        /// Which.
        lane: LaneId,
        /// Whether it is paused now.
        is_paused: bool,
    },
    /// The sizes of all ready indexes are read, because pushes may have been missed.
    Surveyed,
    /// An execution that needs admission was admitted.
    Admitted(ExecutionId),
    /// An execution was not admitted, and is blocked.
    NotAdmitted {
        /// Which.
        execution: ExecutionId,
        /// By what.
        reason: HoldReason,
        /// Why, for people.
        detail: String,
    },
    /// An execution was not blocked: its state had changed.
    NotBlocked {
        /// Which.
        execution: ExecutionId,
        /// What the store says.
        refusal: Refusal,
    },
    /// An admission could not be decided, and will be tried again.
    AdmissionFailed {
        /// Of which execution.
        execution: ExecutionId,
        /// Why.
        error: CallError,
    },
    /// A lease renewal was answered.
    Renewed {
        /// Whether it succeeded.
        ok: bool,
    },
    /// A renewal failed, and will be repeated.
    RenewalFailed {
        /// Of which execution.
        execution: ExecutionId,
        /// How.
        error: CallError,
    },
    /// A lease was lost.
    LeaseLost {
        /// Of which execution.
        execution: ExecutionId,
        /// What the store says; none if the lease expired before it could be renewed.
        refusal: Option<Refusal>,
    },
    /// An outcome was not acknowledged, and will be reported again.
    ReportUnanswered {
        /// Of which execution.
        execution: ExecutionId,
        /// How it failed.
        error: CallError,
    },
    /// An outcome is reported no more: the store fails on it each time.
    ReportGivenUp {
        /// Of which execution.
        execution: ExecutionId,
        /// How it failed.
        error: CallError,
    },
    /// An earlier report had been applied: only its reply was lost.
    ReportFound(ExecutionId),
    /// The store rejected an outcome.
    ReportRejected {
        /// Of which execution.
        execution: ExecutionId,
        /// What the store says.
        refusal: Refusal,
    },
    /// An outcome is discarded: the lease is lost, or the execution is suspended.
    OutcomeDiscarded {
        /// Of which execution.
        execution: ExecutionId,
        /// The outcome; none if the handler is not known to have ended.
        outcome: Option<HandlerOutcome>,
    },
    /// An attempt ended.
    AttemptEnded {
        /// Of which execution.
        execution: ExecutionId,
        /// In which lane.
        lane: LaneId,
        /// How.
        outcome: AttemptOutcome,
    },
    /// An execution was suspended by its handler.
    Suspended(ExecutionId),
    /// A quota slot was given back.
    QuotaReleased(ExecutionId),
    /// A quota slot was kept: the execution still needs it.
    QuotaKept(ExecutionId),
    /// A quota slot was not released: the engine will do it.
    QuotaNotReleased {
        /// The execution that has it.
        execution: ExecutionId,
        /// Why.
        error: CallError,
    },
    /// An answer came for a batch that is not in flight.
    AnswerIgnored(Ticket),
    /// A batch got no answer in time.
    BatchTimedOut(Ticket),
    /// The drain time is over: handlers are told to stop.
    DrainTimeOver,
    /// After a drain: nothing is left to do.
    Drained,
}
