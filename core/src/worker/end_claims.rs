//! Claims made by the call that reports an end: in steady state one call per task.
//!
//! Such a claim is for the next execution of the same lane and partition, and gets the permit of
//! the attempt that ended. It is left out where the permit is wanted elsewhere, and where it would
//! find nothing: an end is then reported by a call that claims nothing, and the next claim goes
//! to the target whose turn it is.

use alloc::vec::Vec;
use core::time::Duration;

use super::claim_queue::{ClaimTarget, TargetKey};
use super::claim_replies::{Answered, Found};
use super::claiming::{Claiming, Event, new_lease};
use super::io::Io;
use crate::call::scheduling::{ClaimManyReply, NewLease};
use crate::id::ExecutionId;
use crate::time::LocalTime;

/// A claim that goes with the report of an end.
#[derive(Clone, Debug)]
pub(super) struct EndClaim {
    pub(super) target: TargetKey,
    pub(super) lease: NewLease,
    /// After which candidate it starts.
    pub(super) after: Option<ExecutionId>,
    /// When it was first sent.
    pub(super) since: LocalTime,
    /// Whether an earlier try was perhaps applied.
    pub(super) unconfirmed: bool,
    /// Since when the permit is with this target.
    turn: LocalTime,
    /// What had been queued when it was first sent.
    stamp: u64,
}

impl Claiming {
    /// The claim to make with the report of an end on this target; none if others have a better
    /// right to the permit, or nothing is to be expected.
    pub(super) fn claim_with_end(
        &mut self,
        io: &mut Io,
        target: TargetKey,
        turn: LocalTime,
    ) -> Option<EndClaim> {
        let finds_something = self.queue.serves(&target.0, target.1)
            && !self.unsuited.contains(&target)
            && self.is_well(target.1, io.now)
            && !self.lane_states.is_paused(&target.0);
        if self.draining || !finds_something || !self.admitted.is_empty() {
            return None;
        }
        if turn.after(TURN) <= io.now && self.others_wait(&target, io.now) {
            self.queue.move_to_back(&target);
            return None;
        }
        let (since, stamp) = (io.now, self.queue.stamp());
        let (lease, after) = (new_lease(io), self.queue.after(&target));
        Some(EndClaim { target, lease, after, since, unconfirmed: false, turn, stamp })
    }

    /// A report with a claim was answered; no reply means that it was applied and the reply is
    /// lost for good.
    pub(super) fn on_end(
        &mut self,
        io: &mut Io,
        claim: EndClaim,
        reply: Option<ClaimManyReply>,
    ) -> Vec<Event> {
        let EndClaim { target, since, unconfirmed, turn, stamp, .. } = claim;
        let Some(reply) = reply else {
            self.mark_ready(target.0, target.1);
            return Vec::new();
        };
        let answered = Answered {
            key: target.clone(),
            wanted: 1,
            since,
            turn,
            repeated: unconfirmed,
            has_permit: true,
        };
        let (found, mut events) = self.take(io, answered, reply);
        if self.draining {
            return events;
        }
        match found {
            // If there is more, the target is queued, or a push is on its way.
            Found::All => {}
            Found::Fewer | Found::Unknown => self.mark_ready(target.0, target.1),
            Found::Nothing => {
                if !self.end_pass(io, &target) {
                    self.queue.remove_unchanged(&target, stamp);
                }
            }
            Found::PassedOver(last) => {
                self.queue.pass_over(&target, last, io.now);
                self.queue.push(ClaimTarget::one(target));
            }
            Found::Admission(last) => {
                self.queue.remove_unchanged(&target, stamp);
                self.queue.look_behind(&target, last, io.now);
                events.push(Event::MayLookBehind(ClaimTarget::one(target)));
            }
        }
        events
    }
}

/// While other targets wait, a permit stays with a target for this long.
const TURN: Duration = Duration::from_millis(500);
