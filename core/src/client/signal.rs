//! Sends a signal to a waitpoint.

use alloc::vec;

use super::{Failure, Procedure, Replies, Step};
use crate::call::signal::{
    BufferSignalForPendingWaitpoint, DeliverSignal, IncomingSignal, SignalEffect, SignalReceipt,
};
use crate::command::Command;
use crate::error::Code;
use crate::id::LaneId;

/// Sends a signal: delivers it to a suspended execution, or has it kept for one that is about to
/// suspend. Returns its effect, or none if a signal with the same key was accepted before.
pub struct SendSignal {
    signal: IncomingSignal,
    buffers: bool,
}

impl SendSignal {
    /// Sends this signal. It should have an idempotency key, because it may be sent twice.
    #[must_use]
    pub const fn new(signal: IncomingSignal) -> Self {
        Self { signal, buffers: false }
    }
}

impl Procedure for SendSignal {
    type Output = Option<SignalEffect>;

    fn begin(&mut self) -> Step<Option<SignalEffect>> {
        self.buffers = false;
        // The library uses the lane in the record, not this one.
        let lane = LaneId::default_lane();
        Step::Send(vec![Command::call(&DeliverSignal { signal: self.signal.clone(), lane })])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<Option<SignalEffect>> {
        let receipt = if self.buffers {
            replies.call::<BufferSignalForPendingWaitpoint>()
        } else {
            replies.call::<DeliverSignal>()
        };
        match receipt {
            Ok(SignalReceipt::Accepted { effect, .. }) => Step::Done(Ok(Some(effect))),
            Ok(SignalReceipt::Duplicate { .. }) => Step::Done(Ok(None)),
            Err(Failure::Refused(refusal))
                if refusal.code == Code::WaitpointPendingUseBufferScript && !self.buffers =>
            {
                self.buffers = true;
                let signal = self.signal.clone();
                Step::Send(vec![Command::call(&BufferSignalForPendingWaitpoint { signal })])
            }
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}
