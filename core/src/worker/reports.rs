//! Reports: the outcome of a handler, sent to the store until it answers or the lease is over.
//!
//! A report that was perhaps applied is repeated as it was. If an earlier try was applied, the
//! refusal names this very lease, and that counts as the answer. If a report claims the next
//! execution too, its repeat gets what an earlier try has claimed. A report that was surely not
//! applied goes on without a claim.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::attempts::{Attempt, Attempts, Stage};
use super::claim_repeats::perhaps_applied;
use super::claiming::terms;
use super::end_claims::EndClaim;
use super::inputs_and_effects::HandlerOutcome;
use super::io::{Alarm, Continuation, Io, later, only, read_time};
use super::observe::{AttemptOutcome, Observation};
use super::quota_releases::QuotaSlot;
use crate::call::execution::{
    Authority, CompleteExecution, DelayExecution, FailExecution, Failure, Running,
};
use crate::call::scheduling::{
    ClaimManyReply, EndAndClaim, EndAndClaimReply, Ended, NewLeases, RunEnd,
};
use crate::command::{Command, Reply};
use crate::error::{CallError, Code, Refusal};
use crate::id::{Fence, LeaseId};
use crate::retry::{Idempotency, Retry, RetryDelays};
use crate::time::DURATION_MAX;

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
    /// How often the store failed in a way that does not pass.
    broken: u32,
}

#[derive(Clone, Debug)]
enum Call {
    Complete(CompleteExecution),
    Fail(FailExecution),
    /// Completes or fails, and claims.
    EndAndClaim(Box<EndAndClaim>, EndClaim),
    /// The time of the server is asked for, to delay the execution by this much.
    ReadTime(Duration),
    Delay(DelayExecution),
}

/// What a report did.
#[derive(Clone, Copy)]
struct ReportOutcome {
    /// How the attempt ended; none if it goes on later.
    outcome: Option<AttemptOutcome>,
    /// Whether the execution is known to have ended.
    ended: bool,
}

/// What follows from a report that was answered.
#[derive(Default)]
pub(super) struct Reported {
    /// The slot to give back.
    pub(super) quota_slot: Option<QuotaSlot>,
    /// What the report has claimed; no reply if that is not known.
    pub(super) claim: Option<(EndClaim, Option<ClaimManyReply>)>,
}

