//! Why an execution is where it is: what it waits for, who can move it, which scanner does so, and
//! by when.
//!
//! The answer is a pure function of a [`Snapshot`] that needs to hold only what the answer is
//! about: [`asks`] says what to read next, as long as there is something, and [`explain`] answers.

mod asks;
mod dependencies;
mod suspension;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

pub use asks::{Ask, EDGES_MAX, asks};

use crate::audit::{Execution, Snapshot};
use crate::engine::scan::SCANNERS;
use crate::engine::{EngineConfig, ScannerName};
use crate::id::{ExecutionId, FlowId, LaneId};
use crate::key::{Key, LaneIndex, PartitionIndex};
use crate::state::{
    EligibilityState, LifecyclePhase, OwnershipState, StateVector, TerminalOutcome,
};
use crate::time::ServerTime;

/// Why an execution is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Which one.
    pub execution_id: ExecutionId,
    /// Its state in one sentence.
    pub headline: String,
    /// What must happen for it to go on; all of them, unless they say otherwise.
    pub waits: Vec<Wait>,
    /// What ends or moves it in any case.
    pub limits: Vec<Wait>,
}

/// One thing that an execution waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// For what.
    pub on: String,
    /// Who can bring it about.
    pub mover: Mover,
    /// By when.
    pub by: By,
}

/// Who can move an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A worker.
    Worker(String),
    /// Whoever holds the token of a waitpoint.
    Signaller(String),
    /// A scanner of any engine.
    Scanner(ScannerName),
    /// Another execution, by ending.
    Upstream(ExecutionId),
    /// Whoever submits the flow.
    Submitter,
    /// An operator.
    Operator,
    /// Nobody: this should not be so, and `fsck` will say more.
    Nobody,
}

/// By when something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// As long as an engine runs: by this time of the server's clock.
    Time(ServerTime),
    /// It should have happened by this time of the server's clock: it seems that no engine runs.
    Overdue(ServerTime),
    /// Nobody can say.
    Open,
}

/// Why the execution is where it is; none when it has no record.
#[must_use]
pub fn explain(
    snapshot: &Snapshot,
    id: &ExecutionId,
    config: &EngineConfig,
) -> Option<Explanation> {
    let execution = snapshot.execution(id)?;
    let mut scene = Scene { snapshot, config, execution, waits: Vec::new(), limits: Vec::new() };
    let headline = match execution.vector() {
        Ok(vector) => scene.tell(vector),
        Err(unknown) => {
            scene.wait("its record to be mended".to_owned(), Mover::Operator, By::Open);
            match scene.lacking() {
                Some(lacks) => format!("its record is damaged: it lacks {lacks}"),
                None => format!("its record cannot be read: {unknown}"),
            }
        }
    };
    Some(Explanation {
        execution_id: id.clone(),
        headline,
        waits: scene.waits,
        limits: scene.limits,
    })
}

/// The same for an execution that is missing from the lane index in which it would be found.
#[must_use]
pub fn explain_missing(
    snapshot: &Snapshot,
    id: &ExecutionId,
    config: &EngineConfig,
    (lane, index): (&LaneId, LaneIndex),
) -> Option<Explanation> {
    let mut told = explain(snapshot, id, config)?;
    told.headline.push_str(&format!(
        ", but it is missing from the {index} index of lane {lane}, where it would be found"
    ));
    let scanner = ScannerName::IndexReconciler;
    let by = By::Time(late(config, snapshot.now(), scanner));
    let on = "its entry in the index to be put back, which `selvedge fsck --repair` does at once";
    told.waits.insert(0, Wait { on: on.to_owned(), mover: Mover::Scanner(scanner), by });
    Some(told)
}

/// What is known while an explanation is put together.
struct Scene<'a> {
    snapshot: &'a Snapshot,
    config: &'a EngineConfig,
    execution: Execution<'a>,
    waits: Vec<Wait>,
    limits: Vec<Wait>,
}

