//! Lets go what admission held back, when its reason is over: a budget with room, a quota with a
//! free slot, a worker that can do it. One free slot releases one candidate, the one that waits
//! longest. A push tells of a slot that becomes free, and a window tells when it has room again, so
//! that nobody waits for the next round.
//!
//! A limit that cannot be read keeps its candidate waiting, for what it guards may be spent. A
//! worker that cannot be read may be the one that can do it: its candidate goes, and the claim
//! compares capabilities once more.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::index_reconciler::repair;
use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::budget::{HoldReason, UnblockExecution};
use crate::call::quota::ADMISSION_DIMENSION;
use crate::capability::Capabilities;
use crate::engine::step::{Fate, Reply, Step, Verdict};
use crate::engine::texts::{hash, number, text, texts};
use crate::engine::wire::Command;
use crate::error::{CallError, Code};
use crate::id::{BudgetId, ExecutionId, Namespace, QuotaPolicyId, WorkerInstanceId};
use crate::key::{IndexPart, Key, LaneIndex};
use crate::partition::Family;

pub(super) struct Unblock;

const SPEC: Spec = Spec {
    name: ScannerName::Unblock,
    every: Duration::from_secs(5),
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

/// What a candidate's record must tell.
const FIELDS: [&str; 5] =
    ["blocking_reason", "namespace", "budget_ids", "quota_policy_id", "required_capabilities"];

/// The refusals that say: nobody holds it back.
const NOT_HELD: [Code; 2] = [Code::ExecutionNotFound, Code::ExecutionNotEligible];

/// Workers that are asked for their capabilities at a time.
const WORKERS_PER_STEP: usize = 500;

impl Scanner for Unblock {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let held = Held {
            execution_id: candidate.execution(scene)?,
            lane_id: candidate.lane()?,
            reason: reason_of(candidate)?,
            scene: scene.clone(),
        };
        let core = Key::execution(&held.execution_id).core();
        let read = Command::read("HMGET", &core, &FIELDS.map(str::as_bytes));
        Ok(Step::read(alloc::vec![read], move |replies| match texts(replies.into_iter().next()) {
            Ok(record) => held.judge(record),
            Err(verdict) => verdict.into(),
        }))
    }
}

fn reason_of(candidate: &Candidate) -> Result<HoldReason, Verdict> {
    let index = if let Key::Index(_, IndexPart::Lane(_, index)) = &candidate.index {
        Some(*index)
    } else {
        None
    };
    [HoldReason::Budget, HoldReason::Quota, HoldReason::Route]
        .into_iter()
        .find(|reason| Some(reason.index()) == index)
        .ok_or_else(|| Verdict::poison("an index that holds nothing back"))
}

/// A candidate, and why it is held back.
struct Held {
    execution_id: ExecutionId,
    lane_id: crate::id::LaneId,
    reason: HoldReason,
    scene: Scene,
}

impl Held {
    fn judge(self, record: Vec<String>) -> Step {
        let [reason, namespace, budgets, quota, needs] = record.as_slice() else {
            return Verdict::nothing().staying().into();
        };
        if reason != self.reason.as_str() {
            // The entry does not fit its record, or there is none: put the index right.
            return repair(self.execution_id, Some(self.lane_id));
        }
        match self.reason {
            HoldReason::Budget => self.ask_budgets(budgets),
            HoldReason::Quota => self.ask_quota(quota),
            HoldReason::Route => self.ask_workers(namespace, needs),
            HoldReason::Operator | HoldReason::Policy => Verdict::nothing().staying().into(),
        }
    }

    fn release(self) -> Step {
        let call = UnblockExecution {
            execution_id: self.execution_id,
            lane_id: self.lane_id,
            reason: self.reason,
            now: self.scene.now,
        };
        let (execution_id, lane_id) = (call.execution_id.clone(), call.lane_id.clone());
        Step::call(&call, |reply| match reply {
            Ok(()) => Verdict::processed().into(),
            // It moved on, or its entry does not fit its record. Such an entry would take a free
            // slot from those behind it, scan after scan.
            Err(CallError::Refused(refusal)) if NOT_HELD.contains(&refusal.code) => {
                repair(execution_id, Some(lane_id))
            }
            Err(error) => Verdict::error(error).into(),
        })
    }

