//! Why an execution is in its state: what it waits for, who or which scanner can change that, and
//! by when.
//!
//! [`explain`] is a pure function of a [`Snapshot`] that holds only what the answer needs.
//! [`reads()`] lists what to read next; call it again with what was read until it lists nothing
//! new.

mod dependencies;
mod reads;
mod suspension;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

pub use reads::{EDGES_MAX, Read, reads};

use crate::audit::{Execution, Snapshot};
use crate::engine::{EngineConfig, ScannerName, scanner_specs};
use crate::id::{ExecutionId, FlowId, LaneId};
use crate::key::{Key, LaneIndex, PartitionIndex};
use crate::state::{
    EligibilityState, LifecyclePhase, OwnershipState, StateVector, TerminalOutcome,
};
use crate::time::ServerTime;

/// Why an execution is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its state in one sentence.
    pub headline: String,
    /// What must happen before it continues: all of these, unless an entry says otherwise.
    pub waits: Vec<Wait>,
    /// Timeouts and deadlines that end or move it whatever happens to `waits`.
    pub limits: Vec<Wait>,
}

/// One thing that an execution waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// What it waits for.
    pub on: String,
    /// Who can make it happen.
    pub unblocked_by: UnblockedBy,
    /// By when it happens.
    pub by: DueBy,
}

/// Who can change the state of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnblockedBy {
    /// A worker.
    Worker(String),
    /// The holder of a waitpoint token.
    Signaller(String),
    /// A scanner of any engine.
    Scanner(ScannerName),
    /// Another execution, when it ends.
    Upstream(ExecutionId),
    /// The client that submits the flow.
    Submitter,
    /// An operator.
    Operator,
    /// Nobody: the record is inconsistent; `selvedge fsck` tells more.
    Nobody,
}

/// By when something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueBy {
    /// By this time of the server's clock, as long as an engine runs.
    Time(ServerTime),
    /// It was due at this time of the server's clock; probably no engine runs.
    Overdue(ServerTime),
    /// No time is known.
    Unknown,
}

/// Explains the state of an execution; none if it has no record.
#[must_use]
pub fn explain(
    snapshot: &Snapshot,
    id: &ExecutionId,
    config: &EngineConfig,
) -> Option<Explanation> {
    let execution = snapshot.execution(id)?;
    let mut explainer =
        Explainer { snapshot, config, execution, waits: Vec::new(), limits: Vec::new() };
    let headline = match execution.vector() {
        Ok(vector) => explainer.headline(vector),
        Err(unknown) => {
            explainer.wait(
                "its record to be repaired".to_owned(),
                UnblockedBy::Operator,
                DueBy::Unknown,
            );
            match explainer.empty_fields() {
                Some(fields) => format!("its record is damaged: it lacks {fields}"),
                None => format!("its record cannot be read: {unknown}"),
            }
        }
    };
    Some(Explanation {
        execution_id: id.clone(),
        headline,
        waits: explainer.waits,
        limits: explainer.limits,
    })
}

/// The same for an execution that is missing from the lane index it belongs in.
#[must_use]
pub fn explain_missing(
    snapshot: &Snapshot,
    id: &ExecutionId,
    config: &EngineConfig,
    (lane, index): (&LaneId, LaneIndex),
) -> Option<Explanation> {
    let mut explanation = explain(snapshot, id, config)?;
    explanation.headline.push_str(&format!(
        ", but it is missing from the {index} index of lane {lane}, so nothing finds it"
    ));
    let scanner = ScannerName::IndexReconciler;
    let by = DueBy::Time(latest_visit(config, snapshot.now(), scanner));
    let on = "its index entry to be restored; `selvedge fsck --repair` does so at once";
    explanation
        .waits
        .insert(0, Wait { on: on.to_owned(), unblocked_by: UnblockedBy::Scanner(scanner), by });
    Some(explanation)
}

/// Builds one explanation.
struct Explainer<'a> {
    snapshot: &'a Snapshot,
    config: &'a EngineConfig,
    execution: Execution<'a>,
    waits: Vec<Wait>,
    limits: Vec<Wait>,
}