impl Scene<'_> {
    fn tell(&mut self, vector: StateVector) -> String {
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
            | EligibilityState::BlockedByRoute => self.held_back(vector),
            EligibilityState::BlockedByLaneState | EligibilityState::BlockedByOperator => {
                self.wait("to be released".to_owned(), Mover::Operator, By::Open);
                format!("an operator holds it back{}", self.detail())
            }
            EligibilityState::NotApplicable => {
                self.wait("its record to be mended".to_owned(), Mover::Nobody, By::Open);
                "it is runnable and yet neither eligible nor held back".to_owned()
            }
        }
    }

    fn eligible(&mut self) -> String {
        if let Some(cancelled) = self.cancelled_flow() {
            let by = self.within(ScannerName::CancelReconciler);
            let on = format!("the cancel of {cancelled} to reach it");
            self.wait(on, Mover::Scanner(ScannerName::CancelReconciler), by);
            return "it was ready when its flow was cancelled; nobody may claim it now".to_owned();
        }
        let lane = self.lane();
        let needs = self.execution.core.text("required_capabilities");
        let who = match needs {
            "" => format!("any worker of lane {lane}"),
            needs => format!("a worker of lane {lane} that offers {needs}"),
        };
        self.wait("a free worker".to_owned(), Mover::Worker(who.clone()), By::Open);
        let grant = self.snapshot.hash(&Key::execution(self.execution.id).claim_grant());
        match grant.map(|grant| grant.text("worker_id")) {
            Some(holder) if !holder.is_empty() => {
                format!("it is ready and promised to worker {holder}")
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
        let promoter = Mover::Scanner(ScannerName::DelayedPromoter);
        self.wait(format!("the time {due}"), promoter, by);
        format!("it is put off ({}){}", vector.reason, self.detail())
    }

    /// Budgets, quotas and capabilities: the same scanner looks after all of them.
    fn held_back(&mut self, vector: StateVector) -> String {
        let core = self.execution.core;
        let on = match vector.eligibility {
            EligibilityState::BlockedByBudget => format!("room in {}", core.text("budget_ids")),
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
                format!("a living worker that offers {}", core.text("required_capabilities"))
            }
        };
        self.wait(on, Mover::Scanner(ScannerName::Unblock), By::Open);
        format!("it is held back ({}){}", vector.reason, self.detail())
    }

    fn active(&mut self, ownership: OwnershipState) -> String {
        let core = self.execution.core;
        let holder = match core.text("current_worker_instance_id") {
            "" => core.text("current_worker_id"),
            instance => instance,
        };
        let ends = ServerTime(core.number("lease_expires_at"));
        let reclaimer = Mover::Scanner(ScannerName::LeaseReclaimer);
        match ownership {
            OwnershipState::Leased if ends >= self.snapshot.now() => {
                let worker = Mover::Worker(holder.to_owned());
                self.wait("its worker to finish".to_owned(), worker, By::Open);
                self.attempt_timeout();
                let back = self
                    .after(self.late(ends, ScannerName::LeaseExpiry), ScannerName::LeaseReclaimer);
                let on = "the end of its lease, unless it is renewed".to_owned();
                self.limits.push(Wait { on, mover: reclaimer, by: back });
                format!("worker {holder} runs it under a lease until {ends}")
            }
            OwnershipState::Leased => {
                let marked = self.late(ends, ScannerName::LeaseExpiry);
                let by = self.after(marked, ScannerName::LeaseReclaimer);
                self.wait("its lost lease to be noticed".to_owned(), reclaimer, by);
                format!("worker {holder} let its lease run out at {ends}")
            }
            OwnershipState::LeaseExpiredReclaimable | OwnershipState::LeaseRevoked => {
                let lost = ServerTime(core.number("last_transition_at"));
                let by = self.after(lost, ScannerName::LeaseReclaimer);
                self.wait("to be put back in line".to_owned(), reclaimer, by);
                format!("worker {holder} lost its lease ({ownership})")
            }
            OwnershipState::Unowned => {
                self.wait("its record to be mended".to_owned(), Mover::Nobody, By::Open);
                "it is active and nobody owns it".to_owned()
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
        let trimmer = Mover::Scanner(ScannerName::RetentionTrimmer);
        self.limits.push(Wait { on, mover: trimmer, by: By::Open });
        let ended = match vector.outcome {
            TerminalOutcome::None => "it ended without an outcome",
            TerminalOutcome::Success => "it succeeded",
            TerminalOutcome::Failed => "it failed",
            TerminalOutcome::Cancelled => "it was cancelled",
            TerminalOutcome::Expired => "it ran out of time",
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

    /// Notes a limit that stands in an index, if the execution has one.
    fn limit(&mut self, on: &str, index: PartitionIndex, scanner: ScannerName) {
        let member = self.execution.id.to_string();
        let index = self.snapshot.index(self.execution.partition(), index);
        if let Some(score) = index.get(&member) {
            let at = ServerTime(whole(*score));
            let by = self.after(at, scanner);
            let on = format!("{on}, {at}");
            self.limits.push(Wait { on, mover: Mover::Scanner(scanner), by });
        }
    }

    fn wait(&mut self, on: String, mover: Mover, by: By) {
        self.waits.push(Wait { on, mover, by });
    }

    /// Its flow, if that was cancelled under a policy that bars its members from being claimed.
    fn cancelled_flow(&self) -> Option<FlowId> {
        let flow: FlowId = self.execution.core.text("flow_id").parse().ok()?;
        let core = self.snapshot.hash(&Key::flow(self.execution.partition(), flow).core())?;
        (core.text("public_flow_state") == "cancelled").then_some(flow)
    }

    /// What the record says besides its state, as the end of a sentence.
    fn detail(&self) -> String {
        match self.execution.core.text("blocking_detail") {
            "" => String::new(),
            detail => format!(": {detail}"),
        }
    }

    fn lane(&self) -> &str {
        asks::lane_text(&self.execution)
    }

    fn lane_id(&self) -> LaneId {
        asks::lane_id(&self.execution)
    }

    /// By when a scanner has been there, from now on.
    fn within(&self, scanner: ScannerName) -> By {
        self.after(self.snapshot.now(), scanner)
    }

    /// By when a scanner has been there after `at`.
    fn after(&self, at: ServerTime, scanner: ScannerName) -> By {
        let latest = self.late(at, scanner);
        if latest < self.snapshot.now() { By::Overdue(latest) } else { By::Time(latest) }
    }

    fn late(&self, at: ServerTime, scanner: ScannerName) -> ServerTime {
        late(self.config, at, scanner)
    }

    /// The parts of its state that the record has nothing for, by name.
    fn lacking(&self) -> Option<String> {
        let empty = |field: &&str| self.execution.core.text(field).is_empty();
        let lacks: Vec<&str> = StateVector::FIELDS.into_iter().filter(empty).collect();
        (!lacks.is_empty()).then(|| lacks.join(", "))
    }
}

/// The latest that a scanner comes by after `at`: an idle engine stretches its intervals up to
/// twice, and jitter is within that.
fn late(config: &EngineConfig, at: ServerTime, scanner: ScannerName) -> ServerTime {
    let every = SCANNERS
        .iter()
        .map(|one| one.spec())
        .find(|spec| spec.name == scanner)
        .map_or(Duration::ZERO, |spec| config.interval(scanner, spec.every));
    let ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
    ServerTime(at.0.saturating_add(ms.saturating_mul(2)))
}

/// A score as the whole number that it stands for.
#[expect(clippy::cast_possible_truncation, reason = "scores are milliseconds, far below 2^53")]
const fn whole(score: f64) -> i64 {
    score as i64
}
