//! Claims without an answer: their permits are lent, and they are repeated.
//!
//! The permits of a claim that stays unanswered for long are lent to others; an execution that it
//! gets then waits for the next permit.
//!
//! A claim whose reply was lost was perhaps applied. It is repeated with the same lease ids until
//! leases from it could have lapsed: the answer is the same as long as they stand.

use alloc::vec::Vec;
use core::time::Duration;

use super::claim_replies::Found;
use super::claiming::{ClaimKey, Claiming, Event, PendingClaim};
use super::io::{Alarm, Continuation, Io};
use super::observe::Observation;
use crate::error::{Applied, CallError};

impl Claiming {
    /// The reply of a claim was lost: it stays, to be repeated. Others use its permits meanwhile.
    pub(super) fn keep_to_repeat(&mut self, io: &mut Io, key: &ClaimKey, mut claim: PendingClaim) {
        let at = self.backoffs.get(&claim.target.partition).map_or(io.now, |backoff| backoff.until);
        (claim.repeated, claim.lent) = (true, false);
        self.permits += claim.wanted();
        self.pending.insert(key.clone(), claim);
        self.lend(key);
        io.set(Alarm::Repeat(key.clone()), at);
    }

    /// Repeats a claim whose reply was lost, while its leases may stand.
    pub(super) fn repeat(&mut self, io: &mut Io, key: &ClaimKey) -> Vec<Event> {
        let Some(claim) = self.pending.get(key) else { return Vec::new() };
        let partition = claim.target.partition;
        if claim.since.after(self.config.lease_ttl) > io.now {
            io.observe(Observation::ClaimRepeated(partition));
            io.call(&claim.call, Continuation::Claim(key.clone()));
            return Vec::new();
        }
        io.observe(Observation::ClaimGivenUp(partition));
        match self.remove(io, key) {
            Some(claim) => self.requeue(io, key, claim, Found::Unknown, Vec::new()),
            None => Vec::new(),
        }
    }

    /// A claim is unanswered for long.
    pub(super) fn on_slow(&mut self, io: &mut Io, key: ClaimKey) {
        let Some(claim) = self.pending.get_mut(&key).filter(|claim| !claim.lent) else { return };
        if self.lent + claim.wanted() > self.config.capacity {
            // Enough is lent. Everything that is claimed may have to be run some time.
            return io.set(Alarm::Slow(key), io.now.after(SLOW_AFTER));
        }
        io.observe(Observation::ClaimSlow(claim.target.partition));
        self.lend(&key);
    }

    /// Lets others use the permits of a claim.
    fn lend(&mut self, key: &ClaimKey) {
        let Some(claim) = self.pending.get_mut(key).filter(|claim| !claim.lent) else { return };
        claim.lent = true;
        self.lent += claim.wanted();
        self.permits = self.permits.saturating_sub(claim.wanted());
        *self.slow.entry(claim.target.partition).or_default() += 1;
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

/// After this time without an answer the permits of a claim are lent: much longer than a round
/// trip.
pub(super) const SLOW_AFTER: Duration = Duration::from_millis(300);
