//! Releases executions that admission held, when the reason is over: a budget with room, a quota
//! with a free slot, a worker with the capabilities. One free slot releases one execution, the one
//! that has waited longest. A push reports a freed slot, and a window says when it has room again,
//! so that no execution waits for the next interval.
//!
//! If a limit cannot be read, its candidate stays held. If a worker cannot be read, the candidate
//! is released: the worker may be the right one, and the claim compares capabilities again.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::index_reconciler::repair;
use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::admission::{QuotaTerms, budget_ids, budget_reads, exhausted};
use crate::call::budget::{HoldReason, UnblockExecution};
use crate::call::quota::ADMISSION_DIMENSION;
use crate::capability::{Capabilities, may_cover};
use crate::command::Command;
use crate::command::Reply;
use crate::engine::reply::{hash, number, text, texts};
use crate::engine::scanning::{CandidateOutcome, OutcomeKind, ScanStep};
use crate::error::{CallError, Code};
use crate::id::{ExecutionId, Namespace, QuotaPolicyId, WorkerInstanceId};
use crate::key::{IndexPart, Key, LaneIndex};
use crate::partition::Family;

pub(super) struct Unblock;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::Unblock,
    interval: Duration::from_secs(5),
    interval_variable: "FF_UNBLOCK_INTERVAL_S",
    family: Family::Flow,
    sources: &[
        Source::AllInLane(LaneIndex::BlockedBudget),
        Source::AllInLane(LaneIndex::BlockedQuota),
        Source::AllInLane(LaneIndex::BlockedRoute),
    ],
    batch: 100,
    filtered: true,
};

/// Fields that are read of a candidate's record.
const FIELDS: [&str; 5] =
    ["blocking_reason", "namespace", "budget_ids", "quota_policy_id", "required_capabilities"];

/// Refusals which mean that the execution is not held.
const NOT_HELD: [Code; 2] = [Code::ExecutionNotFound, Code::ExecutionNotEligible];

/// Workers whose capabilities are read at a time.
const WORKERS_PER_STEP: usize = 500;

impl Scanner for Unblock {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let held = Held {
            execution_id: candidate.execution(context)?,
            lane_id: candidate.lane()?,
            reason: reason_of(candidate)?,
            context: context.clone(),
        };
        let core = Key::execution(&held.execution_id).core();
        let read = Command::read("HMGET", &core, &FIELDS.map(str::as_bytes));
        Ok(ScanStep::read(alloc::vec![read], move |replies| {
            match texts(replies.into_iter().next()) {
                Ok(record) => held.check_reason(record),
                Err(outcome) => outcome.into(),
            }
        }))
    }
}

fn reason_of(candidate: &Candidate) -> Result<HoldReason, CandidateOutcome> {
    let index = if let Key::Index(_, IndexPart::Lane(_, index)) = &candidate.index {
        Some(*index)
    } else {
        None
    };
    [HoldReason::Budget, HoldReason::Quota, HoldReason::Route]
        .into_iter()
        .find(|reason| Some(reason.index()) == index)
        .ok_or_else(|| CandidateOutcome::unreadable("an index that holds nothing back"))
}

/// A held candidate.
struct Held {
    execution_id: ExecutionId,
    lane_id: crate::id::LaneId,
    reason: HoldReason,
    context: ScanContext,
}

impl Held {
    fn check_reason(self, record: Vec<String>) -> ScanStep {
        let [reason, namespace, budgets, quota, needs] = record.as_slice() else {
            return CandidateOutcome::nothing().remaining().into();
        };
        if reason != self.reason.as_str() {
            // The entry does not match its record, or there is none: correct the index.
            return repair(self.execution_id, Some(self.lane_id));
        }
        match self.reason {
            HoldReason::Budget => self.check_budgets(budgets),
            HoldReason::Quota => self.check_quota(quota),
            HoldReason::Route => self.check_workers(namespace, needs),
            HoldReason::Operator | HoldReason::Policy => {
                CandidateOutcome::nothing().remaining().into()
            }
        }
    }

    fn release(self) -> ScanStep {
        let call = UnblockExecution {
            execution_id: self.execution_id,
            lane_id: self.lane_id,
            reason: self.reason,
            now: self.context.now,
        };
        let (execution_id, lane_id) = (call.execution_id.clone(), call.lane_id.clone());
        ScanStep::call(&call, |reply| match reply {
            Ok(()) => CandidateOutcome::processed().into(),
            // It moved on, or its entry does not match its record. Such an entry would take a free
            // slot from those behind it, scan after scan.
            Err(CallError::Refused(refusal)) if NOT_HELD.contains(&refusal.code) => {
                repair(execution_id, Some(lane_id))
            }
            Err(error) => CandidateOutcome::error(error).into(),
        })
    }

    fn check_budgets(self, budgets: &str) -> ScanStep {
        let reads = budget_reads(self.context.config.partitions, budget_ids(budgets));
        ScanStep::read(reads, move |replies| {
            let mut replies = replies.into_iter();
            while let (Some(limits), Some(usage)) = (replies.next(), replies.next()) {
                match (hash(Some(limits)), hash(Some(usage))) {
                    (Ok(limits), Ok(usage)) if exhausted(&limits, &usage).is_none() => {}
                    (Ok(_), Ok(_)) => return CandidateOutcome::nothing().remaining().into(),
                    (Err(outcome), _) | (_, Err(outcome)) => return outcome.into(),
                }
            }
            self.release()
        })
    }

