//! Why an execution is in its state: what it waits for, who or which scanner can change that, and
//! by when.
//!
//! [`explain`] is a pure function of a [`Snapshot`] that holds only what the answer needs, and of
//! the [`Present`]: who runs. [`reads()`] lists what to read next; call it again with what was read
//! until it lists nothing new.

mod answer;
mod causes;
mod dependencies;
mod ended;
mod held;
mod present;
mod reads;
mod ready;
mod running;
mod suspension;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

pub use answer::{DueBy, Explanation, FullLimit, LostCause, Reason, UnblockedBy, Urgency, Wait};
pub use causes::{Cause, Causes, causes};
pub use present::{Engines, Present, WorkerOffer};
pub use reads::{EDGES_MAX, Read, reads};

use crate::audit::{Execution, Snapshot};
use crate::engine::{EngineConfig, ScannerName, scanner_specs};
use crate::id::{ExecutionId, FlowId, LaneId};
use crate::key::{Key, LaneIndex, PartitionIndex};
use crate::state::{EligibilityState, LifecyclePhase, StateVector};
use crate::time::ServerTime;

/// Explains the state of an execution; none if it has no record.
#[must_use]
pub fn explain(snapshot: &Snapshot, id: &ExecutionId, present: Present<'_>) -> Option<Explanation> {
    let execution = snapshot.execution(id)?;
    let mut explainer = Explainer {
        snapshot,
        present,
        execution,
        waits: Vec::new(),
        limits: Vec::new(),
        skipped_for: Vec::new(),
    };
    let vector = execution.vector();
    let headline = match &vector {
        Ok(vector) => explainer.headline(*vector),
        Err(unknown) => {
            let on = "its record to be repaired";
            explainer.wait(Reason::Damage, on, UnblockedBy::Operator, DueBy::Unknown);
            match explainer.empty_fields() {
                Some(fields) => format!("its record is damaged: it lacks {fields}"),
                None => format!("its record cannot be read: {unknown}"),
            }
        }
    };
    let moved_at = execution.core.number("last_transition_at");
    Some(Explanation {
        execution_id: id.clone(),
        namespace: execution.core.text("namespace").to_owned(),
        at: snapshot.now(),
        state: vector.ok(),
        moved_at: (moved_at > 0).then_some(ServerTime(moved_at)),
        engines: present.engines,
        headline,
        waits: explainer.waits,
        limits: explainer.limits,
        skipped_for: explainer.skipped_for,
    })
}

/// The same for an execution that is missing from the lane index it belongs in.
#[must_use]
pub fn explain_missing(
    snapshot: &Snapshot,
    id: &ExecutionId,
    present: Present<'_>,
    (lane, index): (&LaneId, LaneIndex),
) -> Option<Explanation> {
    let mut explanation = explain(snapshot, id, present)?;
    explanation.headline.push_str(&format!(
        ", but it is missing from the {index} index of lane {lane}, so nothing finds it"
    ));
    let scanner = ScannerName::IndexReconciler;
    let by = DueBy::Time(latest_visit(present.config, snapshot.now(), scanner));
    let on = "its index entry to be restored; `selvedge fsck --repair` does so at once";
    let scanner = UnblockedBy::Scanner(scanner);
    explanation.waits.insert(0, Wait::new(Reason::IndexEntry, on.to_owned(), scanner, by));
    Some(explanation)
}

/// Builds one explanation.
struct Explainer<'a> {
    snapshot: &'a Snapshot,
    present: Present<'a>,
    execution: Execution<'a>,
    waits: Vec<Wait>,
    limits: Vec<Wait>,
    skipped_for: Vec<LostCause>,
}

