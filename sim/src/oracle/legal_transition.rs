//! `LegalTransition`: every change of state is in the transition table, and only a replay leaves a
//! terminal state.

use selvedge_core::state::{
    AttemptState, BlockingReason, EligibilityState, OwnershipState, PublicState, StateVector, table,
};

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "LegalTransition",
    statement: "every change of state is in the transition table, and only a replay leaves a terminal state",
    class: Class::Safety,
    checker: || Box::new(LegalTransition),
};

struct LegalTransition;

impl Checker for LegalTransition {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let EventKind::Applied(applied) = &event.kind else { return };
        let function = Call::of(applied).map_or("a command", |call| call.function);
        for change in &changes.executions {
            if let Some([was, is]) = change.vectors()
                && let Some(why) = illegal(function, was, is)
            {
                findings.add(view, &change.of, why);
            }
        }
    }
}

fn illegal(function: &str, was: Option<StateVector>, is: Option<StateVector>) -> Option<String> {
    let Some(is) = is else {
        // Only ended executions are purged. Invalid vectors are reported by VectorWhole.
        return was
            .filter(|was| !was.is_terminal())
            .map(|was| format!("was deleted in state {was:?}"));
    };
    if was.is_some_and(|was| was.is_terminal()) && function != "replay_execution" {
        return Some(format!("{function} changed a terminal execution to {is:?}"));
    }
    let direct = table::transition(was.as_ref(), &is).is_some();
    // Some calls make two transitions: a lease expires and is requeued, a member is created and
    // blocked, or a blocked child is released and claimed.
    let middle = match was {
        Some(was) if was.eligibility == EligibilityState::BlockedByDependencies => {
            Some(StateVector {
                eligibility: EligibilityState::EligibleNow,
                reason: BlockingReason::WaitingForWorker,
                public: PublicState::Waiting,
                ..was
            })
            .filter(|_| function == "end_and_claim")
        }
        Some(was) if was.ownership == OwnershipState::Leased => Some(StateVector {
            ownership: OwnershipState::LeaseExpiredReclaimable,
            reason: BlockingReason::WaitingForWorker,
            attempt: AttemptState::AttemptInterrupted,
            ..was
        }),
        None => StateVector::read(NEW_EXECUTION).ok(),
        Some(_) => None,
    };
    let indirect = middle.is_some_and(|middle| table::transition(Some(&middle), &is).is_some());
    (!direct && !indirect).then(|| format!("{function} changed {was:?} to {is:?}"))
}

/// The state vector of a new execution.
const NEW_EXECUTION: [&str; 7] = [
    "runnable",
    "unowned",
    "eligible_now",
    "waiting_for_worker",
    "none",
    "pending_first_attempt",
    "waiting",
];
