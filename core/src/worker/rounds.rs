//! Rounds: the claims on one target that are sent together, and what follows from their answers.

use alloc::vec::Vec;

use super::claim_queue::ClaimTarget;
use super::claiming::{Candidate, Claim, Claiming, Event, Granted, Round, RoundKey};
use super::io::{Alarm, Io, parse};
use super::observe::Observation;
use crate::call::scheduling::{ClaimNext, ClaimNextReply};
use crate::command::Reply;
use crate::error::{Applied, CallError};

/// The replies to the claims of a round.
#[derive(Default)]
pub(super) struct RoundResult {
    pub(super) claimed: usize,
    /// Whether the execution was claimed that the claims were for: others may be claimed instead.
    pub(super) claimed_admitted: bool,
    pub(super) sent: usize,
    pub(super) next_offset: u32,
    pub(super) needs_admission: bool,
    pub(super) failed: bool,
    pub(super) unconfirmed: Vec<Claim>,
}

impl Claiming {
    /// The replies to the claims of a round are there.
    pub(super) fn on_round(
        &mut self,
        io: &mut Io,
        key: &RoundKey,
        replies: Vec<Reply>,
    ) -> Vec<Event> {
        let Some(mut round) = self.remove(io, key) else { return Vec::new() };
        let mut result = RoundResult { sent: round.claims.len(), ..RoundResult::default() };
        let mut events = Vec::new();
        let mut replies = replies.into_iter();
        for claim in core::mem::take(&mut round.claims) {
            let reply = parse::<ClaimNext>(replies.next());
            events.extend(self.on_claim(io, &round, claim, reply, &mut result));
        }
        if result.failed {
            self.back_off(io, round.target.partition);
        } else {
            self.backoffs.remove(&round.target.partition);
        }
        if result.unconfirmed.is_empty() {
            events.extend(self.requeue(key, round, &result));
            return events;
        }
        // The round stays, with the claims that are to be repeated. Others use its permits.
        round.claims = result.unconfirmed;
        round.lent = false;
        self.permits += round.claims.len();
        let at = self.backoffs.get(&round.target.partition).map_or(io.now, |backoff| backoff.until);
        self.rounds.insert(key.clone(), round);
        self.lend(key);
        io.set(Alarm::Repeat(key.clone()), at);
        events
    }

    fn on_claim(
        &mut self,
        io: &mut Io,
        round: &Round,
        claim: Claim,
        reply: Result<ClaimNextReply, CallError>,
        result: &mut RoundResult,
    ) -> Option<Event> {
        match reply {
            Ok(ClaimNextReply::Claimed(work)) => {
                result.claimed += 1;
                let Claim { call, since, repeated } = claim;
                result.claimed_admitted |= call.admitted.as_ref() == Some(&work.execution_id);
                let has_permit = !round.lent;
                let lane = call.lane;
                return Some(Event::Granted(Granted { lane, work, since, repeated, has_permit }));
            }
            Ok(ClaimNextReply::NeedsAdmission { execution_id, budget_ids, quota_policy_id }) => {
                result.needs_admission = true;
                let lane = claim.call.lane;
                let candidate = Candidate { execution_id, lane, budget_ids, quota_policy_id };
                return Some(Event::NeedsAdmission(candidate));
            }
            Ok(ClaimNextReply::NoneClaimable { next_offset }) => result.next_offset = next_offset,
            // Nothing is there, or an earlier try got an execution and its lease has lapsed, so
            // that the engine will requeue it.
            Ok(ClaimNextReply::Empty | ClaimNextReply::Lapsed(_)) => {}
            Err(error) => {
                result.failed = true;
                let partition = claim.call.partition;
                if perhaps_applied(&error) && claim.since.after(self.config.lease_ttl) > io.now {
                    result.unconfirmed.push(Claim { repeated: true, ..claim });
                }
                io.observe(Observation::ClaimFailed { partition, error });
            }
        }
        None
    }

    /// Takes a round out, and its permits with it.
    pub(super) fn remove(&mut self, io: &mut Io, key: &RoundKey) -> Option<Round> {
        let round = self.rounds.remove(key)?;
        io.alarms.clear(&Alarm::Slow(key.clone()));
        io.alarms.clear(&Alarm::Repeat(key.clone()));
        if !round.lent {
            self.permits = self.permits.saturating_sub(round.claims.len());
            return Some(round);
        }
        self.lent = self.lent.saturating_sub(round.claims.len());
        if let Some(count) = self.slow.get_mut(&round.target.partition) {
            *count -= 1;
            if *count == 0 {
                self.slow.remove(&round.target.partition);
            }
        }
        Some(round)
    }

    /// Queues a target again if there may be more. One that granted fewer than it was asked for is
    /// dropped until a push or a poll queues it again.
    pub(super) fn requeue(
        &mut self,
        key: &RoundKey,
        round: Round,
        result: &RoundResult,
    ) -> Vec<Event> {
        let Round { mut target, quota, .. } = round;
        if let RoundKey::Admitted(execution) = key {
            let not_claimed = quota.filter(|_| !result.claimed_admitted);
            self.mark_ready(target.lane, target.partition);
            return not_claimed
                .map(|quota| Event::SlotUnneeded(execution.clone(), quota))
                .into_iter()
                .collect();
        }
        if self.draining {
            return Vec::new();
        }
        if result.next_offset > 0 {
            let offset = result.next_offset;
            self.queue.push(ClaimTarget { offset, claims_at_once: 1, ..target });
        } else if result.needs_admission {
            // What is behind the candidate need not wait for its admission.
            let offset = target.offset.saturating_add(1);
            let behind = ClaimTarget { offset, claims_at_once: 1, ..target };
            return alloc::vec![Event::MayLookBehind(behind)];
        } else if result.failed {
            self.queue.push(ClaimTarget { claims_at_once: 1, ..target });
        } else if result.claimed > 0 && result.claimed == result.sent {
            target.claims_at_once = (target.claims_at_once * 2).min(CLAIMS_PER_TARGET_MAX);
            self.queue.push(ClaimTarget { offset: 0, ..target });
        } else {
            self.queue.finish(target);
        }
        Vec::new()
    }
}

/// Whether a claim that failed may have got an execution.
fn perhaps_applied(error: &CallError) -> bool {
    match error {
        CallError::Server(error) => error.applied == Applied::Perhaps,
        CallError::Refused(_) => false,
        CallError::Broken(_) => true,
    }
}

/// Most claims on one target in one round.
const CLAIMS_PER_TARGET_MAX: usize = 32;
