//! What handlers ask for under their leases: each call is repeated while the store does not answer,
//! and only if that is harmless.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::attempts::{Attempt, Attempts};
use super::config::WorkerConfig;
use super::inputs_and_effects::{
    Effect, HandlerReply, HandlerRequest, HandlerRequestError, Suspension,
};
use super::io::{Alarm, Continuation, Io, later, only, parse, read_time};
use super::quota_releases::QuotaSlot;
use crate::call::budget::{RecordUsage, UsageVerdict};
use crate::call::scheduling::UpdateProgress;
use crate::call::stream::AppendFrame;
use crate::call::suspension::{
    CreatePendingWaitpoint, NewWaitpoint, SuspendExecution, SuspendIdempotency, SuspendOn,
    Suspended, SuspensionRequester, TimeoutBehavior,
};
use crate::command::{Command, Reply};
use crate::error::{CallError, Code};
use crate::id::{BudgetId, LeaseId, SuspensionId, WaitpointId, WaitpointKey};
use crate::retry::{Idempotency, Retry, RetryDelays};
use crate::time::{LocalTime, ServerTime};

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct OpenRequest {
    lease: LeaseId,
    /// The time of the server is asked for first.
    needs_time: bool,
    call: Call,
    until: LocalTime,
    delays: RetryDelays,
}

#[derive(Clone, Debug)]
enum Call {
    Progress(UpdateProgress),
    Frame(AppendFrame),
    Spend(Vec<Spending>),
    Waitpoint(CreatePendingWaitpoint, Duration),
    Suspend(SuspendExecution, Option<Duration>),
}

/// Usage to add to one budget, and its verdict.
#[derive(Clone, Debug)]
struct Spending {
    call: RecordUsage,
    verdict: Option<UsageVerdict>,
}

#[derive(Clone)]
pub(super) struct HandlerRequests {
    config: Arc<WorkerConfig>,
    open: BTreeMap<u64, OpenRequest>,
}

impl HandlerRequests {
    pub(super) const fn new(config: Arc<WorkerConfig>) -> Self {
        Self { config, open: BTreeMap::new() }
    }

    /// A handler asks for something.
    pub(super) fn open(
        &mut self,
        io: &mut Io,
        attempts: &mut Attempts,
        lease: LeaseId,
        id: u64,
        request: HandlerRequest,
    ) {
        let spends = matches!(request, HandlerRequest::Spend { .. });
        let attempt = attempts.get_mut(lease).filter(|attempt| spends || attempt.has_lease());
        let Some(attempt) = attempt else {
            return answer(io, id, Err(HandlerRequestError::LeaseLost));
        };
        let call = self.call(io, attempt, request);
        if let Call::Suspend(..) = &call {
            attempt.suspending += 1;
        }
        let request = OpenRequest {
            lease,
            needs_time: call.needs_time(),
            call,
            until: io.now.after(self.config.retry_for),
            delays: RetryDelays::new(DELAY_FIRST, DELAY_LONGEST),
        };
        self.open.insert(id, request);
        self.send(io, id);
    }

    fn call(&self, io: &mut Io, attempt: &Attempt, request: HandlerRequest) -> Call {
        let execution_id = attempt.execution.clone();
        match request {
            HandlerRequest::Progress { percent, message } => Call::Progress(UpdateProgress {
                execution_id,
                lease_id: attempt.fence.lease_id,
                lease_epoch: attempt.fence.lease_epoch,
                progress_pct: Some(percent),
                progress_message: Some(message),
            }),
            HandlerRequest::Frame { kind, payload, mode } => Call::Frame(AppendFrame {
                execution_id,
                attempt_index: attempt.index,
                fence: attempt.fence,
                frame_type: kind,
                ts: None,
                payload,
                encoding: "bytes".to_string(),
                correlation_id: None,
                source: self.config.instance.to_string(),
                retention_maxlen: 0,
                max_payload_bytes: FRAME_BYTES_MAX,
                mode,
            }),
            HandlerRequest::Spend { report, deltas } => {
                let spending = attempt.budgets.iter().map(|budget_id| {
                    let call = RecordUsage {
                        partition: self.config.partitions.of_budget(*budget_id),
                        budget_id: *budget_id,
                        execution_id: Some(execution_id.clone()),
                        deltas: deltas.clone(),
                        now: ServerTime(0),
                        dedup_id: Some(format!("{execution_id}:{}:{report}", attempt.index)),
                    };
                    Spending { call, verdict: None }
                });
                Call::Spend(spending.collect())
            }
            HandlerRequest::Waitpoint { expires_in } => {
                let call = CreatePendingWaitpoint {
                    execution_id,
                    attempt_index: attempt.index,
                    waitpoint: new_waitpoint(io),
                    expires_at: ServerTime(0),
                };
                Call::Waitpoint(call, expires_in)
            }
            HandlerRequest::Suspend(suspension) => self.suspension(io, attempt, suspension),
        }
    }

