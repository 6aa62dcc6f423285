//! Checks of fault rules: those that would do nothing, or something else than they say.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use selvedge_core::key::Key;
use selvedge_lua::library;

use super::check::{Names, SPAN_MAX_MS, check_partition, present};
use super::fault_rule::name_fits;
use super::step::read_partition;
use super::tokens::show_ms;
use super::{CallPattern, FaultRule, Plan, Trigger};
use crate::event::Actor;
use crate::fault::Fault;
use crate::fault::call::READS;

/// What `to` can name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Engine,
    Worker,
    Node,
    /// Any actor that waits for replies.
    Client,
    NoActor,
}

/// What `about` can name.
#[derive(Clone, Copy)]
enum Subject {
    Key,
    Partition,
    Execution,
    Nothing,
}

pub(super) fn check_fault(plan: &Plan, names: &Names, rule: &FaultRule) -> Result<(), String> {
    let (fault, length) = (rule.fault, plan.config.length.0);
    if fault.needs_cluster() && plan.config.shards < 2 {
        return Err(format!("{fault} needs a cluster: set shards to 2 or 3"));
    }
    if fault.target() == Target::Worker && fault != Fault::PushesSilent && plan.config.workers == 0
    {
        return Err(format!("{fault} needs a worker: set workers to 1 or more"));
    }
    if fault == Fault::ScannerOverlap && plan.config.engines < 2 {
        return Err(format!("{fault} needs another engine: set engines to 2 or more"));
    }
    match &rule.trigger {
        Trigger::At(ms) if *ms >= length => {
            return Err(format!(
                "this fault is after the length of {}: raise `length`",
                show_ms(length)
            ));
        }
        Trigger::At(_) => {}
        Trigger::Call(pattern) => {
            check_call(plan, pattern)?;
            check_kind(fault, pattern)?;
        }
    }
    check_target(plan, rule)?;
    check_lasting(rule)?;
    check_amount(plan, rule)?;
    check_subject(plan, names, rule)
}

fn check_call(plan: &Plan, pattern: &CallPattern) -> Result<(), String> {
    let verb = pattern.verb.as_str();
    let is_read = READS.iter().any(|read| read.eq_ignore_ascii_case(verb));
    let is_function = || functions().iter().any(|name| name_fits(verb, name));
    if verb != "call" && !is_read && !is_function() {
        return Err(format!(
            "there is no call named `{verb}`: expected a function without its prefix, the first \
             words of one, {} or `call`",
            READS.join(", ")
        ));
    }
    check_partition(plan, pattern.partition)?;
    match pattern.by {
        Some(by @ (Actor::Node(_) | Actor::World)) => Err(format!("{by} sends no calls")),
        Some(by) => present(plan, by),
        None => Ok(()),
    }
}