    fn ask_budgets(self, budgets: &str) -> Step {
        let counts = self.scene.config.partitions;
        let mut reads = Vec::new();
        for budget in budgets.split(',').map(str::trim).filter(|id| !id.is_empty()) {
            // Whatever is no budget limits nothing.
            let Ok(id) = budget.parse::<BudgetId>() else { continue };
            let keys = Key::budget(counts.of_budget(id), id);
            reads.push(Command::read("HGETALL", &keys.limits(), &[]));
            reads.push(Command::read("HGETALL", &keys.usage(), &[]));
        }
        Step::read(reads, move |replies| {
            let mut replies = replies.into_iter();
            while let (Some(limits), Some(usage)) = (replies.next(), replies.next()) {
                match (hash(Some(limits)), hash(Some(usage))) {
                    (Ok(limits), Ok(usage)) if has_room(&limits, &usage) => {}
                    (Ok(_), Ok(_)) => return Verdict::nothing().staying().into(),
                    (Err(verdict), _) | (_, Err(verdict)) => return verdict.into(),
                }
            }
            self.release()
        })
    }

    fn ask_quota(self, quota: &str) -> Step {
        // Whatever is no policy limits nothing.
        let Ok(id) = quota.parse::<QuotaPolicyId>() else { return self.release() };
        let keys = Key::quota(self.scene.config.partitions.of_quota(id), id);
        let definition: [&[u8]; 3] =
            [b"max_requests_per_window", b"requests_per_window_seconds", b"active_concurrency_cap"];
        let reads = alloc::vec![
            Command::read("HMGET", &keys.record(), &definition),
            Command::read("GET", &keys.concurrency(), &[]),
        ];
        Step::read(reads, move |replies| {
            let mut replies = replies.into_iter();
            let (definition, running) = match (texts(replies.next()), number(replies.next())) {
                (Ok(definition), Ok(running)) => (definition, running),
                (Err(verdict), _) | (_, Err(verdict)) => return verdict.into(),
            };
            let figure = |at: usize, default: u64| {
                definition.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
            };
            let (rate, window_s, cap) = (figure(0, 0), figure(1, 60), figure(2, 0));
            let free = if cap == 0 { u64::MAX } else { cap.saturating_sub(running) };
            let window = keys.window(ADMISSION_DIMENSION);
            self.ask_window(id, window, Window { rate, window_s, free })
        })
    }

