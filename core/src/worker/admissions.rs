//! Admissions: whether the budgets and the quota of an execution let it start now. Budgets and
//! quotas are in other slots than the execution, so the worker checks them between two claims:
//! budgets first, then the quota, which takes a slot. An execution that is not admitted is blocked
//! until the engine finds that the reason is gone.
//!
//! Every admission goes on by itself; none has a permit.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::claim_queue::TargetKey;
use super::claiming::{Admitted, Candidate};
use super::config::WorkerConfig;
use super::io::{Alarm, Continuation, Io, only, read_time};
use super::observe::Observation;
use crate::admission::{QuotaTerms, budget_ids, budget_reads, exhausted};
use crate::call::budget::{BlockExecutionForAdmission, HoldReason};
use crate::call::quota::{Admission as Verdict, CheckAdmissionAndRecord};
use crate::command::{Command, Reply};
use crate::error::{CallError, Refusal};
use crate::id::{BudgetId, ExecutionId, LaneId, QuotaPolicyId};
use crate::key::Key;
use crate::partition::Partition;
use crate::reply::{try_fields, try_hash};
use crate::retry::{Idempotency, Retry, RetryDelays};
use crate::time::{LocalTime, ServerTime};

/// What became of an admission.
pub(super) enum Event {
    /// The execution may start: claim it.
    Admitted(Admitted),
    /// It may not, and is blocked, or is not eligible any more.
    Held(TargetKey),
    /// It cannot be decided; a slot may have been taken.
    GivenUp(TargetKey, Option<(ExecutionId, QuotaPolicyId)>),
}

/// An admission under way.
#[derive(Clone, Debug)]
struct Admission {
    execution_id: ExecutionId,
    lane: LaneId,
    budgets: Vec<BudgetId>,
    quota: Option<QuotaPolicyId>,
    step: Step,
    until: LocalTime,
    delays: RetryDelays,
}

#[derive(Clone, Debug)]
enum Step {
    /// Reads budgets, the quota's definition and the time of its server.
    Read,
    /// Takes a slot of the quota.
    TakeSlot(CheckAdmissionAndRecord),
    /// Reads the time, to block the execution.
    ReadTime(HoldReason, String),
    /// Blocks the execution.
    Block(BlockExecutionForAdmission),
}

#[derive(Clone)]
pub(super) struct Admissions {
    config: Arc<WorkerConfig>,
    under_way: BTreeMap<ExecutionId, Admission>,
}

impl Admissions {
    pub(super) const fn new(config: Arc<WorkerConfig>) -> Self {
        Self { config, under_way: BTreeMap::new() }
    }

    /// Begins to admit a candidate, unless that is under way.
    pub(super) fn begin(&mut self, io: &mut Io, candidate: Candidate) {
        let Candidate { execution_id, lane, budget_ids: budgets, quota_policy_id } = candidate;
        if self.under_way.contains_key(&execution_id) {
            return;
        }
        let admission = Admission {
            execution_id: execution_id.clone(),
            lane,
            budgets: budget_ids(&budgets).collect(),
            // What is not a policy id limits nothing.
            quota: quota_policy_id.parse().ok(),
            step: Step::Read,
            until: io.now.after(self.config.retry_for),
            delays: RetryDelays::new(DELAY_FIRST, DELAY_LONGEST),
        };
        self.under_way.insert(execution_id.clone(), admission);
        self.send(io, &execution_id);
    }

    /// Whether more candidates of this target may be admitted at the same time.
    pub(super) fn has_room(&self, (lane, partition): &TargetKey) -> bool {
        let of_target = self.under_way.values().filter(|admission| {
            admission.lane == *lane && admission.execution_id.partition() == *partition
        });
        of_target.count() < PER_TARGET_MAX
    }

    /// Sends the calls of the current step.
    pub(super) fn send(&mut self, io: &mut Io, id: &ExecutionId) {
        let Some(admission) = self.under_way.get(id) else { return };
        let commands = match &admission.step {
            Step::Read => {
                let partitions = self.config.partitions;
                let mut reads = budget_reads(partitions, admission.budgets.iter().copied());
                if let Some(quota) = admission.quota {
                    let record = Key::quota(partitions.of_quota(quota), quota).record();
                    reads.push(Command::read("HMGET", &record, &QuotaTerms::FIELDS));
                    reads.push(Command::time(record.slot()));
                }
                reads
            }
            Step::TakeSlot(call) => alloc::vec![Command::call(call)],
            Step::ReadTime(..) => alloc::vec![Command::time(id.partition().slot())],
            Step::Block(call) => alloc::vec![Command::call(call)],
        };
        if commands.is_empty() {
            // Neither a budget nor a quota that can be read: nothing limits it. The alarm makes
            // this a step like any other.
            return io.set(Alarm::Admission(id.clone()), io.now);
        }
        io.request(commands, Continuation::Admission(id.clone()));
    }

    /// The pause after a failure is over.
    pub(super) fn on_alarm(&mut self, io: &mut Io, id: &ExecutionId) -> Option<Event> {
        let admission = self.under_way.get(id)?;
        if admission.budgets.is_empty() && admission.quota.is_none() {
            return self.on_replies(io, id, Vec::new());
        }
        if admission.until > io.now {
            self.send(io, id);
            return None;
        }
        let admission = self.under_way.remove(id)?;
        let slot = admission.quota.map(|quota| (id.clone(), quota));
        Some(Event::GivenUp((admission.lane, id.partition()), slot))
    }