impl Attempts {
    /// Reports the outcome of a handler. If it is an end, `claim` is made with it.
    pub(super) fn report(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        outcome: HandlerOutcome,
        claim: Option<EndClaim>,
    ) {
        let config = self.config.clone();
        let Some(attempt) = self.get_mut(lease) else { return };
        let call = match (attempt.next_step(outcome), claim) {
            (Next::Later(pause), _) => Call::ReadTime(pause),
            (Next::End(end), None) => plain(attempt.running(&config), attempt.fence, end),
            (Next::End(end), Some(claim)) => {
                let call = EndAndClaim {
                    execution_id: attempt.execution.clone(),
                    fence: attempt.fence,
                    end,
                    terms: terms(&config, attempt.lane.clone(), claim.after.clone()),
                    leases: NewLeases::one(claim.lease),
                };
                Call::EndAndClaim(Box::new(call), claim)
            }
        };
        let delays = RetryDelays::new(DELAY_FIRST, DELAY_LONGEST);
        attempt.stage = Stage::Reporting(Report { call, delays, broken: 0 });
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
            Call::EndAndClaim(call, _) => Command::call(&**call),
            Call::ReadTime(_) => Command::time(attempt.execution.partition().slot()),
            Call::Delay(call) => Command::call(call),
        };
        io.request(alloc::vec![command], Continuation::Report(lease));
    }

    /// A report was answered.
    pub(super) fn on_report(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        replies: Vec<Reply>,
    ) -> Reported {
        let config = self.config.clone();
        let Some(attempt) = self.get_mut(lease) else { return Reported::default() };
        let Stage::Reporting(report) = &attempt.stage else { return Reported::default() };
        let mut claims = None;
        let answer = match &report.call {
            Call::Complete(_) => only::<CompleteExecution>(replies).map(|_| COMPLETED),
            Call::Fail(_) => only::<FailExecution>(replies).map(|failure| match failure {
                Failure::RetryAt(_) => RETRIED,
                Failure::Final => FAILED,
            }),
            Call::EndAndClaim(..) => only::<EndAndClaim>(replies).map(|reply| {
                let EndAndClaimReply { ended, claims: got } = reply;
                claims = Some(got);
                match ended {
                    Ended::Completed => COMPLETED,
                    Ended::RetryAt(_) => RETRIED,
                    Ended::Failed => FAILED,
                }
            }),
            Call::Delay(_) => only::<DelayExecution>(replies).map(|_| GOES_ON),
            Call::ReadTime(pause) => match read_time(replies.into_iter().next()) {
                Ok(now) => {
                    let call = DelayExecution {
                        running: attempt.running(&config),
                        authority: Authority::Holder(attempt.fence),
                        delay_until: later(now, *pause),
                    };
                    let (call, delays) = (Call::Delay(call), report.delays);
                    attempt.stage = Stage::Reporting(Report { call, delays, broken: 0 });
                    self.send_report(io, lease);
                    return Reported::default();
                }
                Err(error) => Err(error),
            },
        };
        match answer {
            Ok(outcome) => self.applied(io, lease, outcome, claims),
            Err(error) => self.report_failed(io, lease, error),
        }
    }

    /// A report was applied.
    fn applied(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        outcome: ReportOutcome,
        claims: Option<ClaimManyReply>,
    ) -> Reported {
        let claim = self.get(lease).and_then(Attempt::claim).cloned();
        let quota_slot = self.finish(io, lease, outcome.outcome, outcome.ended);
        Reported { quota_slot, claim: claim.map(|claim| (claim, claims)) }
    }

    fn report_failed(&mut self, io: &mut Io, lease: LeaseId, error: CallError) -> Reported {
        let config = self.config.clone();
        let Some(attempt) = self.get_mut(lease) else { return Reported::default() };
        let execution = attempt.execution.clone();
        let running = attempt.running(&config);
        let Stage::Reporting(report) = &mut attempt.stage else { return Reported::default() };
        match error {
            CallError::Refused(refusal) if ended_under(&attempt.fence, &refusal) => {
                let outcome = report.call.if_found();
                io.observe(Observation::ReportFound(execution));
                self.applied(io, lease, outcome, None)
            }
            CallError::Refused(refusal) => {
                let outcome = AttemptOutcome::of_refused(&refusal);
                io.observe(Observation::ReportRejected { execution, refusal });
                let quota_slot = self.finish(io, lease, Some(outcome), false);
                Reported { quota_slot, claim: None }
            }
            // Not applied, or perhaps applied: it is repeated until the lease is over.
            error @ (CallError::Server(_) | CallError::Broken(_)) => {
                report.broken += u32::from(error.retry(Idempotency::Idempotent) == Retry::Never);
                if report.broken == BROKEN_MAX {
                    io.observe(Observation::ReportGivenUp { execution, error });
                    let quota_slot = self.finish(io, lease, Some(AttemptOutcome::Error), false);
                    return Reported { quota_slot, claim: None };
                }
                report.call.failed(perhaps_applied(&error), running, attempt.fence);
                io.observe(Observation::ReportUnanswered { execution, error });
                io.back_off(Alarm::Report(lease), &mut report.delays);
                Reported::default()
            }
        }
    }
}

impl Call {
    /// What a report did, if an earlier try was applied and its reply is lost.
    fn if_found(&self) -> ReportOutcome {
        // Whether it is retried was in the reply.
        let failed = ReportOutcome { ended: false, ..FAILED };
        match self {
            Self::Complete(_) => COMPLETED,
            Self::Fail(_) => failed,
            Self::EndAndClaim(call, _) => match call.end {
                RunEnd::Complete { .. } => COMPLETED,
                RunEnd::Fail { .. } => failed,
            },
            Self::ReadTime(_) | Self::Delay(_) => GOES_ON,
        }
    }

