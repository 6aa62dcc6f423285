//! `LegalTransition`

use selvedge_core::state::{AttemptState, BlockingReason, OwnershipState, StateVector, table};

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "LegalTransition",
    statement: "each observed change is a row of the transition table; only replay leaves the end",
    class: Class::Safety,
    judge: || Box::new(LegalTransition),
};

struct LegalTransition;

impl Judge for LegalTransition {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
        let function = Call::of(applied).map_or("a command", |call| call.function);
        for change in &scene.executions {
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
        // A purge removes what ended; VectorWhole speaks about vectors that cannot be read.
        return was.filter(|was| !was.is_terminal()).map(|was| format!("{was:?} is gone"));
    };
    if was.is_some_and(|was| was.is_terminal()) && function != "replay_execution" {
        return Some(format!("{function} left the end for {is:?}"));
    }
    let direct = table::transition(was.as_ref(), &is).is_some();
    // Two steps in one call: a lapsed lease is marked and brought back, a member is made and held.
    let middle = match was {
        Some(was) if was.ownership == OwnershipState::Leased => Some(StateVector {
            ownership: OwnershipState::LeaseExpiredReclaimable,
            reason: BlockingReason::WaitingForWorker,
            attempt: AttemptState::AttemptInterrupted,
            ..was
        }),
        None => StateVector::read(AT_BIRTH).ok(),
        Some(_) => None,
    };
    let indirect = middle.is_some_and(|middle| table::transition(Some(&middle), &is).is_some());
    (!direct && !indirect).then(|| format!("{function} led from {was:?} to {is:?}"))
}

/// The vector of an execution that was just made.
const AT_BIRTH: [&str; 7] = [
    "runnable",
    "unowned",
    "eligible_now",
    "waiting_for_worker",
    "none",
    "pending_first_attempt",
    "waiting",
];