/// An error if the fault does not apply to such calls.
fn check_kind(fault: Fault, pattern: &CallPattern) -> Result<(), String> {
    let Some((calls, _)) = fault.about_calls() else { return Ok(()) };
    if !calls.iter().any(|call| name_fits(&pattern.verb, call)) {
        let (verb, calls) = (&pattern.verb, calls.join(", "));
        return Err(format!("{fault} does not apply to {verb}: expected {calls}"));
    }
    match pattern.by {
        Some(by) if !fault.applies_to_sender(by) => {
            Err(format!("{fault} does not apply to calls of {by}"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The names of all functions of the library.
fn functions() -> &'static BTreeSet<&'static str> {
    static FUNCTIONS: OnceLock<BTreeSet<&str>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let defined = library::SOURCE.split("define(\"ff_").skip(1);
        defined.filter_map(|rest| rest.split('"').next()).collect()
    })
}

fn check_target(plan: &Plan, rule: &FaultRule) -> Result<(), String> {
    let (Some(to), fault) = (rule.to, rule.fault) else { return Ok(()) };
    if matches!(rule.trigger, Trigger::Call(_)) {
        return Err("a fault at a call takes `by`, not `to`".to_owned());
    }
    let (fits, expected) = match fault.target() {
        Target::Engine => (matches!(to, Actor::Engine(_)), "an engine"),
        Target::Worker => (matches!(to, Actor::Worker(_)), "a worker"),
        Target::Node => (matches!(to, Actor::Node(_)), "a node"),
        Target::Client => {
            let deaf = matches!(to, Actor::Node(_) | Actor::World | Actor::Foreign(_));
            (!deaf, "an engine, a worker, a caller or a signaller")
        }
        Target::NoActor => (false, "no actor: leave `to` out"),
    };
    if fits { present(plan, to) } else { Err(format!("{fault} applies to {expected}, not {to}")) }
}

fn check_lasting(rule: &FaultRule) -> Result<(), String> {
    let (Some(ms), fault) = (rule.lasting_ms, rule.fault) else { return Ok(()) };
    if matches!(rule.trigger, Trigger::Call(_)) || !fault.lasts() {
        return Err(format!("{fault} has no duration here: leave `for` out"));
    }
    if ms > SPAN_MAX_MS {
        return Err("a fault lasts at most 7 days".to_owned());
    }
    if ms == 0 {
        return Err("a fault with a duration of zero does nothing".to_owned());
    }
    Ok(())
}

fn check_amount(plan: &Plan, rule: &FaultRule) -> Result<(), String> {
    let (fault, unit) = (rule.fault, rule.fault.unit());
    let by_amount_alone = matches!(
        fault,
        Fault::ServerClockJump
            | Fault::NodeClockSkew
            | Fault::FailoverLosesSuffix
            | Fault::WorkerClockJump
    );
    if by_amount_alone && rule.amount.is_none_or(|amount| amount == 0) {
        return Err(format!("{fault} needs a number: add `{unit}` and a number other than 0"));
    }
    let Some(amount) = rule.amount else { return Ok(()) };
    let far = SPAN_MAX_MS.cast_signed();
    let (least, most) = match unit {
        // While a clock is behind, nothing becomes due.
        "ms" if matches!(fault, Fault::ServerClockJump | Fault::NodeClockSkew) => {
            (-(plan.config.bound.0 / 2).cast_signed(), far)
        }
        "ms" if matches!(fault, Fault::EngineClockSkew | Fault::WorkerClockJump) => (-far, far),
        "ms" => (0, far),
        "members" if fault == Fault::PoisonHead => (1, 1_000),
        "members" | "timers" => (1, 5_000),
        "engines" => (1, 13),
        "times" => (1, 10_000),
        "commits" | "keys" => (0, 1_000_000),
        _ => (1, 1_000_000),
    };
    let refused = || format!("`{unit}` of {fault} must be {least} to {most} here, not {amount}");
    (least..=most).contains(&amount).then_some(()).ok_or_else(refused)
}

fn check_subject(plan: &Plan, names: &Names, rule: &FaultRule) -> Result<(), String> {
    let (Some(subject), fault) = (&rule.subject, rule.fault) else { return Ok(()) };
    match fault.subject() {
        Subject::Key => {
            let key = subject.parse::<Key>();
            let key = key.map_err(|_| format!("`{subject}` is not a key, which {fault} needs"))?;
            let told = fault.key_description();
            let refused = || format!("{fault} does not apply to {subject}: expected {told}");
            fault.applies_to_key(&key).then_some(()).ok_or_else(refused)
        }
        Subject::Partition => check_partition(plan, Some(read_partition(subject)?)),
        Subject::Execution => names.execution(subject),
        Subject::Nothing => Err(format!("{fault} takes no `about`: leave `about` out")),
    }
}

/// Who sends the calls that a fault applies to.
#[derive(Clone, Copy)]
enum Sender {
    Engine,
    Worker,
    Caller,
    EngineOrCaller,
}

impl Fault {
    /// The calls that it applies to and their sender; none if it applies to any call.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others apply to any call")]
    const fn about_calls(self) -> Option<(&'static [&'static str], Sender)> {
        Some(match self {
            Self::CrashBetweenSaddAndDrain => (
                &[
                    "drain_sibling_cancel_group",
                    "drain_sibling_cancel_group_checked",
                    "reconcile_sibling_cancel_group",
                    "cancel_execution",
                ],
                Sender::Engine,
            ),
            Self::CrashMidFanOut => (
                &[
                    "resolve_outgoing",
                    "resolve_dependency",
                    "purge_execution",
                    "purge_executions",
                    "purge_flow",
                    "submit_flow",
                ],
                Sender::EngineOrCaller,
            ),
            Self::CrashBetweenStageAndApply => (&["apply_dependency_to_child"], Sender::Caller),
            Self::ClaimReplyLost | Self::WorkerZombie | Self::EpochRepeats => {
                (&["claim_many", "end_and_claim"], Sender::Worker)
            }
            Self::WorkerDoubleReport => (
                &["end_and_claim", "complete_execution", "fail_execution", "suspend_execution"],
                Sender::Worker,
            ),
            _ => return None,
        })
    }

    /// Whether it applies to calls of this sender.
    #[must_use]
    pub(crate) const fn applies_to_sender(self, sender: Actor) -> bool {
        let Some((_, whose)) = self.about_calls() else { return true };
        match whose {
            Sender::Engine => matches!(sender, Actor::Engine(_)),
            Sender::Worker => matches!(sender, Actor::Worker(_)),
            Sender::Caller => matches!(sender, Actor::Caller(_)),
            Sender::EngineOrCaller => matches!(sender, Actor::Engine(_) | Actor::Caller(_)),
        }
    }

    /// Whether it has a duration, if it is injected at a time.
    #[must_use]
    pub(super) const fn lasts(self) -> bool {
        !matches!(
            self,
            Self::WrongType
                | Self::ForeignKey
                | Self::FailoverLosesSuffix
                | Self::AmnesiaRestart
                | Self::LibraryMissing
                | Self::ServerClockJump
                | Self::NodeClockSkew
                | Self::EngineClockSkew
                | Self::TimerStorm
                | Self::Eviction
                | Self::RecordLost
                | Self::OperatorEdit
                | Self::PoisonTuple
                | Self::PoisonHead
                | Self::OversizeGroup
                | Self::ScannerOverlap
                | Self::SignalEarlyLateTwice
                | Self::WorkerDies
                | Self::WorkerClockJump
                | Self::WorkerRestart
                | Self::WorkerDrain
        )
    }

    /// What `to` can name, if it is injected at a time.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others take no `to`")]
    const fn target(self) -> Target {
        use Fault::*;
        match self {
            EnginePause | EngineClockSkew | FilteredEngine | StopMidScan | WakeupLost => {
                Target::Engine
            }
            WorkerDies | WorkerPause | WorkerClockJump | WorkerRestart | WorkerDrain
            | CapacityDropped | PushesSilent => Target::Worker,
            FailoverLosesSuffix | SplitBrainBranch | AmnesiaRestart | LibraryMissing
            | LibraryReplaced | ServerClockJump | NodeClockSkew | SlowPartition | NodePause
            | TryAgain | ClusterDown | Loading | MasterDown | Busy | ReadOnly | Misconf
            | NoReplicas | OutOfMemory | NoAuth | NoPerm => Target::Node,
            OneWayCut => Target::Client,
            _ => Target::NoActor,
        }
    }

    /// What `about` can name.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others take no `about`")]
    const fn subject(self) -> Subject {
        match self {
            Self::Eviction | Self::OperatorEdit | Self::WrongType => Subject::Key,
            Self::SlotMove | Self::SlotMovesByKeys => Subject::Partition,
            Self::SignalEarlyLateTwice | Self::RecordLost => Subject::Execution,
            _ => Subject::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_the_library_are_known() {
        for name in ["claim_next", "drain_sibling_cancel_group_checked", "scan_partition"] {
            assert!(functions().contains(name), "{name} of {:?}", functions());
        }
    }

    #[test]
    fn a_wrong_fault_rule_is_refused_with_a_reason() {
        let many = i64::MAX;
        for (rule, reason) in [
            ("EnginePause at 1s to node-1", "applies to an engine, not node-1"),
            ("FailoverLosesSuffix at 1s to engine-1 commits 2", "applies to a node, not engine-1"),
            ("OneWayCut at 1s to node-1", "a caller or a signaller, not node-1"),
            ("WorkerDrain at 1s to engine-1", "applies to a worker, not engine-1"),
            ("WorkerDrain at 1s for 2s", "leave `for` out"),
            ("WorkerDies at 1s effects 0", "must be 1"),
            ("WorkerClockJump at 1s", "needs a number"),
            ("NodePause at 1s to worker-1", "applies to a node, not worker-1"),
            ("PoisonTuple at 1s to node-1", "leave `to` out"),
            ("ReplyLost on 1st drain to engine-1", "takes `by`"),
            ("ReplyLost on 1st drian", "no call named `drian`"),
            ("ReplyLost on 3st drain", "`3st`"),
            ("ReplyLost on 1st drain in fp:4", "there is no fp:4"),
            ("ReplyLost on 1st drain for 3s", "leave `for` out"),
            ("TimerStorm at 1s for 3s", "leave `for` out"),
            ("EnginePause at 1s for 0s", "does nothing"),
            ("CrashBetweenSaddAndDrain on 1st claim_many", "does not apply to claim_many"),
            ("CrashBetweenSaddAndDrain on 1st call", "does not apply to call"),
            ("CrashBetweenSaddAndDrain on 1st drain by caller-1", "calls of caller-1"),
            ("CrashBetweenStageAndApply on 1st drain", "expected apply_dependency_to_child"),
            ("ClaimReplyLost on 1st complete_execution", "expected claim_many"),
            ("WorkerDoubleReport on 1st claim_many", "expected end_and_claim"),
            ("EnginePause at 1s for 5124095576030h", "7 days"),
            (&format!("OversizeGroup at 1s members {many}"), "1 to 5000"),
            ("OversizeGroup at 1s members 5001", "1 to 5000"),
            ("OversizeGroup at 1s members 0", "1 to 5000"),
            ("PoisonHead at 1s members 1001", "1 to 1000"),
            ("FailoverLosesSuffix at 1s commits -2", "0 to 1000000"),
            ("LateApply on 1st drain ms -5", "`ms` of LateApply must be 0"),
            ("DuplicateDelivery on 1st drain ms -5", "must be 0"),
            ("NodeClockSkew at 1s ms 900", "needs a cluster"),
            ("ScannerOverlap at 1s", "set engines to 2"),
            ("ServerClockJump at 1s ms -300001", "must be -300000"),
            ("ScriptErrorMidway on 1st drain inner -1", "must be 1"),
            (&format!("ScriptErrorMidway on 1st drain inner {}", i64::MIN), "must be 1"),
            ("EnginePause at 1s about E1", "leave `about` out"),
            ("Eviction at 1s about E1", "not a key"),
            (
                "Eviction at 1s about ff:idx:{fp:0}:lane:default:eligible",
                "expected an execution's core",
            ),
            ("WrongType at 1s about ff:idx:{fp:0}:all_executions", "does not apply to ff:idx"),
            ("OperatorEdit at 1s about ff:idx:{fp:0}:flow_index", "expected the index of a lane"),
            ("ReplyLost on 1st drain by node-1", "node-1 sends no calls"),
            ("ReplyLost on 1st drain by world", "world sends no calls"),
            ("SignalEarlyLateTwice at 1s about E9", "no step creates `E9`"),
        ] {
            let text = format!("at 1s caller-1 create E1\nfault {rule}\n");
            let error = Plan::parse(&text).unwrap_err();
            assert_eq!(error.line, 2, "{rule}");
            assert!(error.reason.contains(reason), "{rule}: {error}");
        }
    }

    #[test]
    fn a_correct_fault_rule_is_accepted() {
        for rule in [
            "EnginePause at 1s to engine-1 for 12s",
            "OneWayCut at 1s to worker-1",
            "PushesSilent at 1s to worker-1 for 2m",
            "WorkerClockJump at 1s ms -9000",
            "CapacityDropped at 1s for 3s",
            "OversizeGroup at 1s members 5000",
            "ServerClockJump at 1s ms -9000",
            "ReplyLost on 11th reconcile_sibling by engine-1 in fp:0",
            "StaleReplicaRead on 2nd hmget commits 4",
            "RecordLost at 1s about E1",
        ] {
            let text = format!("at 1s caller-1 create E1\nfault {rule}\n");
            assert!(Plan::parse(&text).is_ok(), "{rule}: {:?}", Plan::parse(&text));
        }
    }
}