impl Explainer<'_> {
    fn headline(&mut self, vector: StateVector) -> String {
        if vector.phase != LifecyclePhase::Terminal {
            self.deadline();
            if vector.home() != Some(LaneIndex::Eligible) {
                self.coming_cancel();
            }
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
                let operator = UnblockedBy::Operator;
                self.wait(Reason::Operator, "to be unblocked", operator, DueBy::Unknown);
                format!("an operator blocked it{}", self.detail())
            }
            EligibilityState::NotApplicable => {
                self.damaged();
                "it is runnable but neither eligible nor blocked".to_owned()
            }
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
        self.wait(Reason::Delay, format!("the time {due}"), promoter, by);
        format!("it is delayed ({}){}", vector.reason, self.detail())
    }

    /// Waits to be cancelled with its flow.
    fn wait_for_cancel(&mut self, flow: FlowId) {
        let on = format!("the cancellation of flow {flow} to reach it");
        let by = self.cancel_due(flow).unwrap_or(DueBy::Unknown);
        let scanner = UnblockedBy::Scanner(ScannerName::CancelReconciler);
        self.wait(Reason::Cancellation, on, scanner, by);
    }

    /// Adds the cancel of its flow, if that is going to reach it.
    fn coming_cancel(&mut self) {
        let flow = self.execution.core.text("flow_id").parse().ok();
        if let Some((flow, by)) = flow.and_then(|flow| Some((flow, self.cancel_due(flow)?))) {
            let on = format!("the cancellation of flow {flow} to reach it");
            let scanner = UnblockedBy::Scanner(ScannerName::CancelReconciler);
            self.limit(Reason::Cancellation, on, scanner, by);
        }
    }

    /// By when an engine cancels it with its flow; none if the flow does not list it for that.
    fn cancel_due(&self, flow: FlowId) -> Option<DueBy> {
        let partition = self.execution.partition();
        let pending = self.snapshot.set(&Key::flow(partition, flow).pending_cancels());
        let due = self.snapshot.index(partition, PartitionIndex::CancelBacklog);
        let due = due.get(&flow.to_string()).map(|score| ServerTime(whole(*score)));
        let is_listed = pending.contains(self.execution.id.as_str());
        due.filter(|_| is_listed).map(|due| self.after(due, ScannerName::CancelReconciler))
    }

    fn deadline(&mut self) {
        let index = PartitionIndex::ExecutionDeadline;
        self.alarm(Reason::Deadline, "its deadline", index, ScannerName::ExecutionDeadline);
    }

    fn attempt_timeout(&mut self) {
        let on = "the time allowed for this attempt";
        let index = PartitionIndex::AttemptTimeout;
        self.alarm(Reason::AttemptTimeout, on, index, ScannerName::AttemptTimeout);
    }

    /// Adds the limit for which the execution has an entry in `index`, if it has one.
    fn alarm(&mut self, reason: Reason, on: &str, index: PartitionIndex, scanner: ScannerName) {
        let member = self.execution.id.to_string();
        let index = self.snapshot.index(self.execution.partition(), index);
        if let Some(score) = index.get(&member) {
            let at = ServerTime(whole(*score));
            let by = self.after(at, scanner);
            self.limit(reason, format!("{on}, {at}"), UnblockedBy::Scanner(scanner), by);
        }
    }

    /// Adds a wait, and returns it for what else is known about it.
    fn wait(
        &mut self,
        reason: Reason,
        on: impl Into<String>,
        unblocked_by: UnblockedBy,
        by: DueBy,
    ) -> &mut Wait {
        self.waits.push_mut(Wait::new(reason, on.into(), unblocked_by, by))
    }

    fn limit(
        &mut self,
        reason: Reason,
        on: impl Into<String>,
        unblocked_by: UnblockedBy,
        by: DueBy,
    ) {
        self.limits.push(Wait::new(reason, on.into(), unblocked_by, by));
    }

    /// Its record contradicts itself, and no engine repairs it.
    fn damaged(&mut self) {
        let on = "its record to be repaired";
        self.wait(Reason::Damage, on, UnblockedBy::Nobody, DueBy::Unknown);
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
        latest_visit(self.present.config, at, scanner)
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