impl Explainer<'_> {
    fn headline(&mut self, vector: StateVector) -> String {
        if vector.phase != LifecyclePhase::Terminal {
            self.deadline();
        }
        match vector.phase {
            LifecyclePhase::Submitted | LifecyclePhase::Runnable => self.runnable(vector),
            LifecyclePhase::Active => self.active(vector.ownership),
            LifecyclePhase::Suspended => self.suspended(),
            LifecyclePhase::Terminal => self.ended(vector),
        }
    }

    fn runnable(&mut self, vector: StateVector) -> String {
        match vector.eligibility {
            EligibilityState::EligibleNow => self.eligible(),
            EligibilityState::NotEligibleUntilTime => self.delayed(vector),
            EligibilityState::BlockedByDependencies => self.blocked_by_dependencies(),
            EligibilityState::BlockedByBudget
            | EligibilityState::BlockedByQuota
            | EligibilityState::BlockedByRoute => self.blocked_by_admission(vector),
            EligibilityState::BlockedByLaneState | EligibilityState::BlockedByOperator => {
                self.wait("to be unblocked".to_owned(), UnblockedBy::Operator, DueBy::Unknown);
                format!("an operator blocked it{}", self.detail())
            }
            EligibilityState::NotApplicable => {
                self.wait(
                    "its record to be repaired".to_owned(),
                    UnblockedBy::Nobody,
                    DueBy::Unknown,
                );
                "it is runnable but neither eligible nor blocked".to_owned()
            }
        }
    }

    fn eligible(&mut self) -> String {
        if let Some(cancelled) = self.cancelled_flow() {
            let by = self.within(ScannerName::CancelReconciler);
            let on = format!("the cancellation of flow {cancelled} to reach it");
            self.wait(on, UnblockedBy::Scanner(ScannerName::CancelReconciler), by);
            return "its flow was cancelled while it was ready; no worker can claim it".to_owned();
        }
        let lane = self.lane();
        let needs = self.execution.core.text("required_capabilities");
        let who = match needs {
            "" => format!("any worker of lane {lane}"),
            needs => format!("a worker of lane {lane} that offers {needs}"),
        };
        self.wait("a free worker".to_owned(), UnblockedBy::Worker(who.clone()), DueBy::Unknown);
        let grant = self.snapshot.hash(&Key::execution(self.execution.id).claim_grant());
        match grant.map(|grant| grant.text("worker_id")) {
            Some(holder) if !holder.is_empty() => {
                format!("it is ready and granted to worker {holder}")
            }
            _ => format!("it is ready to run and waits for {who}"),
        }
    }

    fn delayed(&mut self, vector: StateVector) -> String {
        let index =
            Key::index(self.execution.partition()).lane(&self.lane_id(), LaneIndex::Delayed);
        let member = self.execution.id.to_string();
        let recorded = self.execution.core.number("delay_until");
        let due = self.snapshot.zset(&index).get(&member).map_or(recorded, |score| whole(*score));
        let by = self.after(ServerTime(due), ScannerName::DelayedPromoter);
        let promoter = UnblockedBy::Scanner(ScannerName::DelayedPromoter);
        self.wait(format!("the time {due}"), promoter, by);
        format!("it is delayed ({}){}", vector.reason, self.detail())
    }

    /// Blocked by a budget, a quota or missing capabilities: the unblock scanner handles all three.
    fn blocked_by_admission(&mut self, vector: StateVector) -> String {
        let core = self.execution.core;
        let on = match vector.eligibility {
            EligibilityState::BlockedByBudget => {
                format!("room in budget {}", core.text("budget_ids"))
            }
            EligibilityState::BlockedByQuota => {
                format!("room in quota {}", core.text("quota_policy_id"))
            }
            EligibilityState::EligibleNow
            | EligibilityState::NotEligibleUntilTime
            | EligibilityState::BlockedByDependencies
            | EligibilityState::BlockedByRoute
            | EligibilityState::BlockedByLaneState
            | EligibilityState::BlockedByOperator
            | EligibilityState::NotApplicable => {
                format!("a live worker that offers {}", core.text("required_capabilities"))
            }
        };
        self.wait(on, UnblockedBy::Scanner(ScannerName::Unblock), DueBy::Unknown);
        format!("it is blocked ({}){}", vector.reason, self.detail())
    }

    fn active(&mut self, ownership: OwnershipState) -> String {
        let core = self.execution.core;
        let holder = match core.text("current_worker_instance_id") {
            "" => core.text("current_worker_id"),
            instance => instance,
        };
        let ends = ServerTime(core.number("lease_expires_at"));
        let scanner = UnblockedBy::Scanner(ScannerName::LeaseExpiry);
        match ownership {
            OwnershipState::Leased if ends >= self.snapshot.now() => {
                let worker = UnblockedBy::Worker(holder.to_owned());
                self.wait("its worker to finish".to_owned(), worker, DueBy::Unknown);
                self.attempt_timeout();
                let back = self.after(ends, ScannerName::LeaseExpiry);
                let on = "the end of its lease, unless it is renewed".to_owned();
                self.limits.push(Wait { on, unblocked_by: scanner, by: back });
                format!("worker {holder} runs it under a lease until {ends}")
            }
            OwnershipState::Leased => {
                let by = self.after(ends, ScannerName::LeaseExpiry);
                self.wait("its expired lease to be detected".to_owned(), scanner, by);
                format!("the lease of worker {holder} expired at {ends}")
            }
            OwnershipState::LeaseExpiredReclaimable | OwnershipState::LeaseRevoked => {
                let lost = ServerTime(core.number("last_transition_at"));
                let by = self.after(lost, ScannerName::LeaseExpiry);
                self.wait("to be requeued".to_owned(), scanner, by);
                format!("worker {holder} lost its lease ({ownership})")
            }
            OwnershipState::Unowned => {
                self.wait(
                    "its record to be repaired".to_owned(),
                    UnblockedBy::Nobody,
                    DueBy::Unknown,
                );
                "it is active but no worker owns it".to_owned()
            }
        }
    }

    fn ended(&mut self, vector: StateVector) -> String {
        let core = self.execution.core;
        let reason = [core.text("failure_reason"), core.text("cancellation_reason")]
            .into_iter()
            .find(|reason| !reason.is_empty())
            .filter(|_| vector.outcome != TerminalOutcome::Success)
            .map(|reason| format!(": {reason}"));
        let on = "the end of its retention".to_owned();
        let trimmer = UnblockedBy::Scanner(ScannerName::RetentionTrimmer);
        self.limits.push(Wait { on, unblocked_by: trimmer, by: DueBy::Unknown });
        let ended = match vector.outcome {
            TerminalOutcome::None => "it ended without an outcome",
            TerminalOutcome::Success => "it succeeded",
            TerminalOutcome::Failed => "it failed",
            TerminalOutcome::Cancelled => "it was cancelled",
            TerminalOutcome::Expired => "it timed out",
            TerminalOutcome::Skipped => "it was skipped",
        };
        format!("{ended} at {}{}", core.text("completed_at"), reason.unwrap_or_default())
    }

    fn deadline(&mut self) {
        self.limit(
            "its deadline",
            PartitionIndex::ExecutionDeadline,
            ScannerName::ExecutionDeadline,
        );
    }

    fn attempt_timeout(&mut self) {
        self.limit(
            "the time allowed for this attempt",
            PartitionIndex::AttemptTimeout,
            ScannerName::AttemptTimeout,
        );
    }

    /// Adds the limit for which the execution has an entry in `index`, if it has one.
    fn limit(&mut self, on: &str, index: PartitionIndex, scanner: ScannerName) {
        let member = self.execution.id.to_string();
        let index = self.snapshot.index(self.execution.partition(), index);
        if let Some(score) = index.get(&member) {
            let at = ServerTime(whole(*score));
            let by = self.after(at, scanner);
            let on = format!("{on}, {at}");
            self.limits.push(Wait { on, unblocked_by: UnblockedBy::Scanner(scanner), by });
        }
    }

    fn wait(&mut self, on: String, unblocked_by: UnblockedBy, by: DueBy) {
        self.waits.push(Wait { on, unblocked_by, by });
    }

    /// Its flow, if that was cancelled: then no member can be claimed.
    fn cancelled_flow(&self) -> Option<FlowId> {
        let flow: FlowId = self.execution.core.text("flow_id").parse().ok()?;
        let core = self.snapshot.hash(&Key::flow(self.execution.partition(), flow).core())?;
        (core.text("public_flow_state") == "cancelled").then_some(flow)
    }

    /// The blocking detail in the record, as the end of a sentence.
    fn detail(&self) -> String {
        match self.execution.core.text("blocking_detail") {
            "" => String::new(),
            detail => format!(": {detail}"),
        }
    }

    fn lane(&self) -> &str {
        reads::lane_text(&self.execution)
    }

    fn lane_id(&self) -> LaneId {
        reads::lane_id(&self.execution)
    }

    /// By when a scanner visits, from now on.
    fn within(&self, scanner: ScannerName) -> DueBy {
        self.after(self.snapshot.now(), scanner)
    }

    /// By when a scanner visits after `at`.
    fn after(&self, at: ServerTime, scanner: ScannerName) -> DueBy {
        let latest = self.latest_visit(at, scanner);
        if latest < self.snapshot.now() { DueBy::Overdue(latest) } else { DueBy::Time(latest) }
    }

    fn latest_visit(&self, at: ServerTime, scanner: ScannerName) -> ServerTime {
        latest_visit(self.config, at, scanner)
    }

    /// The fields of the state vector that are empty in the record.
    fn empty_fields(&self) -> Option<String> {
        let empty = |field: &&str| self.execution.core.text(field).is_empty();
        let lacks: Vec<&str> = StateVector::FIELDS.into_iter().filter(empty).collect();
        (!lacks.is_empty()).then(|| lacks.join(", "))
    }
}

/// The latest time of the next visit of a scanner after `at`: an idle engine doubles its intervals,
/// jitter included.
fn latest_visit(config: &EngineConfig, at: ServerTime, scanner: ScannerName) -> ServerTime {
    let every = scanner_specs()
        .find(|spec| spec.name == scanner)
        .map_or(Duration::ZERO, |spec| config.interval(scanner, spec.interval));
    let ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
    ServerTime(at.0.saturating_add(ms.saturating_mul(2)))
}

/// A score as a whole number.
#[expect(clippy::cast_possible_truncation, reason = "scores are milliseconds, far below 2^53")]
const fn whole(score: f64) -> i64 {
    score as i64
}
