//! Cancels one execution.

use alloc::string::String;
use alloc::vec;

use super::{Failure, Procedure, Replies, Step};
use crate::call::execution::CancelExecution;
use crate::command::Command;
use crate::error::Code;
use crate::id::ExecutionId;
use crate::reply::record;
use crate::state::TerminalOutcome;
use crate::value::Value;

/// Cancels an execution in any state. Succeeds if it is cancelled already.
pub struct Cancel {
    id: ExecutionId,
    reason: String,
    /// Where it waits and who runs it, as its record says.
    call: Option<CancelExecution>,
}

impl Cancel {
    /// Cancels this execution for this reason.
    #[must_use]
    pub const fn new(id: ExecutionId, reason: String) -> Self {
        Self { id, reason, call: None }
    }
}

impl Procedure for Cancel {
    type Output = ();

    fn begin(&mut self) -> Step<()> {
        Step::Send(vec![CancelExecution::record_read(&self.id)])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<()> {
        if self.call.is_none() {
            let call = cancel_call(&self.id, replies.value(), &self.reason, "operator_override");
            let Some(call) = call else {
                return Step::Done(Err(Failure::not_found("execution", &self.id)));
            };
            return Step::Send(vec![Command::call(self.call.insert(call))]);
        }
        match replies.call::<CancelExecution>() {
            Ok(_) => Step::Done(Ok(())),
            // By this call or by another one.
            Err(Failure::Refused(refusal))
                if refusal.code == Code::ExecutionNotActive
                    && refusal.detail(0) == TerminalOutcome::Cancelled.as_str() =>
            {
                Step::Done(Ok(()))
            }
            Err(Failure::Refused(refusal)) if refusal.code == Code::ExecutionNotFound => {
                Step::Done(Err(Failure::not_found("execution", &self.id)))
            }
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}

/// The call that cancels an execution, filled in from its record; none without a record.
pub(super) fn cancel_call(
    id: &ExecutionId,
    reply: Value,
    reason: &str,
    source: &str,
) -> Option<CancelExecution> {
    let record = record(reply)?;
    let fields = [0, 1, 2, 3].map(|at| record.field(at));
    Some(CancelExecution::of_record(id.clone(), fields, reason, source))
}
