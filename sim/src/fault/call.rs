//! Faults of single calls: which of them apply to a call, and what they do to it.

use super::Fault;
use super::effects::{FaultEffects, LateReply, RacingCall};
use crate::actor::worker::WorkerWait;
use crate::event::{Actor, function_of};
use crate::plan::{FaultRule, Trigger};
use crate::world::World;
use crate::world::random_streams::Purpose;

/// How long after a report a worker reports again.
const REPORT_AGAIN_MS: u64 = 150;
/// The default delay of a late call or reply: longer than any timeout.
const LATE_MS: u64 = 15_000;

impl World {
    /// The effects of the plan's faults on each call of a batch; none if the sender dies before it
    /// is sent.
    pub(crate) fn fault_effects(
        &mut self,
        sender: Actor,
        commands: &[Vec<Vec<u8>>],
    ) -> Option<Vec<FaultEffects>> {
        let mut effects = Vec::with_capacity(commands.len());
        let mut cut = false;
        for argv in commands {
            let mut call_effects = FaultEffects::default();
            for at in 0..self.plan.faults.len() {
                if !self.rule_matches(at, sender, argv) {
                    continue;
                }
                let (rule, before) = (self.rule(at).clone(), self.injections.count());
                if kills_before(rule.fault) {
                    self.record_fault(rule.fault, about(sender, argv));
                    self.injections.note_fired(&[at], before);
                    self.uncount_calls(&commands[..effects.len()], sender);
                    self.kill(sender);
                    return None;
                }
                if rule.fault == Fault::PartialPipeline {
                    // A pipeline can only break after its first call: otherwise the rule waits for
                    // another batch.
                    let first = rule.amount.and_then(|calls| usize::try_from(calls).ok());
                    if effects.len() < first.unwrap_or(1).max(1) {
                        self.wait_for_another(at);
                    } else {
                        cut = true;
                        self.record_fault(rule.fault, about(sender, argv));
                    }
                } else {
                    self.apply_rule(at, &rule, sender, argv, &mut call_effects);
                    call_effects.rules.push(at);
                }
                self.injections.note_fired(&[at], before);
            }
            call_effects.request_lost |= cut;
            effects.push(call_effects);
        }
        Some(effects)
    }

    /// Whether a rule applies to this call: it counts matching calls up to its own.
    fn rule_matches(&mut self, at: usize, sender: Actor, argv: &[Vec<u8>]) -> bool {
        if !self.faults_are_on() {
            return false;
        }
        let Trigger::Call(pattern) = &self.plan.faults[at].trigger else { return false };
        let strikes = self.plan.faults[at].fault.applies_to_sender(sender);
        if !strikes || !pattern.fits(sender, argv) {
            return false;
        }
        self.injections.seen_calls[at] += 1;
        self.injections.seen_calls[at] == pattern.nth
    }

    /// Calls of a batch that was never sent do not count.
    fn uncount_calls(&mut self, commands: &[Vec<Vec<u8>>], sender: Actor) {
        for at in 0..self.plan.faults.len() {
            let Trigger::Call(pattern) = &self.plan.faults[at].trigger else { continue };
            if !self.plan.faults[at].fault.applies_to_sender(sender) {
                continue;
            }
            let unsent = commands.iter().filter(|argv| pattern.fits(sender, argv)).count();
            if self.injections.seen_calls[at] < pattern.nth {
                let unsent = u32::try_from(unsent).unwrap_or(0);
                self.injections.seen_calls[at] =
                    self.injections.seen_calls[at].saturating_sub(unsent);
            }
        }
    }

