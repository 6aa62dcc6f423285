//! Reports: the outcome of a handler, told to the store until it answers or the lease is over.
//!
//! A report that was perhaps applied is repeated as it was. If an earlier try was applied, the
//! refusal names this very lease, and that counts as the answer.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::attempts::{Attempt, Attempts, Stage};
use super::io::{Alarm, Continuation, Io, later, only, read_time, time_command};
use super::observe::{AttemptOutcome, Observation};
use super::releases::Slot;
use super::wire::HandlerOutcome;
use crate::call::execution::{
    Authority, CompleteExecution, DelayExecution, FailExecution, Failure,
};
use crate::command::{Command, Reply};
use crate::error::{CallError, Code, Refusal};
use crate::id::{Fence, LeaseId};
use crate::retry::RetryDelays;

/// Largest result, in bytes.
pub const RESULT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The category of failures that are never retried, whatever the retry policy says.
pub const PERMANENT: &str = "permanent";
/// The category of panics.
pub const PANIC: &str = "panic";

/// A report under way.
#[derive(Clone, Debug)]
pub(super) struct Report {
    call: Call,
    delays: RetryDelays,
}

#[derive(Clone, Debug)]
enum Call {
    Complete(CompleteExecution),
    Fail(FailExecution),
    /// The time of the server is asked for, to delay the execution by this much.
    ReadTime(Duration),
    Delay(DelayExecution),
}

/// What a report did.
#[derive(Clone, Copy)]
struct Told {
    /// How the attempt ended; none if it goes on later.
    outcome: Option<AttemptOutcome>,
    /// Whether the execution is known to have ended.
    ended: bool,
}

impl Attempts {
    /// Reports the outcome of a handler.
    pub(super) fn report(&mut self, io: &mut Io, lease: LeaseId, outcome: HandlerOutcome) {
        let config = self.config.clone();
        let Some(attempt) = self.get_mut(lease) else { return };
        let authority = Authority::Holder(attempt.fence);
        let running = attempt.running(&config);
        let call = match outcome {
            HandlerOutcome::Completed(result) if result.len() > RESULT_BYTES_MAX => {
                let reason = format!(
                    "result too large: {} bytes, the limit is {RESULT_BYTES_MAX} bytes",
                    result.len()
                );
                attempt.failure(running, PERMANENT, &reason)
            }
            HandlerOutcome::Completed(result_payload) => {
                Call::Complete(CompleteExecution { running, authority, result_payload })
            }
            HandlerOutcome::Failed { category, reason } => {
                attempt.failure(running, &category, &reason)
            }
            HandlerOutcome::Panicked(message) => attempt.failure(running, PANIC, &message),
            HandlerOutcome::Later(pause) => Call::ReadTime(pause),
            // Signals had come before the suspension: the handler runs again at once.
            HandlerOutcome::Suspended if attempt.resumed_at_once => Call::ReadTime(Duration::ZERO),
            HandlerOutcome::Suspended => {
                let reason = "handler returned Done::Suspended without calling Context::suspend";
                attempt.failure(running, PERMANENT, reason)
            }
        };
        let delays = RetryDelays::new(DELAY_FIRST, DELAY_LONGEST);
        attempt.stage = Stage::Reporting(Report { call, delays });
        io.alarms.clear(&Alarm::PutBack(lease));
        self.send_report(io, lease);
    }

    /// Sends a report, or sends it again.
    pub(super) fn send_report(&mut self, io: &mut Io, lease: LeaseId) {
        let Some(attempt) = self.get(lease) else { return };
        let Stage::Reporting(report) = &attempt.stage else { return };
        let command = match &report.call {
            Call::Complete(call) => Command::call(call),
            Call::Fail(call) => Command::call(call),
            Call::ReadTime(_) => time_command(attempt.execution.partition().slot()),
            Call::Delay(call) => Command::call(call),
        };
        io.request(alloc::vec![command], Continuation::Report(lease));
    }