    fn suspension(&self, io: &mut Io, attempt: &Attempt, suspension: Suspension) -> Call {
        let Suspension { waitpoint, condition_json, reason, timeout } = suspension;
        let on = match waitpoint {
            Some(waitpoint) => SuspendOn::Pending(waitpoint),
            None => SuspendOn::New { primary: new_waitpoint(io), additional: Vec::new() },
        };
        let suspension_id = SuspensionId::from(io.id());
        let call = SuspendExecution {
            execution_id: attempt.execution.clone(),
            lane: attempt.lane.clone(),
            worker_instance_id: self.config.instance.clone(),
            attempt_index: attempt.index,
            fence: attempt.fence,
            suspension_id,
            on,
            reason,
            requested_by: SuspensionRequester::Worker,
            timeout_at: None,
            timeout_behavior: timeout.map_or(TimeoutBehavior::Fail, |(_, then)| then),
            resume_condition_json: condition_json,
            resume_policy_json: "{}".to_string(),
            continuation_metadata_pointer: None,
            lease_history_maxlen: LEASE_HISTORY_MAX,
            // A repeated call gets the reply of the first one, with the same token.
            idempotency: Some(SuspendIdempotency {
                key: suspension_id.to_string(),
                ttl_ms: SUSPEND_REMEMBERED_MS,
            }),
        };
        Call::Suspend(call, timeout.map(|(after, _)| after))
    }

    /// Sends what a request needs next, or sends it again.
    pub(super) fn send(&mut self, io: &mut Io, id: u64) {
        let Some(request) = self.open.get(&id) else { return };
        let commands = if request.needs_time {
            request.call.slot().map(Command::time).into_iter().collect()
        } else {
            request.call.commands()
        };
        if commands.is_empty() {
            // There is no budget to spend from.
            self.open.remove(&id);
            return answer(io, id, Ok(HandlerReply::Spent(Vec::new())));
        }
        io.request(commands, Continuation::HandlerRequest(id));
    }

    /// The replies to a request are there. Returns the slot of an execution that was suspended.
    pub(super) fn on_replies(
        &mut self,
        io: &mut Io,
        attempts: &mut Attempts,
        id: u64,
        replies: Vec<Reply>,
    ) -> Option<QuotaSlot> {
        let request = self.open.get_mut(&id)?;
        if request.needs_time {
            return match read_time(replies.into_iter().next()) {
                Ok(now) => {
                    request.needs_time = false;
                    request.call.set_time(now);
                    self.send(io, id);
                    None
                }
                Err(error) => self.failed(io, attempts, id, error),
            };
        }
        let lease = request.lease;
        let reply = match &mut request.call {
            Call::Progress(_) => only::<UpdateProgress>(replies).map(|()| HandlerReply::Done),
            Call::Frame(_) => only::<AppendFrame>(replies).map(|_| HandlerReply::Done),
            Call::Waitpoint(..) => {
                only::<CreatePendingWaitpoint>(replies).map(HandlerReply::Waitpoint)
            }
            Call::Spend(spending) => spent(spending, replies),
            Call::Suspend(..) => match only::<SuspendExecution>(replies) {
                Ok(suspended) => {
                    let (waitpoints, slot) = on_suspended(io, attempts, lease, suspended);
                    self.open.remove(&id);
                    answer(io, id, Ok(HandlerReply::Suspended(waitpoints)));
                    return slot;
                }
                Err(error) => Err(error),
            },
        };
        match reply {
            Ok(reply) => {
                self.open.remove(&id);
                answer(io, id, Ok(reply));
                None
            }
            Err(error) => self.failed(io, attempts, id, error),
        }
    }

    /// A call failed: it is repeated if that may help and is harmless.
    fn failed(
        &mut self,
        io: &mut Io,
        attempts: &mut Attempts,
        id: u64,
        error: CallError,
    ) -> Option<QuotaSlot> {
        let request = self.open.get_mut(&id)?;
        let idempotency = match request.call {
            Call::Frame(_) => Idempotency::NotIdempotent,
            Call::Progress(_) | Call::Spend(_) | Call::Waitpoint(..) | Call::Suspend(..) => {
                Idempotency::Idempotent
            }
        };
        let may_pass = match &error {
            CallError::Server(error) => error.retry(idempotency) == Retry::AfterPause,
            CallError::Refused(_) | CallError::Broken(_) => false,
        };
        if may_pass && request.until > io.now {
            io.back_off(Alarm::HandlerRequest(id), &mut request.delays);
            return None;
        }
        let request = self.open.remove(&id)?;
        if let Some(attempt) = attempts.get_mut(request.lease)
            && matches!(request.call, Call::Suspend(..))
        {
            attempt.suspending = attempt.suspending.saturating_sub(1);
            // Perhaps it was suspended all the same: a renewal tells.
            io.set(Alarm::Renew(request.lease), io.now);
        }
        answer(io, id, Err(for_lease(error)));
        None
    }
}

