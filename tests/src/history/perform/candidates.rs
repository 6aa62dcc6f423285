//! The executions and flows for which a verb makes sense in the current state.

use selvedge_core::key::Key;
use selvedge_core::state::{
    EligibilityState, LifecyclePhase, OwnershipState, PublicState, StateVector,
};

use crate::history::operation::Verb;
use crate::history::state::{EXECUTIONS, FLOWS, HistoryState, PARTITION, execution, flow};

impl HistoryState {
    /// The first slot from `from` on whose state suits `verb`.
    pub(super) fn candidate(&self, verb: Verb, from: u8) -> Option<u8> {
        if let Some(wants_one) = wants_flow(verb) {
            return (0..FLOWS)
                .map(|shift| (from + shift) % FLOWS)
                .find(|slot| self.flow_record(flow(*slot)).is_some() == wants_one);
        }
        let fits = wanted_state(verb)?;
        (0..EXECUTIONS).map(|shift| (from + shift) % EXECUTIONS).find(|slot| {
            let id = execution(*slot);
            let vector = self.record(&id).and_then(|record| record.vector().ok());
            match vector {
                Some(vector) => fits(&vector),
                None => verb == Verb::Create,
            }
        })
    }

    /// A member of a flow, for most numbers; any execution for the rest.
    pub(super) fn member(&self, slot: u8, number: u8) -> u8 {
        let members = self.snapshot().set(&Key::flow(PARTITION, flow(slot)).members());
        let known: Vec<u8> =
            (0..EXECUTIONS).filter(|slot| members.contains(execution(*slot).as_str())).collect();
        match known.get(usize::from(number) % known.len().max(1)) {
            Some(member) if number < super::ANY_CANDIDATE => *member,
            _ => number,
        }
    }
}

/// Whether a verb is about a flow that is there, or about one that is not.
fn wants_flow(verb: Verb) -> Option<bool> {
    match verb {
        Verb::AddMember
        | Verb::SetGroup
        | Verb::Stage
        | Verb::StageAndApply
        | Verb::SealFlow
        | Verb::CancelFlow
        | Verb::PayCancel
        | Verb::ProjectFlow
        | Verb::PurgeFlow => Some(true),
        Verb::CreateFlow | Verb::SubmitFlow => Some(false),
        _ => None,
    }
}

fn wanted_state(verb: Verb) -> Option<fn(&StateVector) -> bool> {
    Some(match verb {
        Verb::Create => |_| false,
        Verb::Claim | Verb::OperatorClaim | Verb::ChangePriority | Verb::Block => {
            |vector| vector.eligibility == EligibilityState::EligibleNow
        }
        Verb::Renew
        | Verb::Complete
        | Verb::EndAndClaim
        | Verb::Fail
        | Verb::Delay
        | Verb::WaitForChildren
        | Verb::Progress
        | Verb::AppendFrame
        | Verb::Suspend
        | Verb::CreatePending
        | Verb::Revoke => |vector| vector.ownership == OwnershipState::Leased,
        Verb::MarkLease | Verb::Requeue | Verb::Reclaim => {
            |vector| vector.phase == LifecyclePhase::Active
        }
        Verb::Resume | Verb::ExpireSuspension => |vector| vector.phase == LifecyclePhase::Suspended,
        Verb::PromoteDelayed => |vector| vector.public == PublicState::Delayed,
        Verb::Unblock => |vector| vector.public == PublicState::RateLimited,
        Verb::PromoteBlocked => |vector| vector.public == PublicState::WaitingChildren,
        Verb::Replay | Verb::PurgeExecution | Verb::ResolveOutgoing => StateVector::is_terminal,
        _ => return None,
    })
}