    fn check_quota(self, quota: &str) -> ScanStep {
        // What is not a policy id limits nothing.
        let Ok(id) = quota.parse::<QuotaPolicyId>() else { return self.release() };
        let keys = Key::quota(self.context.config.partitions.of_quota(id), id);
        let reads = alloc::vec![
            Command::read("HMGET", &keys.record(), &QuotaTerms::FIELDS),
            Command::read("GET", &keys.concurrency(), &[]),
        ];
        ScanStep::read(reads, move |replies| {
            let mut replies = replies.into_iter();
            let (definition, running) = match (texts(replies.next()), number(replies.next())) {
                (Ok(definition), Ok(running)) => (definition, running),
                (Err(outcome), _) | (_, Err(outcome)) => return outcome.into(),
            };
            let terms = QuotaTerms::read(&definition);
            self.check_window(id, keys.window(ADMISSION_DIMENSION), terms, running)
        })
    }

    /// How many were admitted within the window, and so how many more may be.
    fn check_window(
        self,
        id: QuotaPolicyId,
        key: Key,
        terms: QuotaTerms,
        running: u64,
    ) -> ScanStep {
        let lag_ms = terms.window_ms();
        let since = alloc::format!("({}", self.context.now.0.saturating_sub(lag_ms));
        let mut reads = Vec::new();
        if terms.rate > 0 {
            let since = since.as_bytes();
            reads.push(Command::read("ZCOUNT", &key, &[since, b"+inf"]));
            let oldest: [&[u8]; 6] = [since, b"+inf", b"WITHSCORES", b"LIMIT", b"0", b"1"];
            reads.push(Command::read("ZRANGEBYSCORE", &key, &oldest));
        }
        ScanStep::read_with_scratch(reads, move |scratch, replies| {
            let mut replies = replies.into_iter();
            let (mut started, mut oldest) = (0, None);
            if let (Some(admitted), Some(first)) = (replies.next(), replies.next()) {
                match (number(Some(admitted)), texts(Some(first))) {
                    (Ok(admitted), Ok(first)) => {
                        started = admitted;
                        oldest = first.get(1).and_then(|score| score.parse::<i64>().ok());
                    }
                    (Err(outcome), _) | (_, Err(outcome)) => return outcome.into(),
                }
            }
            let now = self.context.now.0;
            // What was released counts until the oldest entry leaves the window, or for as long as
            // a window lasts.
            let period = match terms.rate {
                0 => 0,
                _ => oldest.unwrap_or_else(|| now / lag_ms.max(1)),
            };
            if scratch.take_one(&alloc::format!("{id} {period}"), terms.room(running, started)) {
                return self.release();
            }
            let outcome = CandidateOutcome::nothing().remaining();
            if terms.rate == 0 {
                return outcome.into();
            }
            // Without an entry, another execution was just released and will be the oldest.
            let left_ms = terms.frees_at(oldest.unwrap_or(now)).saturating_sub(now);
            let left_ms = u64::try_from(left_ms).unwrap_or(0).max(1);
            outcome.retry_in(Duration::from_millis(left_ms)).into()
        })
    }

    fn check_workers(self, namespace: &str, needs: &str) -> ScanStep {
        let needs = match needs.parse::<Capabilities>() {
            Ok(needs) => needs,
            Err(error) => return CandidateOutcome::unworkable(error.to_string()).into(),
        };
        if needs == Capabilities::default() {
            return self.release();
        }
        let namespace = Namespace::new(namespace);
        let index = Key::Workers(namespace.clone());
        let reads = alloc::vec![Command::read("SMEMBERS", &index, &[])];
        ScanStep::read(reads, move |replies| match texts(replies.into_iter().next()) {
            Ok(workers) => self.check_capabilities(namespace, needs, workers),
            Err(CandidateOutcome { kind: OutcomeKind::Failed(_), .. }) => self.release(),
            Err(outcome) => outcome.into(),
        })
    }

    /// Reads the capabilities of all workers, some at a time: the index may list many that are
    /// gone.
    fn check_capabilities(
        self,
        namespace: Namespace,
        needs: Capabilities,
        mut workers: Vec<String>,
    ) -> ScanStep {
        let rest = workers.split_off(workers.len().min(WORKERS_PER_STEP));
        let reads = workers
            .into_iter()
            .map(|instance| {
                let instance = WorkerInstanceId::new(instance);
                let key = Key::worker_capabilities(&namespace, &instance);
                Command::read("HGET", &key, &[b"caps_csv"])
            })
            .collect();
        ScanStep::read(reads, move |offers| {
            let mut unknown = None;
            for offer in offers {
                match covers(offer, &needs) {
                    Ok(true) => return self.release(),
                    Ok(false) => {}
                    Err(outcome) => unknown = Some(outcome),
                }
            }
            match unknown {
                Some(outcome) => outcome.into(),
                None if rest.is_empty() => CandidateOutcome::nothing().remaining().into(),
                None => self.check_capabilities(namespace, needs, rest),
            }
        })
    }
}

/// Whether this one worker has all capabilities, as far as its record can be read. The outcome,
/// when the store could not answer now.
fn covers(offer: Reply, needs: &Capabilities) -> Result<bool, CandidateOutcome> {
    match text(Some(offer)) {
        Ok(csv) => Ok(may_cover(&csv, needs)),
        Err(CandidateOutcome { kind: OutcomeKind::Failed(_), .. }) => Ok(true),
        Err(outcome) => Err(outcome),
    }
}