impl Call {
    const fn needs_time(&self) -> bool {
        match self {
            Self::Progress(_) | Self::Frame(_) | Self::Suspend(_, None) => false,
            Self::Spend(spending) => !spending.is_empty(),
            Self::Waitpoint(..) | Self::Suspend(_, Some(_)) => true,
        }
    }

    /// The slot of the server whose time counts.
    fn slot(&self) -> Option<u16> {
        self.commands().first().map(|command| command.slot)
    }

    fn set_time(&mut self, now: ServerTime) {
        match self {
            Self::Progress(_) | Self::Frame(_) => {}
            Self::Spend(spending) => spending.iter_mut().for_each(|one| one.call.now = now),
            Self::Waitpoint(call, expires_in) => call.expires_at = later(now, *expires_in),
            Self::Suspend(call, after) => {
                call.timeout_at = after.map(|after| later(now, after));
            }
        }
    }

    fn commands(&self) -> Vec<Command> {
        match self {
            Self::Progress(call) => alloc::vec![Command::call(call)],
            Self::Frame(call) => alloc::vec![Command::call(call)],
            Self::Spend(spending) => {
                let open = spending.iter().filter(|one| one.verdict.is_none());
                open.map(|one| Command::call(&one.call)).collect()
            }
            Self::Waitpoint(call, _) => alloc::vec![Command::call(call)],
            Self::Suspend(call, _) => alloc::vec![Command::call(call)],
        }
    }
}

/// Notes the verdicts of budgets; the first error, if one is missing.
fn spent(spending: &mut [Spending], replies: Vec<Reply>) -> Result<HandlerReply, CallError> {
    let (mut replies, mut failed) = (replies.into_iter(), None);
    for one in spending.iter_mut().filter(|one| one.verdict.is_none()) {
        match parse::<RecordUsage>(replies.next()) {
            Ok(verdict) => one.verdict = Some(verdict),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => {
            let verdicts = spending.iter().filter_map(|one| {
                let of: BudgetId = one.call.budget_id;
                Some((of, one.verdict.clone()?))
            });
            Ok(HandlerReply::Spent(verdicts.collect()))
        }
    }
}

fn on_suspended(
    io: &mut Io,
    attempts: &mut Attempts,
    lease: LeaseId,
    suspended: Suspended,
) -> (Vec<crate::call::suspension::BoundWaitpoint>, Option<QuotaSlot>) {
    let Some(attempt) = attempts.get_mut(lease) else {
        let (Suspended::Waiting { waitpoints, .. }
        | Suspended::AlreadySatisfied { waitpoints, .. }) = suspended;
        return (waitpoints, None);
    };
    attempt.suspending = attempt.suspending.saturating_sub(1);
    match suspended {
        Suspended::Waiting { waitpoints, .. } => (waitpoints, attempts.suspended(io, lease)),
        Suspended::AlreadySatisfied { waitpoints, .. } => {
            attempt.resumed_at_once = true;
            (waitpoints, None)
        }
    }
}

fn answer(io: &mut Io, id: u64, answer: Result<HandlerReply, HandlerRequestError>) {
    io.effect(Effect::Answer { id, answer });
}

/// A refusal that says that the caller does not hold the lease.
fn for_lease(error: CallError) -> HandlerRequestError {
    if let CallError::Refused(refusal) = &error
        && LEASE_LOST.contains(&refusal.code)
    {
        return HandlerRequestError::LeaseLost;
    }
    HandlerRequestError::Call(error)
}

fn new_waitpoint(io: &mut Io) -> NewWaitpoint {
    let id = WaitpointId::from(io.id());
    NewWaitpoint { id, key: WaitpointKey::new(waitpoint_key(id)) }
}

fn waitpoint_key(id: WaitpointId) -> String {
    format!("wpk:{id}")
}

const LEASE_LOST: [Code; 6] = [
    Code::StaleLease,
    Code::LeaseExpired,
    Code::LeaseRevoked,
    Code::NoActiveLease,
    Code::ExecutionNotActive,
    Code::StreamClosed,
];
/// Largest frame: 1 MiB.
const FRAME_BYTES_MAX: u32 = 1_048_576;
/// How many events the lease history keeps, about.
const LEASE_HISTORY_MAX: u32 = 1_000;
/// How long the reply to a suspension is kept for repeats: an hour.
const SUSPEND_REMEMBERED_MS: u64 = 3_600_000;
const DELAY_FIRST: Duration = Duration::from_millis(20);
const DELAY_LONGEST: Duration = Duration::from_secs(1);