    /// The call failed. If no try was applied, it goes on without a claim.
    fn failed(&mut self, perhaps_applied: bool, running: Running, fence: Fence) {
        let Self::EndAndClaim(call, claim) = self else { return };
        claim.unconfirmed |= perhaps_applied;
        if !claim.unconfirmed {
            let nothing = RunEnd::Complete { result_payload: Vec::new() };
            *self = plain(running, fence, core::mem::replace(&mut call.end, nothing));
        }
    }
}

/// What comes after a handler.
enum Next {
    End(RunEnd),
    Later(Duration),
}

/// The call that reports an end and claims nothing.
fn plain(running: Running, fence: Fence, end: RunEnd) -> Call {
    let authority = Authority::Holder(fence);
    match end {
        RunEnd::Complete { result_payload } => {
            Call::Complete(CompleteExecution { running, authority, result_payload })
        }
        RunEnd::Fail { failure_reason, failure_category, retry_policy_json } => {
            Call::Fail(FailExecution {
                running,
                authority,
                failure_reason,
                failure_category,
                retry_policy_json,
            })
        }
    }
}

impl Attempt {
    /// The claim that its report makes.
    pub(super) const fn claim(&self) -> Option<&EndClaim> {
        match &self.stage {
            Stage::Reporting(Report { call: Call::EndAndClaim(_, claim), .. }) => Some(claim),
            Stage::Reporting(_)
            | Stage::Waiting(_)
            | Stage::Running
            | Stage::Lost(_)
            | Stage::Suspended => None,
        }
    }

    fn next_step(&self, outcome: HandlerOutcome) -> Next {
        Next::End(match outcome {
            HandlerOutcome::Completed(result) if result.len() > RESULT_BYTES_MAX => {
                let reason = format!(
                    "result too large: {} bytes, the limit is {RESULT_BYTES_MAX} bytes",
                    result.len()
                );
                self.failure(PERMANENT, &reason)
            }
            HandlerOutcome::Completed(result_payload) => RunEnd::Complete { result_payload },
            HandlerOutcome::Failed { category, reason } => self.failure(&category, &reason),
            HandlerOutcome::Panicked(message) => self.failure(PANIC, &message),
            HandlerOutcome::Later(pause) if pause > DURATION_MAX => {
                self.failure(PERMANENT, "the delay of Done::Later is longer than 1,000 years")
            }
            HandlerOutcome::Later(pause) => return Next::Later(pause),
            // Signals had come before the suspension: the handler runs again at once.
            HandlerOutcome::Suspended if self.resumed_at_once => {
                return Next::Later(Duration::ZERO);
            }
            HandlerOutcome::Suspended => {
                let reason = "handler returned Done::Suspended without calling Context::suspend";
                self.failure(PERMANENT, reason)
            }
        })
    }

    fn failure(&self, category: &str, reason: &str) -> RunEnd {
        let is_final = category == PERMANENT;
        let retry_policy_json =
            if is_final { String::new() } else { self.retry_policy_json.clone() };
        RunEnd::Fail {
            failure_reason: truncated(reason),
            failure_category: category.to_owned(),
            retry_policy_json,
        }
    }
}

const fn ended_as(outcome: AttemptOutcome) -> ReportOutcome {
    ReportOutcome { outcome: Some(outcome), ended: true }
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

const COMPLETED: ReportOutcome = ended_as(AttemptOutcome::Ok);
const FAILED: ReportOutcome = ended_as(AttemptOutcome::Error);
const RETRIED: ReportOutcome = ReportOutcome { ended: false, ..ended_as(AttemptOutcome::Retry) };
const GOES_ON: ReportOutcome = ReportOutcome { outcome: None, ended: false };
/// Tries of a report on which the store itself fails. Then the lease is left to lapse, so that the
/// engine deals with the execution.
const BROKEN_MAX: u32 = 5;
/// Longest stored failure reason, in bytes.
const REASON_BYTES_MAX: usize = 8 * 1_024;
/// Pauses between tries.
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_LONGEST: Duration = Duration::from_secs(1);