    /// A report was answered. Returns the slot to give back.
    pub(super) fn on_report(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        replies: Vec<Reply>,
    ) -> Option<Slot> {
        let config = self.config.clone();
        let attempt = self.get_mut(lease)?;
        let Stage::Reporting(report) = &attempt.stage else { return None };
        let (terminal, goes_on) = (told(AttemptOutcome::Ok), Told { outcome: None, ended: false });
        let (answer, if_found) = match &report.call {
            Call::Complete(_) => (only::<CompleteExecution>(replies).map(|_| terminal), terminal),
            Call::Fail(_) => (
                only::<FailExecution>(replies).map(|failure| match failure {
                    Failure::RetryAt(_) => {
                        Told { outcome: Some(AttemptOutcome::Retry), ended: false }
                    }
                    Failure::Final => told(AttemptOutcome::Error),
                }),
                // Whether it is retried was in the reply that was lost.
                Told { outcome: Some(AttemptOutcome::Error), ended: false },
            ),
            Call::Delay(_) => (only::<DelayExecution>(replies).map(|_| goes_on), goes_on),
            Call::ReadTime(pause) => match read_time(replies.into_iter().next()) {
                Ok(now) => {
                    let call = DelayExecution {
                        running: attempt.running(&config),
                        authority: Authority::Holder(attempt.fence),
                        delay_until: later(now, *pause),
                    };
                    let delays = report.delays;
                    attempt.stage = Stage::Reporting(Report { call: Call::Delay(call), delays });
                    self.send_report(io, lease);
                    return None;
                }
                Err(error) => (Err(error), goes_on),
            },
        };
        let execution = attempt.execution.clone();
        match answer {
            Ok(told) => self.finish(io, lease, told.outcome, told.ended),
            Err(CallError::Refused(refusal)) if ended_under(&attempt.fence, &refusal) => {
                io.observe(Observation::ReportFound(execution));
                self.finish(io, lease, if_found.outcome, if_found.ended)
            }
            Err(CallError::Refused(refusal)) => {
                let outcome = AttemptOutcome::of_refused(&refusal);
                io.observe(Observation::ReportRejected { execution, refusal });
                self.finish(io, lease, Some(outcome), false)
            }
            // Not applied, or perhaps applied: it is repeated until the lease is over.
            Err(error @ (CallError::Server(_) | CallError::Broken(_))) => {
                io.observe(Observation::ReportUnanswered { execution, error });
                if let Stage::Reporting(report) = &mut attempt.stage {
                    io.back_off(Alarm::Report(lease), &mut report.delays);
                }
                None
            }
        }
    }
}

impl Attempt {
    fn failure(
        &self,
        running: crate::call::execution::Running,
        category: &str,
        reason: &str,
    ) -> Call {
        let is_final = category == PERMANENT;
        Call::Fail(FailExecution {
            running,
            authority: Authority::Holder(self.fence),
            failure_reason: truncated(reason),
            failure_category: category.to_owned(),
            retry_policy_json: if is_final {
                String::new()
            } else {
                self.retry_policy_json.clone()
            },
        })
    }
}

const fn told(outcome: AttemptOutcome) -> Told {
    Told { outcome: Some(outcome), ended: true }
}

/// Whether the refusal says that the attempt ended under this very lease. Only its holder's own
/// call does that, so an earlier try was applied and its reply was lost.
fn ended_under(fence: &Fence, refusal: &Refusal) -> bool {
    refusal.code == Code::ExecutionNotActive
        && refusal.detail(1) == fence.lease_epoch.to_string()
        && refusal.detail(3) == fence.attempt_id.to_string()
        && refusal.detail(0) != "cancelled"
        && refusal.detail(0) != "expired"
}

/// The first [`REASON_BYTES_MAX`] bytes of a failure reason: it is stored, listed and logged.
fn truncated(reason: &str) -> String {
    if reason.len() <= REASON_BYTES_MAX {
        return reason.to_owned();
    }
    let mut kept = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
    kept.push('…');
    kept
}

/// Longest stored failure reason, in bytes.
const REASON_BYTES_MAX: usize = 8 * 1_024;
/// Pauses between tries.
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_LONGEST: Duration = Duration::from_secs(1);
