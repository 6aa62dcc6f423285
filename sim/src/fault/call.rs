//! Faults that strike a call on its way.

use super::Fault;
use crate::event::{Actor, function_of};
use crate::plan::{Rule, When};
use crate::world::World;
use crate::world::servers::Manner;
use crate::world::stream::Purpose;
use crate::world::transport::{Meddle, Spell, Twice};

/// How late a late call or reply is unless the plan says: past every sender's patience.
const LATE_MS: u64 = 15_000;

impl World {
    /// What the plan does to each call of a batch; none when the sender dies over it.
    pub(crate) fn spells(&mut self, sender: Actor, batch: &[Vec<Vec<u8>>]) -> Option<Vec<Spell>> {
        let mut spells = Vec::with_capacity(batch.len());
        let mut cut = false;
        for argv in batch {
            let mut spell = Spell::default();
            for at in 0..self.plan.faults.len() {
                if !self.meets(at, sender, argv) {
                    continue;
                }
                let (rule, before) = (self.rule(at).clone(), self.injected());
                if kills_before(rule.fault) {
                    self.inflict(rule.fault, about(sender, argv));
                    self.note_struck(&[at], before);
                    self.unsee(&batch[..spells.len()], sender);
                    self.kill(sender);
                    return None;
                }
                if rule.fault == Fault::PartialPipeline {
                    // A pipeline can only break in its middle: wait for a call that stands there.
                    let first = rule.amount.and_then(|calls| usize::try_from(calls).ok());
                    if spells.len() < first.unwrap_or(1).max(1) {
                        self.wait_for_another(at);
                    } else {
                        cut = true;
                        self.inflict(rule.fault, about(sender, argv));
                    }
                } else {
                    self.bewitch(at, &rule, sender, argv, &mut spell);
                    spell.rules.push(at);
                }
                self.note_struck(&[at], before);
            }
            spell.request_lost |= cut;
            spells.push(spell);
        }
        Some(spells)
    }

    /// Whether this call is the one that a rule waits for.
    fn meets(&mut self, at: usize, sender: Actor, argv: &[Vec<u8>]) -> bool {
        if !self.faults_are_on() {
            return false;
        }
        let When::Call(pattern) = &self.plan.faults[at].when else { return false };
        let strikes = self.plan.faults[at].fault.strikes_calls_of(sender);
        if !strikes || !pattern.fits(sender, argv) {
            return false;
        }
        self.seen_calls[at] += 1;
        self.seen_calls[at] == pattern.nth
    }

    /// Calls of a batch that was never sent are counted by nobody who still waits for his.
    fn unsee(&mut self, batch: &[Vec<Vec<u8>>], sender: Actor) {
        for at in 0..self.plan.faults.len() {
            let When::Call(pattern) = &self.plan.faults[at].when else { continue };
            if !self.plan.faults[at].fault.strikes_calls_of(sender) {
                continue;
            }
            let unsent = batch.iter().filter(|argv| pattern.fits(sender, argv)).count();
            if self.seen_calls[at] < pattern.nth {
                let unsent = u32::try_from(unsent).unwrap_or(0);
                self.seen_calls[at] = self.seen_calls[at].saturating_sub(unsent);
            }
        }
    }

    /// Puts the spell of a rule on a call.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults do not strike calls")]
    fn bewitch(
        &mut self,
        at: usize,
        rule: &Rule,
        sender: Actor,
        argv: &[Vec<u8>],
        spell: &mut Spell,
    ) {
        let drawn = self.chance(Purpose::Faults, sender).any();
        let ms = rule.amount.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(LATE_MS);
        match rule.fault {
            Fault::CrashAfterApply => spell.crash_after = true,
            Fault::ReplyLost => (spell.reply_lost, spell.silent) = (true, drawn.is_multiple_of(2)),
            Fault::RequestLost => {
                (spell.request_lost, spell.silent) = (true, drawn.is_multiple_of(2))
            }
            Fault::LateApply => spell.late_ms = ms,
            Fault::ReorderBetweenTickets => spell.late_ms = ms.min(2_000),
            Fault::DuplicateDelivery => spell.again_ms = Some(ms),
            Fault::ReplyForOldTicket => {
                let twice = [Twice::No, Twice::Yes, Twice::ToAnyLife];
                spell.late_reply = Some((ms, twice[(drawn % 3) as usize]));
            }
            Fault::StalePreRead => {
                return spell.meddle = Some((Meddle::CancelBefore, rule.fault));
            }
            Fault::CancelRace if drawn.is_multiple_of(2) => {
                return spell.meddle = Some((Meddle::CancelBefore, rule.fault));
            }
            Fault::CancelRace => return spell.meddle = Some((Meddle::CancelAfter, rule.fault)),
            Fault::ReplayRace if drawn.is_multiple_of(2) => {
                return spell.meddle = Some((Meddle::ReplayBefore, rule.fault));
            }
            Fault::ReplayRace => return spell.meddle = Some((Meddle::ReplayAfter, rule.fault)),
            Fault::Moved if self.servers.shards() > 1 => return spell.misrouted = true,
            Fault::Ask if self.servers.shards() > 1 => return spell.slot_moves = true,
            Fault::Moved | Fault::Ask => return,
            Fault::ScriptErrorMidway => {
                let at = rule
                    .amount
                    .and_then(|at| u64::try_from(at.saturating_sub(1)).ok())
                    .unwrap_or(drawn);
                spell.manner = Manner { raise_at: Some(at), behind: None };
            }
            Fault::StaleReplicaRead if reads_only(argv) => {
                let behind = rule.amount.and_then(|n| u64::try_from(n).ok()).unwrap_or(5);
                spell.manner = Manner { raise_at: None, behind: Some(behind) };
            }
            Fault::StaleReplicaRead => return self.wait_for_another(at),
            Fault::EpochRepeats => spell.fail_over_after = true,
            Fault::WorkerZombie | Fault::WorkerDoubleReport | Fault::ClaimReplyLost => {
                return self.bewitch_worker(rule, sender, spell);
            }
            other => match refusal(other) {
                Some(text) => spell.refused = Some(text.to_owned()),
                None => return,
            },
        }
        self.inflict(rule.fault, about(sender, argv));
    }

