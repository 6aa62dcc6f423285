//! What the answers of claim calls mean: works, refusals, and answers that never came.

use alloc::vec::Vec;

use super::claim_queue::{ClaimTarget, TargetKey};
use super::claiming::{Candidate, Claiming, Event, Granted, Round, RoundKey};
use super::io::{Alarm, Io, only};
use super::observe::Observation;
use crate::call::scheduling::{ClaimMany, ClaimManyReply};
use crate::command::Reply;
use crate::error::{Applied, CallError};
use crate::time::LocalTime;

/// What claims found on their target.
pub(super) enum Found {
    /// As many executions as were wanted: there may be more.
    All,
    /// Fewer than were wanted. What stopped the search is not told.
    Fewer,
    /// A candidate that needs admission.
    Admission,
    /// Nothing for this worker before this offset.
    Page(u32),
    /// Nothing.
    Nothing,
    /// It is not known.
    Unknown,
}

/// Claims that were answered.
pub(super) struct Answered {
    pub(super) key: TargetKey,
    pub(super) offset: u32,
    pub(super) wanted: usize,
    pub(super) since: LocalTime,
    pub(super) turn: LocalTime,
    pub(super) repeated: bool,
    pub(super) has_permit: bool,
}

impl Claiming {
    /// The reply to a round is there.
    pub(super) fn on_round(
        &mut self,
        io: &mut Io,
        key: &RoundKey,
        replies: Vec<Reply>,
    ) -> Vec<Event> {
        let Some(round) = self.remove(io, key) else { return Vec::new() };
        let partition = round.target.partition;
        let reply = match only::<ClaimMany>(replies) {
            Ok(reply) => reply,
            Err(error) => {
                self.back_off(io, partition);
                let repeats =
                    perhaps_applied(&error) && round.since.after(self.config.lease_ttl) > io.now;
                io.observe(Observation::ClaimFailed { partition, error });
                if repeats {
                    self.keep_to_repeat(io, key, round);
                    return Vec::new();
                }
                return self.requeue(key, round, &Found::Unknown, Vec::new());
            }
        };
        self.backoffs.remove(&partition);
        let answered = Answered {
            key: round.target.key(),
            offset: round.target.offset,
            wanted: round.wanted(),
            since: round.since,
            turn: io.now,
            repeated: round.repeated,
            has_permit: !round.lent,
        };
        let (found, events) = self.take(answered, reply);
        self.requeue(key, round, &found, events)
    }

    /// Takes the answer of claims apart.
    pub(super) fn take(&mut self, claims: Answered, reply: ClaimManyReply) -> (Found, Vec<Event>) {
        let Answered { key, offset, wanted, since, turn, repeated, has_permit } = claims;
        match reply {
            ClaimManyReply::Claimed(works) => {
                if offset == 0 {
                    self.unsuited.remove(&key);
                }
                let found = if works.len() < wanted { Found::Fewer } else { Found::All };
                let granted = |work| {
                    let lane = key.0.clone();
                    Event::Granted(Granted { lane, work, since, turn, repeated, has_permit })
                };
                (found, works.into_iter().map(granted).collect())
            }
            // It is about to be claimed.
            ClaimManyReply::NeedsAdmission { execution_id, .. }
                if self.is_admitted(&execution_id) =>
            {
                (Found::Admission, Vec::new())
            }
            ClaimManyReply::NeedsAdmission { execution_id, budget_ids, quota_policy_id } => {
                let lane = key.0;
                let candidate = Candidate { execution_id, lane, budget_ids, quota_policy_id };
                (Found::Admission, alloc::vec![Event::NeedsAdmission(candidate)])
            }
            ClaimManyReply::NoneClaimable { next_offset } => {
                self.unsuited.insert(key);
                let found = if next_offset > 0 { Found::Page(next_offset) } else { Found::Nothing };
                (found, Vec::new())
            }
            ClaimManyReply::Empty => (Found::Nothing, Vec::new()),
            // An earlier try got executions and their leases have lapsed, so that the engine will
            // requeue them. What it left is not told.
            ClaimManyReply::Lapsed => (Found::Fewer, Vec::new()),
        }
    }

    /// The round stays, to be repeated. Others use its permits meanwhile.
    fn keep_to_repeat(&mut self, io: &mut Io, key: &RoundKey, mut round: Round) {
        let at = self.backoffs.get(&round.target.partition).map_or(io.now, |backoff| backoff.until);
        (round.repeated, round.lent) = (true, false);
        self.permits += round.wanted();
        self.rounds.insert(key.clone(), round);
        self.lend(key);
        io.set(Alarm::Repeat(key.clone()), at);
    }

    /// Takes a round out, and its permits with it.
    pub(super) fn remove(&mut self, io: &mut Io, key: &RoundKey) -> Option<Round> {
        let round = self.rounds.remove(key)?;
        io.alarms.clear(&Alarm::Slow(key.clone()));
        io.alarms.clear(&Alarm::Repeat(key.clone()));
        if !round.lent {
            self.permits = self.permits.saturating_sub(round.wanted());
            return Some(round);
        }
        self.lent = self.lent.saturating_sub(round.wanted());
        if let Some(count) = self.slow.get_mut(&round.target.partition) {
            *count -= 1;
            if *count == 0 {
                self.slow.remove(&round.target.partition);
            }
        }
        Some(round)
    }

    /// Queues a target again if there may be more. One that has nothing for this worker is dropped
    /// until a push or a poll queues it again. Returns the events of the round.
    pub(super) fn requeue(
        &mut self,
        key: &RoundKey,
        round: Round,
        found: &Found,
        mut events: Vec<Event>,
    ) -> Vec<Event> {
        let Round { target, quota, .. } = round;
        if let RoundKey::Admitted(execution) = key {
            let got = |event: &Event| {
                let Event::Granted(one) = event else { return false };
                one.work.execution_id == *execution
            };
            let unneeded = quota.filter(|_| !events.iter().any(got));
            events.extend(unneeded.map(|quota| Event::SlotUnneeded(execution.clone(), quota)));
            self.mark_ready(target.lane, target.partition);
            return events;
        }
        if self.draining {
            return events;
        }
        match *found {
            Found::Page(offset) => {
                self.queue.push(ClaimTarget { offset, claims_at_once: 1, ..target });
            }
            // What is behind the candidate need not wait for its admission.
            Found::Admission => events.push(Event::MayLookBehind(target.behind())),
            Found::Unknown | Found::Fewer => {
                self.queue.push(ClaimTarget { claims_at_once: 1, ..target });
            }
            Found::All => {
                let claims_at_once = (target.claims_at_once * 2).min(CLAIMS_PER_TARGET_MAX);
                self.queue.push(ClaimTarget { claims_at_once, offset: 0, ..target });
            }
            Found::Nothing => self.queue.finish(target),
        }
        events
    }
}

/// Whether a call that failed may have been applied.
pub(super) fn perhaps_applied(error: &CallError) -> bool {
    match error {
        CallError::Server(error) => error.applied == Applied::Perhaps,
        CallError::Refused(_) => false,
        CallError::Broken(_) => true,
    }
}

/// Most claims on one target in one round.
const CLAIMS_PER_TARGET_MAX: usize = 32;
