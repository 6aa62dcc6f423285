//! Cancelling executions on behalf of a flow or an edge group: what must be read for the call, and
//! what its reply means.

use alloc::string::String;
use alloc::vec::Vec;

use crate::call::execution::CancelExecution;
use crate::engine::reply::texts;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::error::{CallError, Code};
use crate::id::ExecutionId;

/// How the cancellation of one execution ended.
pub(super) enum Cancelled {
    /// Cancelled by this call.
    Now,
    /// It had ended before.
    Before,
    /// There is no such execution.
    Gone,
    /// Unknown, or not possible now.
    Failed(CandidateOutcome),
}

/// Cancels executions side by side, and goes on with the result of each.
pub(super) fn cancel(
    executions: Vec<ExecutionId>,
    reason: String,
    then: impl FnOnce(Vec<(ExecutionId, Cancelled)>) -> ScanStep + Send + 'static,
) -> ScanStep {
    let reads = executions.iter().map(CancelExecution::record_read).collect();
    ScanStep::read(reads, move |replies| {
        let mut outcomes = Vec::new();
        let mut calls = Vec::new();
        for (execution_id, reply) in executions.into_iter().zip(replies) {
            match texts(Some(reply)) {
                Ok(fields) => calls.push(call(execution_id, &fields, &reason)),
                Err(outcome) => outcomes.push((execution_id, Cancelled::Failed(outcome))),
            }
        }
        let cancelled: Vec<ExecutionId> =
            calls.iter().map(|call| call.running.execution_id.clone()).collect();
        ScanStep::calls(&calls, move |replies| {
            outcomes.extend(cancelled.into_iter().zip(replies.into_iter().map(read)));
            then(outcomes)
        })
    })
}

fn call(execution_id: ExecutionId, fields: &[String], reason: &str) -> CancelExecution {
    let fields = [0, 1, 2, 3].map(|at| fields.get(at).map(String::as_str).unwrap_or_default());
    CancelExecution::of_record(execution_id, fields, reason, "operator_override")
}

fn read<T>(reply: Result<T, CallError>) -> Cancelled {
    match reply {
        Ok(_) => Cancelled::Now,
        Err(CallError::Refused(refusal)) if refusal.code == Code::ExecutionNotActive => {
            Cancelled::Before
        }
        Err(CallError::Refused(refusal)) if refusal.code == Code::ExecutionNotFound => {
            Cancelled::Gone
        }
        Err(error) => Cancelled::Failed(CandidateOutcome::error(error)),
    }
}