    /// How many were admitted within the window, and so how many more may be.
    fn ask_window(self, id: QuotaPolicyId, key: Key, window: Window) -> Step {
        let lag_ms = i64::try_from(window.window_s.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let since = alloc::format!("({}", self.scene.now.0.saturating_sub(lag_ms));
        let mut reads = Vec::new();
        if window.rate > 0 {
            let since = since.as_bytes();
            reads.push(Command::read("ZCOUNT", &key, &[since, b"+inf"]));
            let oldest: [&[u8]; 6] = [since, b"+inf", b"WITHSCORES", b"LIMIT", b"0", b"1"];
            reads.push(Command::read("ZRANGEBYSCORE", &key, &oldest));
        }
        Step::read_with_notes(reads, move |notes, replies| {
            let mut replies = replies.into_iter();
            let (mut free, mut oldest) = (window.free, None);
            if let (Some(admitted), Some(first)) = (replies.next(), replies.next()) {
                match (number(Some(admitted)), texts(Some(first))) {
                    (Ok(admitted), Ok(first)) => {
                        free = free.min(window.rate.saturating_sub(admitted));
                        oldest = first.get(1).and_then(|score| score.parse::<i64>().ok());
                    }
                    (Err(verdict), _) | (_, Err(verdict)) => return verdict.into(),
                }
            }
            let now = self.scene.now.0;
            // What a window gave away counts until its oldest entry leaves it, or for as long as a
            // window lasts.
            let period = match window.rate {
                0 => 0,
                _ => oldest.unwrap_or_else(|| now / lag_ms.max(1)),
            };
            if notes.take_one(&alloc::format!("{id} {period}"), free) {
                return self.release();
            }
            let verdict = Verdict::nothing().staying();
            if window.rate == 0 {
                return verdict.into();
            }
            // Room comes when the oldest entry leaves, one millisecond after its last. Where there
            // is none, somebody else was just let go, and is the oldest soon.
            let left_ms = oldest.unwrap_or(now).saturating_add(lag_ms).saturating_sub(now);
            let left_ms = u64::try_from(left_ms).unwrap_or(0).saturating_add(1);
            verdict.again_in(Duration::from_millis(left_ms)).into()
        })
    }

    fn ask_workers(self, namespace: &str, needs: &str) -> Step {
        let needs = match needs.parse::<Capabilities>() {
            Ok(needs) => needs,
            Err(error) => return Verdict::unworkable(error.to_string()).into(),
        };
        if needs == Capabilities::default() {
            return self.release();
        }
        let namespace = Namespace::new(namespace);
        let index = Key::Workers(namespace.clone());
        let reads = alloc::vec![Command::read("SMEMBERS", &index, &[])];
        Step::read(reads, move |replies| match texts(replies.into_iter().next()) {
            Ok(workers) => self.ask_offers(namespace, needs, workers),
            Err(Verdict { fate: Fate::Failed(_), .. }) => self.release(),
            Err(verdict) => verdict.into(),
        })
    }

    /// Asks worker after worker, some at a time: the index also lists those that are long gone, and
    /// they must not hide the one that can do it.
    fn ask_offers(
        self,
        namespace: Namespace,
        needs: Capabilities,
        mut workers: Vec<String>,
    ) -> Step {
        let rest = workers.split_off(workers.len().min(WORKERS_PER_STEP));
        let reads = workers
            .into_iter()
            .map(|instance| {
                let instance = WorkerInstanceId::new(instance);
                let key = Key::worker_capabilities(&namespace, &instance);
                Command::read("HGET", &key, &[b"caps_csv"])
            })
            .collect();
        Step::read(reads, move |offers| {
            let mut unknown = None;
            for offer in offers {
                match covers(offer, &needs) {
                    Ok(true) => return self.release(),
                    Ok(false) => {}
                    Err(verdict) => unknown = Some(verdict),
                }
            }
            match unknown {
                Some(verdict) => verdict.into(),
                None if rest.is_empty() => Verdict::nothing().staying().into(),
                None => self.ask_offers(namespace, needs, rest),
            }
        })
    }
}

/// Whether this one worker has all of them, as far as anybody can tell: spread over several they
/// help nobody. The verdict, when the store could not say now.
fn covers(offer: Reply, needs: &Capabilities) -> Result<bool, Verdict> {
    match text(Some(offer)) {
        // A worker that registered none, or is gone.
        Ok(csv) if csv.is_empty() => Ok(false),
        Ok(csv) => Ok(csv
            .parse::<Capabilities>()
            .map_or(true, |offered| needs.missing_from(&offered).is_empty())),
        Err(Verdict { fate: Fate::Failed(_), .. }) => Ok(true),
        Err(verdict) => Err(verdict),
    }
}

struct Window {
    rate: u64,
    window_s: u64,
    free: u64,
}

/// Whether no hard limit is reached.
fn has_room(limits: &BTreeMap<String, String>, usage: &BTreeMap<String, String>) -> bool {
    limits.iter().all(|(name, limit)| {
        let Some(dimension) = name.strip_prefix("hard:") else { return true };
        let limit: i64 = limit.parse().unwrap_or(0);
        let used: i64 = usage.get(dimension).and_then(|used| used.parse().ok()).unwrap_or(0);
        limit <= 0 || used < limit
    })
}
