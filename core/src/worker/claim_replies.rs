//! What the replies to claims mean: works, refusals, and errors.

use alloc::vec::Vec;

use super::claim_queue::{ClaimTarget, TargetKey};
use super::claim_repeats::perhaps_applied;
use super::claiming::{Candidate, ClaimKey, Claiming, Event, Granted, PendingClaim};
use super::io::{Alarm, Io, only};
use super::observe::Observation;
use crate::call::scheduling::{ClaimMany, ClaimManyReply, NoneClaimable};
use crate::command::Reply;
use crate::id::ExecutionId;
use crate::time::LocalTime;

/// What claims found on their target.
pub(super) enum Found {
    /// As many executions as were wanted: there may be more.
    All,
    /// Fewer than were wanted. What stopped the search is not told.
    Fewer,
    /// A candidate that needs admission.
    Admission(ExecutionId),
    /// Nothing for this worker up to this candidate.
    PassedOver(ExecutionId),
    /// Nothing.
    Nothing,
    /// It is not known.
    Unknown,
}

/// Claims that were answered.
pub(super) struct Answered {
    pub(super) key: TargetKey,
    pub(super) wanted: usize,
    pub(super) since: LocalTime,
    pub(super) turn: LocalTime,
    pub(super) repeated: bool,
    pub(super) has_permit: bool,
}

impl Claiming {
    /// The reply to a claim is there.
    pub(super) fn on_claim_reply(
        &mut self,
        io: &mut Io,
        key: &ClaimKey,
        replies: Vec<Reply>,
    ) -> Vec<Event> {
        let Some(claim) = self.remove(io, key) else { return Vec::new() };
        let partition = claim.target.partition;
        let reply = match only::<ClaimMany>(replies) {
            Ok(reply) => reply,
            Err(error) => {
                self.back_off(io, partition);
                let repeats =
                    perhaps_applied(&error) && claim.since.after(self.config.lease_ttl) > io.now;
                io.observe(Observation::ClaimFailed { partition, error });
                if repeats {
                    self.keep_to_repeat(io, key, claim);
                    return Vec::new();
                }
                return self.requeue(io, key, claim, Found::Unknown, Vec::new());
            }
        };
        self.backoffs.remove(&partition);
        let answered = Answered {
            key: claim.target.key(),
            wanted: claim.wanted(),
            since: claim.since,
            turn: io.now,
            repeated: claim.repeated,
            has_permit: !claim.lent,
        };
        let (found, events) = self.take(io, answered, reply);
        self.requeue(io, key, claim, found, events)
    }

    /// Takes the answer of claims apart.
    pub(super) fn take(
        &mut self,
        io: &Io,
        claims: Answered,
        reply: ClaimManyReply,
    ) -> (Found, Vec<Event>) {
        let Answered { key, wanted, since, turn, repeated, has_permit } = claims;
        match reply {
            ClaimManyReply::Claimed { works, passed } => {
                self.unsuited.remove(&key);
                let (last, other) =
                    passed.map_or((None, None), |passed| (Some(passed.last), passed.other_kind));
                self.queue.claimed(&key, last, io.now);
                let found = if works.len() < wanted { Found::Fewer } else { Found::All };
                let granted = |work| {
                    let lane = key.0.clone();
                    Event::Granted(Granted { lane, work, since, turn, repeated, has_permit })
                };
                let mut events: Vec<Event> = works.into_iter().map(granted).collect();
                events.extend(other.map(|other| Event::PassedOver(key.0.clone(), other)));
                (found, events)
            }
            // It is about to be claimed.
            ClaimManyReply::NeedsAdmission { execution_id, .. }
                if self.is_admitted(&execution_id) =>
            {
                (Found::Admission(execution_id), Vec::new())
            }
            ClaimManyReply::NeedsAdmission { execution_id, budget_ids, quota_policy_id } => {
                let (lane, found) = (key.0, Found::Admission(execution_id.clone()));
                let candidate = Candidate { execution_id, lane, budget_ids, quota_policy_id };
                (found, alloc::vec![Event::NeedsAdmission(candidate)])
            }
            ClaimManyReply::NoneClaimable(NoneClaimable { next, other_kind }) => {
                let other = other_kind.map(|other| Event::PassedOver(key.0.clone(), other));
                self.unsuited.insert(key);
                (next.map_or(Found::Nothing, Found::PassedOver), other.into_iter().collect())
            }
            ClaimManyReply::Empty => (Found::Nothing, Vec::new()),
            // An earlier try got executions and their leases have lapsed, so that the engine will
            // requeue them. What it left is not told.
            ClaimManyReply::Lapsed => (Found::Fewer, Vec::new()),
        }
    }

    /// Takes a claim out, and its permits with it.
    pub(super) fn remove(&mut self, io: &mut Io, key: &ClaimKey) -> Option<PendingClaim> {
        let claim = self.pending.remove(key)?;
        io.alarms.clear(&Alarm::Slow(key.clone()));
        io.alarms.clear(&Alarm::Repeat(key.clone()));
        if !claim.lent {
            self.permits = self.permits.saturating_sub(claim.wanted());
            return Some(claim);
        }
        self.lent = self.lent.saturating_sub(claim.wanted());
        if let Some(count) = self.slow.get_mut(&claim.target.partition) {
            *count -= 1;
            if *count == 0 {
                self.slow.remove(&claim.target.partition);
            }
        }
        Some(claim)
    }

    /// Queues a target again if there may be more. One that has nothing for this worker is dropped
    /// until a push or a poll queues it again. Returns the events of the reply.
    pub(super) fn requeue(
        &mut self,
        io: &mut Io,
        key: &ClaimKey,
        claim: PendingClaim,
        found: Found,
        mut events: Vec<Event>,
    ) -> Vec<Event> {
        let PendingClaim { target, quota, .. } = claim;
        if let ClaimKey::Admitted(execution) = key {
            let got = |event: &Event| {
                let Event::Granted(one) = event else { return false };
                one.work.execution_id == *execution
            };
            let unneeded = quota.filter(|_| !events.iter().any(got));
            events.extend(unneeded.map(|quota| Event::QuotaSlotUnneeded(execution.clone(), quota)));
            self.mark_ready(target.lane, target.partition);
            return events;
        }
        if self.draining {
            return events;
        }
        match found {
            Found::PassedOver(last) => {
                self.queue.pass_over(&target.key(), last, io.now);
                self.queue.push(ClaimTarget { claims_at_once: 1, ..target });
            }
            // What is behind the candidate need not wait for its admission.
            Found::Admission(last) => {
                self.queue.look_behind(&target.key(), last, io.now);
                events.push(Event::MayLookBehind(ClaimTarget { claims_at_once: 1, ..target }));
            }
            Found::Unknown | Found::Fewer => {
                self.queue.push(ClaimTarget { claims_at_once: 1, ..target });
            }
            Found::All => {
                let claims_at_once = (target.claims_at_once * 2).min(CLAIMS_PER_TARGET_MAX);
                self.queue.push(ClaimTarget { claims_at_once, ..target });
            }
            Found::Nothing => {
                self.end_pass(io, &target.key());
            }
        }
        events
    }
}

/// Most executions that one claim wants.
const CLAIMS_PER_TARGET_MAX: usize = 32;