    pub(super) fn on_replies(
        &mut self,
        io: &mut Io,
        id: &ExecutionId,
        replies: Vec<Reply>,
    ) -> Option<Event> {
        let mut admission = self.under_way.remove(id)?;
        let partitions = self.config.partitions;
        let next = match admission.step.clone() {
            Step::Read => admission.judge(&replies, |id| partitions.of_quota(id)),
            Step::TakeSlot(call) => {
                admission.slot_answered(&call, only::<CheckAdmissionAndRecord>(replies))
            }
            Step::ReadTime(reason, detail) => read_time(replies.into_iter().next()).map(|now| {
                Next::Step(Step::Block(BlockExecutionForAdmission {
                    execution_id: id.clone(),
                    lane_id: admission.lane.clone(),
                    reason,
                    detail,
                    now,
                }))
            }),
            Step::Block(call) => match only::<BlockExecutionForAdmission>(replies) {
                Ok(()) => Ok(Next::Blocked(call.reason, call.detail)),
                Err(CallError::Refused(refusal)) => Ok(Next::NotBlocked(refusal)),
                Err(error) => Err(error),
            },
        };
        let target = (admission.lane.clone(), id.partition());
        match next {
            Ok(Next::Step(step)) => {
                admission.step = step;
                self.under_way.insert(id.clone(), admission);
                self.send(io, id);
                None
            }
            Ok(Next::Admitted) => {
                io.observe(Observation::Admitted(id.clone()));
                let Admission { execution_id, lane, quota, .. } = admission;
                Some(Event::Admitted(Admitted { execution_id, lane, quota }))
            }
            Ok(Next::Blocked(reason, detail)) => {
                io.observe(Observation::NotAdmitted { execution: id.clone(), reason, detail });
                Some(Event::Held(target))
            }
            Ok(Next::NotBlocked(refusal)) => {
                io.observe(Observation::NotBlocked { execution: id.clone(), refusal });
                Some(Event::Held(target))
            }
            Err(error) => {
                match error.retry(Idempotency::Idempotent) {
                    Retry::AfterPause | Retry::AfterRepair => {
                        io.back_off(Alarm::Admission(id.clone()), &mut admission.delays);
                    }
                    // Given up when its time is over, not at once: the candidate would come back,
                    // and each time delay its whole partition.
                    Retry::Never => io.set(Alarm::Admission(id.clone()), admission.until),
                }
                io.observe(Observation::AdmissionFailed { execution: id.clone(), error });
                self.under_way.insert(id.clone(), admission);
                None
            }
        }
    }

    /// Gives up all admissions. Returns slots that may have been taken.
    pub(super) fn drain(&mut self, io: &mut Io) -> Vec<(ExecutionId, QuotaPolicyId)> {
        let under_way = core::mem::take(&mut self.under_way);
        let given_up = under_way.into_values().inspect(|admission| {
            io.alarms.clear(&Alarm::Admission(admission.execution_id.clone()));
        });
        given_up.filter_map(|admission| Some((admission.execution_id, admission.quota?))).collect()
    }
}

/// What follows from the replies of a step.
enum Next {
    Step(Step),
    Admitted,
    Blocked(HoldReason, String),
    NotBlocked(Refusal),
}

impl Admission {
    /// Judges the budgets; then the quota must be asked, if it limits.
    fn judge(
        &self,
        replies: &[Reply],
        partition_of: impl Fn(QuotaPolicyId) -> Partition,
    ) -> Result<Next, CallError> {
        let mut replies = replies.iter().cloned();
        for id in &self.budgets {
            let (limits, usage) = (try_hash(replies.next())?, try_hash(replies.next())?);
            if let Some(exhausted) = exhausted(&limits, &usage) {
                let detail = format!("budget {id}: {exhausted}");
                return Ok(Next::Step(Step::ReadTime(HoldReason::Budget, detail)));
            }
        }
        let Some(quota_policy_id) = self.quota else { return Ok(Next::Admitted) };
        let terms = QuotaTerms::read(&try_fields(replies.next())?);
        if terms.is_unlimited() {
            return Ok(Next::Admitted);
        }
        let now: ServerTime = read_time(replies.next())?;
        Ok(Next::Step(Step::TakeSlot(CheckAdmissionAndRecord {
            partition: partition_of(quota_policy_id),
            quota_policy_id,
            execution_id: self.execution_id.clone(),
            now,
            window_seconds: terms.window_seconds,
            rate_limit: terms.rate,
            concurrency_cap: terms.concurrency_cap,
            jitter_ms: terms.jitter_ms,
        })))
    }

    fn slot_answered(
        &self,
        call: &CheckAdmissionAndRecord,
        verdict: Result<Verdict, CallError>,
    ) -> Result<Next, CallError> {
        let id = call.quota_policy_id;
        let detail = match verdict? {
            Verdict::Admitted | Verdict::AlreadyAdmitted => return Ok(Next::Admitted),
            Verdict::RateExceeded { .. } => {
                let CheckAdmissionAndRecord { rate_limit, window_seconds, .. } = call;
                format!("quota {id}: rate limit {rate_limit} per {window_seconds}s window")
            }
            Verdict::ConcurrencyExceeded => {
                format!("quota {id}: concurrency cap {}", call.concurrency_cap)
            }
        };
        Ok(Next::Step(Step::ReadTime(HoldReason::Quota, detail)))
    }
}

/// Most candidates of one target that are admitted at the same time.
const PER_TARGET_MAX: usize = 8;
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_LONGEST: Duration = Duration::from_secs(2);
