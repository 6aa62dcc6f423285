//! The faults of a plan, at work.

use super::World;
use super::transport::Spell;
use crate::event::{Actor, What, function_of};
use crate::fault::Fault;
use crate::plan::When;

/// How late a late call arrives unless the plan says.
const LATE_MS: u64 = 15_000;

impl World {
    /// What the plan does to each call of a batch; none when the sender dies over it.
    pub(crate) fn spells(&mut self, sender: Actor, batch: &[Vec<Vec<u8>>]) -> Option<Vec<Spell>> {
        let mut spells = Vec::with_capacity(batch.len());
        for argv in batch {
            let mut spell = Spell::default();
            for at in 0..self.plan.faults.len() {
                if self.meets(at, sender, argv) && !self.bewitch(at, sender, argv, &mut spell) {
                    return None;
                }
            }
            spells.push(spell);
        }
        Some(spells)
    }

    /// Whether this call is the one that a rule waits for.
    fn meets(&mut self, at: usize, sender: Actor, argv: &[Vec<u8>]) -> bool {
        let When::Call(pattern) = &self.plan.faults[at].when else { return false };
        if self.phase > crate::event::Phase::Safety || !pattern.fits(sender, argv) {
            return false;
        }
        self.seen_calls[at] += 1;
        self.seen_calls[at] == pattern.nth
    }

    /// Puts the spell of a rule on a call; no when the sender died over it.
    fn bewitch(&mut self, at: usize, sender: Actor, argv: &[Vec<u8>], spell: &mut Spell) -> bool {
        let rule = self.rule(at).clone();
        let ms = rule.amount.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(LATE_MS);
        let about = format!("{} of {sender}", function_of(argv).unwrap_or("command"));
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults strike elsewhere")]
        match rule.fault {
            Fault::CrashBeforeSend => {
                self.inflict(rule.fault, about);
                self.kill(sender);
                return false;
            }
            Fault::CrashAfterApply => spell.crash_after = true,
            Fault::ReplyLost => spell.reply_lost = true,
            Fault::RequestLost => spell.request_lost = true,
            Fault::LateApply => spell.late_ms = ms,
            Fault::DuplicateDelivery => spell.again_ms = Some(ms),
            _ => return true,
        }
        self.inflict(rule.fault, about);
        true
    }

    /// A fault's time has come.
    pub(crate) fn strike(&mut self, at: usize) {
        let rule = self.rule(at).clone();
        if rule.fault == Fault::FailoverLosesSuffix {
            let losing = rule.amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(1);
            self.inflict(rule.fault, format!("{losing} commits"));
            if let Some((first, last)) = self.servers.fail_over(0, losing, self.now_ms) {
                self.emit(Actor::Node(1), What::CommitsLost { node: 1, first, last });
            }
        }
    }
}