    /// Adds the effects of a rule to a call.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults do not apply to calls")]
    fn apply_rule(
        &mut self,
        at: usize,
        rule: &FaultRule,
        sender: Actor,
        argv: &[Vec<u8>],
        call_effects: &mut FaultEffects,
    ) {
        let drawn = self.random(Purpose::Faults, sender).bits();
        let ms = rule.amount.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(LATE_MS);
        match rule.fault {
            Fault::CrashAfterApply => call_effects.crash_after = true,
            Fault::ReplyLost => {
                (call_effects.reply_lost, call_effects.silent) = (true, drawn.is_multiple_of(2))
            }
            Fault::RequestLost => {
                (call_effects.request_lost, call_effects.silent) = (true, drawn.is_multiple_of(2))
            }
            Fault::LateApply => call_effects.late_ms = ms,
            Fault::ReorderBetweenTickets => call_effects.late_ms = ms.min(2_000),
            Fault::DuplicateDelivery => call_effects.duplicate_after_ms = Some(ms),
            Fault::ReplyForOldTicket => {
                let twice = [LateReply::Late, LateReply::Duplicate, LateReply::DuplicateToAny];
                call_effects.late_reply = Some((ms, twice[(drawn % 3) as usize]));
            }
            Fault::StalePreRead => {
                return call_effects.racing_call = Some((RacingCall::CancelBefore, rule.fault));
            }
            Fault::CancelRace if drawn.is_multiple_of(2) => {
                return call_effects.racing_call = Some((RacingCall::CancelBefore, rule.fault));
            }
            Fault::CancelRace => {
                return call_effects.racing_call = Some((RacingCall::CancelAfter, rule.fault));
            }
            Fault::ReplayRace if drawn.is_multiple_of(2) => {
                return call_effects.racing_call = Some((RacingCall::ReplayBefore, rule.fault));
            }
            Fault::ReplayRace => {
                return call_effects.racing_call = Some((RacingCall::ReplayAfter, rule.fault));
            }
            Fault::Moved if self.network.servers.shards() > 1 => {
                return call_effects.misrouted = true;
            }
            Fault::Ask if self.network.servers.shards() > 1 => {
                return call_effects.slot_moves = true;
            }
            Fault::Moved | Fault::Ask => return,
            Fault::ScriptErrorMidway => {
                let at = rule
                    .amount
                    .and_then(|at| u64::try_from(at.saturating_sub(1)).ok())
                    .unwrap_or(drawn);
                call_effects.options.raise_at = Some(at);
            }
            Fault::StaleReplicaRead if reads_only(argv) => {
                let behind = rule.amount.and_then(|n| u64::try_from(n).ok()).unwrap_or(5);
                call_effects.options.behind = Some(behind);
            }
            Fault::StaleReplicaRead => return self.wait_for_another(at),
            Fault::EpochRepeats => call_effects.fail_over_after = true,
            Fault::WorkerZombie | Fault::WorkerDoubleReport | Fault::ClaimReplyLost => {
                return self.apply_worker_rule(rule, sender, call_effects);
            }
            other => match refusal(other) {
                Some(text) => call_effects.refused = Some(text.to_owned()),
                None => return,
            },
        }
        self.record_fault(rule.fault, about(sender, argv));
    }

    /// Lets the rule apply to the next matching call instead.
    fn wait_for_another(&mut self, at: usize) {
        self.injections.seen_calls[at] -= 1;
    }

    fn apply_worker_rule(
        &mut self,
        rule: &FaultRule,
        sender: Actor,
        call_effects: &mut FaultEffects,
    ) {
        let Actor::Worker(number) = sender else { return };
        let ms = rule.amount.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(2_000);
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these three are passed here")]
        match rule.fault {
            Fault::WorkerZombie => self.worker(number).zombie_ms = Some(ms),
            Fault::ClaimReplyLost => call_effects.claim_unheard = true,
            _ => self.worker_timer_in(number, REPORT_AGAIN_MS, WorkerWait::ReportAgain),
        }
        self.record_fault(rule.fault, sender.to_string());
    }
}

/// Whether the sender dies before the call is sent.
const fn kills_before(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::CrashBeforeSend
            | Fault::CrashBetweenSaddAndDrain
            | Fault::CrashMidFanOut
            | Fault::CrashBetweenStageAndApply
    )
}

/// The error of a node that cannot or will not serve.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other faults are not error replies")]
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

/// Whether a node with this error still serves reads.
pub(crate) const fn reads_pass(fault: Fault) -> bool {
    matches!(fault, Fault::ReadOnly | Fault::Misconf | Fault::NoReplicas | Fault::OutOfMemory)
}

/// Plain commands that engines and clients read with.
pub(crate) const READS: [&str; 7] =
    ["HGET", "HMGET", "HGETALL", "SSCAN", "SMEMBERS", "ZRANGE", "GET"];

fn reads_only(argv: &[Vec<u8>]) -> bool {
    match function_of(argv) {
        Some(name) => name == "ff_scan_partition" || name == "ff_audit_executions",
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
    use crate::runner::{RunOptions, RunResult, run};

    #[test]
    fn two_equal_rules_apply_to_different_calls() {
        let rule = "fault StaleReplicaRead on 1st claim_many\n";
        let text = format!("length 5s\n{rule}{rule}at 0s caller-1 submit F1 chain 2\n");
        let outcome = run(&Plan::parse(&text).unwrap(), &RunOptions::default()).unwrap();
        assert_eq!(outcome.result, RunResult::Passed);
        assert_eq!(outcome.unused_faults, [0, 1], "a claim is no read");
    }

    #[test]
    fn faults_that_were_never_injected_are_listed() {
        let text = "length 5s\nat 0s caller-1 create E1\nfault ReplyLost on 1st claim_many\n\
                    fault ReplyLost on 1st cancel_flow\n\
                    fault CancelRace on 1st end_and_claim\n\
                    fault CancelRace on 9th fail_execution\nfault EnginePause at 1s for 1s\n\
                    fault SignalEarlyLateTwice at 1s\n";
        let outcome = run(&Plan::parse(text).unwrap(), &RunOptions::default()).unwrap();
        assert_eq!(outcome.unused_faults, [1, 3, 5], "{:?}", outcome.counters.faults);
    }
}
