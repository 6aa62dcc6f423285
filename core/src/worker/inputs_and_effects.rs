//! The inputs and effects of a worker, and what a handler may ask for.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use thiserror::Error;

use super::observe::Observation;
use crate::call::budget::{Delta, UsageVerdict};
use crate::call::scheduling::ClaimedWork;
use crate::call::stream::FrameMode;
use crate::call::suspension::{BoundWaitpoint, SuspensionReason, TimeoutBehavior};
use crate::command::{Answer, Command, Ticket};
use crate::error::CallError;
use crate::id::{BudgetId, ExecutionId, LaneId, LeaseId, WaitpointId, WorkerInstanceId};
use crate::partition::Partition;
use crate::push::{Channel, Hint, InvalidHint};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The deadline came. Extra wake-ups do no harm.
    Wake,
    /// A batch was carried out, in whole, in part or perhaps.
    Settled {
        /// Which one.
        ticket: Ticket,
        /// One answer per command, in order; a missing one counts as not answered.
        answers: Vec<Answer>,
    },
    /// A push reported that an execution of the lane became ready on this partition.
    Ready(LaneId, Partition),
    /// A push reported that an operator has set the state of a lane.
    LaneChanged(LaneId),
    /// A push reported that this instance lost the execution.
    Lost(ExecutionId),
    /// The push channel was down: pushes may have been missed.
    PushGap,
    /// A handler ended.
    Ended {
        /// Under which lease it was started.
        lease: LeaseId,
        /// How.
        outcome: HandlerOutcome,
    },
    /// A handler asks for something under its lease.
    HandlerRequested {
        /// Under which lease it was started.
        lease: LeaseId,
        /// To be given back with the answer; never used twice.
        id: u64,
        /// For what.
        request: HandlerRequest,
    },
    /// This many handlers may run at the same time from now on.
    Capacity(usize),
    /// Claim nothing more, let handlers end, put back what does not end in time.
    Drain,
}

impl Input {
    /// The channels whose messages a worker needs.
    #[must_use]
    pub fn channels(lanes: &[LaneId], instance: &WorkerInstanceId) -> Vec<String> {
        let ready = lanes.iter().map(|lane| Channel::Ready(lane.clone()).to_string());
        let others = [Channel::Lost(instance.clone()), Channel::Lanes];
        ready.chain(others.iter().map(Channel::to_string)).collect()
    }

    /// The input for a message; none, where it is for others.
    ///
    /// # Errors
    /// When the message does not belong on its channel.
    pub fn pushed(channel: &str, payload: &[u8]) -> Result<Option<Self>, InvalidHint> {
        Ok(match Hint::read(channel, payload)? {
            Hint::Ready(lane, partition) => Some(Self::Ready(lane, partition)),
            Hint::Lane(lane) => Some(Self::LaneChanged(lane)),
            Hint::Lost(_, execution) => Some(Self::Lost(execution)),
            Hint::Ended(_) | Hint::Frames(..) | Hint::Held(_) | Hint::Freed(_) | Hint::Due(..) => {
                None
            }
        })
    }
}

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerOutcome {
    /// It succeeded, with this result.
    Completed(Vec<u8>),
    /// It failed. The retry policy of the execution decides whether it is retried, but a failure of
    /// the category `permanent` never is.
    Failed {
        /// The category, by which a retry policy chooses.
        category: String,
        /// What went wrong.
        reason: String,
    },
    /// It panicked, with this message.
    Panicked(String),
    /// It wants to run again after this delay, as the same attempt.
    Later(Duration),
    /// It has suspended the execution.
    Suspended,
}

/// What a handler asks for under its lease.
#[derive(Clone, Debug)]
pub enum HandlerRequest {
    /// To record progress.
    Progress {
        /// How much is done.
        percent: u16,
        /// What is being done.
        message: String,
    },
    /// To append a frame to its output. Not repeated if it was perhaps appended.
    Frame {
        /// The kind of frame.
        kind: String,
        /// Its payload.
        payload: Vec<u8>,
        /// How it is kept.
        mode: FrameMode,
    },
    /// To add usage that has happened to every budget of the execution; a report counts once.
    Spend {
        /// The name of the report, within the attempt.
        report: String,
        /// What was used.
        deltas: Vec<Delta>,
    },
    /// To create a waitpoint that can be signalled before the execution suspends on it.
    Waitpoint {
        /// After how long it closes unless the execution has suspended on it.
        expires_in: Duration,
    },
    /// To suspend the execution, which gives up the lease.
    Suspend(Suspension),
}

/// Until when an execution is suspended.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// The waitpoint that was created ahead; a new one if there is none.
    pub waitpoint: Option<WaitpointId>,
    /// Which signals resume it, as JSON.
    pub condition_json: String,
    /// The reason that is recorded.
    pub reason: SuspensionReason,
    /// What happens if it is not resumed within this time.
    pub timeout: Option<(Duration, TimeoutBehavior)>,
}

/// What a handler gets for what it asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerReply {
    /// It was done.
    Done,
    /// The verdict of each budget.
    Spent(Vec<(BudgetId, UsageVerdict)>),
    /// The waitpoint.
    Waitpoint(BoundWaitpoint),
    /// The waitpoints of the suspension, the first one first.
    Suspended(Vec<BoundWaitpoint>),
}

/// Why a handler does not get what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandlerRequestError {
    /// The lease is lost, or the handler has given it up: nothing that it does counts any more.
    #[error("the lease was lost")]
    LeaseLost,
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// Its lease is lost: the execution was cancelled, revoked or given to another. Its outcome
    /// will be discarded.
    LeaseLost,
    /// Its lease could not be renewed in time. Its outcome will be discarded.
    LeaseExpired,
    /// The drain time of the worker is over. Its outcome still counts.
    Draining,
}

/// Something to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Carry out these commands, in order, as one pipeline. All keys are in one hash slot.
    Send {
        /// To be given back with the answers.
        ticket: Ticket,
        /// The slot of all keys.
        slot: u16,
        /// What to send.
        batch: Vec<Command>,
    },
    /// Run the handler of this execution. Its end is an [`Input::Ended`] with the lease of the
    /// fence.
    Start {
        /// The lane it came from.
        lane: LaneId,
        /// The execution.
        work: ClaimedWork,
    },
    /// Tell a handler to stop.
    Cancel {
        /// Under which lease it was started.
        lease: LeaseId,
        /// Why.
        reason: CancelReason,
    },
    /// Drop a handler that did not stop. Its end is of no interest any more.
    Abort {
        /// Under which lease it was started.
        lease: LeaseId,
    },
    /// Answer a handler.
    Answer {
        /// Of the request.
        id: u64,
        /// The answer.
        answer: Result<HandlerReply, HandlerRequestError>,
    },
    /// Something worth a log line, a metric or a trace event.
    Observe(Observation),
}
