//! Giving quota slots back. If a release fails for long, the engine does it later.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::config::WorkerConfig;
use super::io::{Alarm, Continuation, Io, only};
use super::observe::Observation;
use crate::call::quota::{HOLDER_FIELDS, ReleaseAdmission, needs_no_slot};
use crate::command::{Command, Reply};
use crate::id::{ExecutionId, QuotaPolicyId};
use crate::key::Key;
use crate::reply::value;
use crate::retry::{Idempotency, Retry, RetryDelays};
use crate::time::LocalTime;

/// A slot to give back.
#[derive(Clone, Debug)]
pub(super) struct QuotaSlot {
    pub(super) execution: ExecutionId,
    pub(super) quota: QuotaPolicyId,
    /// Whether the execution is known to have ended. Otherwise it may run elsewhere with the same
    /// slot, so its record is read first.
    pub(super) ended: bool,
}

#[derive(Clone, Debug)]
struct Release {
    slot: QuotaSlot,
    until: LocalTime,
    delays: RetryDelays,
}

#[derive(Clone)]
pub(super) struct QuotaReleases {
    config: Arc<WorkerConfig>,
    under_way: BTreeMap<u64, Release>,
    next: u64,
}

impl QuotaReleases {
    pub(super) const fn new(config: Arc<WorkerConfig>) -> Self {
        Self { config, under_way: BTreeMap::new(), next: 0 }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Gives a slot back. Beyond a limit, that is left to the engine.
    pub(super) fn begin(&mut self, io: &mut Io, slot: QuotaSlot) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            return;
        }
        let number = self.next;
        self.next += 1;
        let delays = RetryDelays::new(DELAY_FIRST, DELAY_LONGEST);
        let until = io.now.after(self.config.retry_for);
        self.under_way.insert(number, Release { slot, until, delays });
        self.send(io, number);
    }

    pub(super) fn send(&mut self, io: &mut Io, number: u64) {
        let Some(Release { slot: QuotaSlot { execution, quota, ended }, .. }) =
            self.under_way.get(&number)
        else {
            return;
        };
        let command = if *ended {
            Command::call(&ReleaseAdmission {
                partition: self.config.partitions.of_quota(*quota),
                quota_policy_id: *quota,
                execution_id: execution.clone(),
            })
        } else {
            Command::read("HMGET", &Key::execution(execution).core(), &HOLDER_FIELDS)
        };
        io.request(alloc::vec![command], Continuation::Release(number));
    }

    pub(super) fn on_replies(&mut self, io: &mut Io, number: u64, replies: Vec<Reply>) {
        let Some(mut release) = self.under_way.remove(&number) else { return };
        let execution = release.slot.execution.clone();
        let error = if release.slot.ended {
            match only::<ReleaseAdmission>(replies) {
                Ok(_) => return io.observe(Observation::QuotaReleased(execution)),
                Err(error) => error,
            }
        } else {
            match value(replies.into_iter().next()) {
                Ok(standing) if needs_no_slot(&standing) => {
                    release.slot.ended = true;
                    self.under_way.insert(number, release);
                    return self.send(io, number);
                }
                Ok(_) => return io.observe(Observation::QuotaKept(execution)),
                Err(error) => error,
            }
        };
        let may_repeat = error.retry(Idempotency::Idempotent) != Retry::Never;
        if may_repeat && release.until > io.now {
            io.back_off(Alarm::Release(number), &mut release.delays);
            self.under_way.insert(number, release);
        } else {
            io.observe(Observation::QuotaNotReleased { execution, error });
        }
    }
}

/// Most releases at the same time.
const UNDER_WAY_MAX: usize = 10_000;
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_LONGEST: Duration = Duration::from_secs(1);