    /// The rule strikes the next call that it can strike.
    fn wait_for_another(&mut self, at: usize) {
        self.seen_calls[at] -= 1;
    }

    fn bewitch_worker(&mut self, rule: &Rule, sender: Actor, spell: &mut Spell) {
        let Actor::Worker(number) = sender else { return };
        let ms = rule.amount.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(2_000);
        if rule.fault == Fault::ClaimReplyLost {
            (spell.reply_lost, spell.silent) = (true, true);
        }
        let worker = self.worker(number);
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these three come here")]
        match rule.fault {
            Fault::WorkerZombie => worker.zombie_ms = Some(ms),
            Fault::ClaimReplyLost => worker.forgetful = true,
            _ => worker.says_it_twice = true,
        }
        self.inflict(rule.fault, sender.to_string());
    }
}

/// Faults in which the sender dies before the call is sent.
const fn kills_before(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::CrashBeforeSend
            | Fault::CrashBetweenSaddAndDrain
            | Fault::CrashMidFanOut
            | Fault::CrashBetweenStageAndApply
    )
}

/// What a node answers that cannot or will not serve.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other faults are no refusals")]
pub(crate) const fn refusal(fault: Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot",
        Fault::ClusterDown => "CLUSTERDOWN The cluster is down",
        Fault::Loading => "LOADING Valkey is loading the dataset in memory",
        Fault::MasterDown => {
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
        }
        Fault::Busy => {
            "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
        Fault::ReadOnly => "READONLY You can't write against a read only replica.",
        Fault::Misconf => {
            "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk."
        }
        Fault::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
        Fault::OutOfMemory => crate::world::servers::OUT_OF_MEMORY,
        Fault::NoAuth => "NOAUTH Authentication required.",
        Fault::NoPerm => "NOPERM User default has no permissions to run the 'fcall' command",
        _ => return None,
    })
}

/// Whether a node with this refusal still answers reads.
pub(crate) const fn reads_pass(fault: Fault) -> bool {
    matches!(fault, Fault::ReadOnly | Fault::Misconf | Fault::NoReplicas | Fault::OutOfMemory)
}

/// Plain commands that engines and clients read with.
pub(crate) const READS: [&str; 7] =
    ["HGET", "HMGET", "HGETALL", "SSCAN", "SMEMBERS", "ZRANGE", "GET"];

fn reads_only(argv: &[Vec<u8>]) -> bool {
    match function_of(argv) {
        Some(name) => name == "ff_scan_partition",
        None => argv.first().is_some_and(|verb| {
            READS.iter().any(|read| verb.eq_ignore_ascii_case(read.as_bytes()))
        }),
    }
}

fn about(sender: Actor, argv: &[Vec<u8>]) -> String {
    let plain = || argv.first().map(|verb| String::from_utf8_lossy(verb).into_owned());
    let verb = function_of(argv).map(str::to_owned).or_else(plain).unwrap_or_default();
    format!("{} of {sender}", verb.trim_start_matches("ff_"))
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::runner::{RunOptions, Verdict, run};

    #[test]
    fn two_equal_rules_wait_for_a_call_each_of_their_own() {
        let rule = "fault StaleReplicaRead on 1st claim_next\n";
        let text = format!("length 5s\n{rule}{rule}at 0s caller-1 submit F1 chain 2\n");
        let outcome = run(&Plan::parse(&text).unwrap(), &RunOptions::default()).unwrap();
        assert_eq!(outcome.verdict, Verdict::Passed);
        assert_eq!(outcome.unstruck, [0, 1], "a claim is no read");
    }

    #[test]
    fn faults_that_never_came_about_are_told() {
        let text = "length 5s\nat 0s caller-1 create E1\nfault ReplyLost on 1st claim_next\n\
                    fault ReplyLost on 1st cancel_flow\n\
                    fault CancelRace on 1st complete_execution\n\
                    fault CancelRace on 9th fail_execution\nfault EnginePause at 1s for 1s\n\
                    fault SignalEarlyLateTwice at 1s\n";
        let outcome = run(&Plan::parse(text).unwrap(), &RunOptions::default()).unwrap();
        assert_eq!(outcome.unstruck, [1, 3, 5], "{:?}", outcome.counters.faults);
    }
}
