//! Chooses the faults of a seed: a few kinds, in bursts with quiet times between them, and only a
//! few that cannot be repaired.

use crate::event::Actor;
use crate::fault::Fault;
use crate::plan::{Config, FaultRule, Span, TriggerKind};
use crate::search::{Draws, Ratio};

/// The most faults of a run that lose acknowledged commits.
const LOSSY_MAX: usize = 2;
/// The most faults of a run that damage records.
const DAMAGE_MAX: usize = 1;

/// The sender of a call.
#[derive(Clone, Copy)]
enum Sender {
    Engine,
    Worker,
    Caller,
    Signaller,
    Any,
}

/// A call that a fault can apply to.
type CallSite = (&'static str, Sender);

pub(super) fn draw(stream: &mut Draws, config: &Config) -> Vec<FaultRule> {
    let kinds = kinds(stream, config);
    let bursts = bursts(stream, config);
    let (mut rules, mut lossy, mut damage) = (Vec::new(), 0, 0);
    for (fault, weight) in kinds {
        // One of these is load enough.
        let most = if is_large(fault) { 1 } else { weight.div_ceil(20) };
        let count = 1 + stream.below(most);
        for _ in 0..count {
            lossy += usize::from(is_lossy(fault));
            damage += usize::from(is_damage(fault));
            let over =
                (is_lossy(fault) && lossy > LOSSY_MAX) || (is_damage(fault) && damage > DAMAGE_MAX);
            if !over {
                rules.push(rule(stream, config, &bursts, fault));
            }
        }
    }
    rules
}

/// Crashes of engines only, for lite plans.
pub(super) fn draw_crashes(stream: &mut Draws, config: &Config) -> Vec<FaultRule> {
    let crashes = [
        Fault::CrashBeforeSend,
        Fault::CrashAfterApply,
        Fault::CrashBetweenSaddAndDrain,
        Fault::CrashMidFanOut,
    ];
    (0..stream.below(6))
        .map(|_| {
            let fault = stream.pick(&crashes).copied().unwrap_or(Fault::CrashBeforeSend);
            on_call(stream, config, fault)
        })
        .collect()
}

/// A few kinds, with weights. Kinds that cannot be repaired are rare.
fn kinds(stream: &mut Draws, config: &Config) -> Vec<(Fault, u64)> {
    let wanted = stream.within(Span { from: 0, to: 7 });
    let mut kinds: Vec<(Fault, u64)> = Vec::new();
    for _ in 0..wanted {
        let Some(&fault) = stream.pick(Fault::ALL) else { continue };
        let one_in = match () {
            () if is_damage(fault) => 10,
            () if is_lossy(fault) => 6,
            () if is_large(fault) => 2,
            () => 1,
        };
        let dropped = !stream.chance(Ratio { hits: 1, of: one_in });
        let cluster = matches!(
            fault,
            Fault::Moved
                | Fault::Ask
                | Fault::TryAgain
                | Fault::SlotMove
                | Fault::SlotMovesByKeys
                | Fault::ClusterDown
                | Fault::NodeClockSkew
        );
        let possible = (!cluster || config.shards > 1)
            && (fault != Fault::ScannerOverlap || config.engines > 1);
        if !dropped && possible && !kinds.iter().any(|(known, _)| *known == fault) {
            kinds.push((fault, stream.within(Span { from: 1, to: 100 })));
        }
    }
    // Whether a slow shard affects the others can only be checked without other faults.
    let slow = |(fault, weight): &(Fault, u64)| {
        matches!(fault, Fault::SlowPartition | Fault::NodePause) && *weight > 50
    };
    if config.shards > 1 && kinds.iter().any(slow) {
        kinds.retain(|(fault, _)| fault.only_adds_load());
    }
    kinds
}

/// The times of one to three bursts.
fn bursts(stream: &mut Draws, config: &Config) -> Vec<u64> {
    let count = stream.within(Span { from: 1, to: 3 });
    (0..count).map(|_| stream.below(config.length.0 * 4 / 5)).collect()
}

fn rule(stream: &mut Draws, config: &Config, bursts: &[u64], fault: Fault) -> FaultRule {
    let by_call = match fault.trigger_kind() {
        TriggerKind::Calls => true,
        TriggerKind::Times => false,
        TriggerKind::Both => stream.chance(Ratio { hits: 1, of: 2 }),
    };
    if by_call {
        return on_call(stream, config, fault);
    }
    let burst = stream.pick(bursts).copied().unwrap_or(0);
    let at_ms = (burst + stream.below(2_000)).min(config.length.0 - 1);
    let mut rule = FaultRule::at(fault, at_ms);
    rule.lasting_ms = fault.lasts().then(|| stream.within(Span { from: 300, to: 9_000 }));
    rule.amount = amount(stream, fault);
    rule.to = target(stream, config, fault);
    rule
}

fn on_call(stream: &mut Draws, config: &Config, fault: Fault) -> FaultRule {
    let group = stream.pick(call_sites(fault)).copied().unwrap_or(ANY_CALL);
    let (verb, sender) = stream.pick(group).copied().unwrap_or(("call", Sender::Any));
    // A run has many calls, but few of most kinds.
    let often = if verb == "call" { 120 } else { 1 + stream.below(6) };
    let nth = u32::try_from(stream.within(Span { from: 1, to: often })).unwrap_or(1);
    let one_of = |stream: &mut Draws, most: u64| {
        u8::try_from(stream.within(Span { from: 1, to: most.max(1) })).unwrap_or(1)
    };
    let sender = match sender {
        Sender::Any => {
            [sender, Sender::Engine, Sender::Worker, Sender::Caller][stream.below(4) as usize]
        }
        Sender::Engine | Sender::Worker | Sender::Caller | Sender::Signaller => sender,
    };
    let by = match sender {
        Sender::Engine => Some(Actor::Engine(one_of(stream, config.engines))),
        Sender::Worker => Some(Actor::Worker(one_of(stream, config.workers))),
        Sender::Caller => Some(Actor::Caller(one_of(stream, 2))),
        Sender::Signaller => Some(Actor::Signaller(1)),
        Sender::Any => None,
    };
    // One sender in particular, or any of them.
    let by = by.filter(|_| stream.chance(Ratio { hits: 1, of: 3 }));
    FaultRule { amount: amount(stream, fault), ..FaultRule::on(fault, nth, verb, by) }
}

/// The calls that a fault applies to, in groups of equal probability.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others apply to any call")]
const fn call_sites(fault: Fault) -> &'static [&'static [CallSite]] {
    match fault {
        Fault::CrashBeforeSend | Fault::CrashAfterApply => {
            &[ANY_ENGINE_CALL, ENGINE_CALLS, ENGINE_CALLS, CALLER_CALLS, WORKER_CALLS, REPORT_CALLS]
        }
        Fault::CrashBetweenSaddAndDrain => {
            &[&[("drain", Sender::Engine), ("cancel_execution", Sender::Engine)]]
        }
        Fault::CrashMidFanOut => &[&[
            ("resolve_outgoing", Sender::Engine),
            ("purge_execution", Sender::Engine),
            ("purge_executions", Sender::Engine),
            ("submit_flow", Sender::Caller),
        ]],
        Fault::CrashBetweenStageAndApply => &[&[("apply_dependency_to_child", Sender::Caller)]],
        Fault::PartialPipeline | Fault::ReplyForOldTicket | Fault::ReorderBetweenTickets => {
            &[ANY_ENGINE_CALL]
        }
        Fault::StaleReplicaRead => &[
            ANY_ENGINE_CALL,
            &[
                ("scan_partition", Sender::Engine),
                ("HMGET", Sender::Engine),
                ("HGET", Sender::Engine),
            ],
        ],
        Fault::StalePreRead => &[ENGINE_CALLS],
        Fault::EpochRepeats | Fault::WorkerZombie | Fault::ClaimReplyLost => {
            &[&[("claim_many", Sender::Worker), ("end_and_claim", Sender::Worker)]]
        }
        Fault::WorkerDoubleReport => &[REPORT_CALLS],
        Fault::CancelRace | Fault::ReplayRace => &[
            ENGINE_CALLS,
            REPORT_CALLS,
            &[
                ("claim_many", Sender::Worker),
                ("renew_lease", Sender::Worker),
                ("deliver_signal", Sender::Signaller),
            ],
        ],
        _ => &[ANY_CALL, ENGINE_CALLS, WORKER_CALLS, REPORT_CALLS, CALLER_CALLS],
    }
}

const ANY_CALL: &[CallSite] = &[("call", Sender::Any)];
const ANY_ENGINE_CALL: &[CallSite] = &[("call", Sender::Engine)];

/// Calls of engines.
const ENGINE_CALLS: &[CallSite] = &[
    ("resolve_outgoing", Sender::Engine),
    ("cancel_execution", Sender::Engine),
    ("drain", Sender::Engine),
    ("reconcile_sibling_cancel_group", Sender::Engine),
    ("requeue_lost_lease", Sender::Engine),
    ("promote_delayed", Sender::Engine),
    ("expire_if_due", Sender::Engine),
    ("expire_suspension", Sender::Engine),
    ("ack_cancel_member", Sender::Engine),
    ("purge_execution", Sender::Engine),
    ("purge_executions", Sender::Engine),
    ("project_flow", Sender::Engine),
    ("unblock_execution", Sender::Engine),
];

/// Calls of workers during their work.
const WORKER_CALLS: &[CallSite] = &[
    ("claim_many", Sender::Worker),
    ("end_and_claim", Sender::Worker),
    ("renew_lease", Sender::Worker),
    ("check_admission_and_record", Sender::Worker),
    ("release_admission", Sender::Worker),
];

/// Calls of workers at the end of their work.
const REPORT_CALLS: &[CallSite] = &[
    ("end_and_claim", Sender::Worker),
    ("complete_execution", Sender::Worker),
    ("fail_execution", Sender::Worker),
    ("suspend_execution", Sender::Worker),
];

/// Calls of callers and signallers.
const CALLER_CALLS: &[CallSite] = &[
    ("submit_flow", Sender::Caller),
    ("create_execution", Sender::Caller),
    ("cancel_execution", Sender::Caller),
    ("cancel_flow", Sender::Caller),
    ("replay_execution", Sender::Caller),
    ("apply_dependency_to_child", Sender::Caller),
    ("deliver_signal", Sender::Signaller),
];

/// The number of a fault, if it takes one.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others take no number")]
fn amount(stream: &mut Draws, fault: Fault) -> Option<i64> {
    let within = |stream: &mut Draws, from: u64, to: u64| {
        Some(stream.within(Span { from, to }).cast_signed())
    };
    // A clock with an offset of zero is not a fault.
    let off = |ms: i64| if ms == 0 { 1 } else { ms };
    match fault {
        Fault::DuplicateDelivery | Fault::ReplyForOldTicket => within(stream, 1, 20_000),
        Fault::LateApply => within(stream, 300, 25_000),
        Fault::ReorderBetweenTickets => within(stream, 5, 2_000),
        // After a large loss little can be checked.
        Fault::FailoverLosesSuffix => within(stream, 1, 8),
        // An empty node is rare for the same reason.
        Fault::AmnesiaRestart if stream.chance(Ratio { hits: 1, of: 16 }) => Some(0),
        Fault::AmnesiaRestart => within(stream, 1, 1_200),
        Fault::StaleReplicaRead => within(stream, 1, 40),
        Fault::ServerClockJump => within(stream, 0, 40_000).map(|ms| off(ms - 10_000)),
        Fault::NodeClockSkew => within(stream, 0, 6_000).map(|ms| off(ms - 3_000)),
        Fault::EngineClockSkew => within(stream, 0, 120_000).map(|ms| ms - 60_000),
        Fault::OutOfMemory => stream
            .chance(Ratio { hits: 1, of: 2 })
            .then(|| stream.within(Span { from: 30, to: 300 }).cast_signed()),
        Fault::TimerStorm => stream.pick(&[49, 50, 51, 101, 150]).copied(),
        Fault::PoisonHead => stream.pick(&[49, 50, 51, 100, 130]).copied(),
        Fault::OversizeGroup => stream.pick(&[99, 101, 128, 129, 257, 1_024, 1_025]).copied(),
        Fault::SlowPartition => within(stream, 10, 120),
        Fault::EngineFlood => within(stream, 1, 5),
        Fault::WorkerZombie => within(stream, 1, 8_000),
        Fault::WorkerDies => within(stream, 1, 12),
        Fault::WorkerClockJump => within(stream, 0, 30_000).map(|ms| off(ms - 10_000)),
        Fault::WorkerRestart => within(stream, 0, 1_000),
        _ => None,
    }
}

fn target(stream: &mut Draws, config: &Config, fault: Fault) -> Option<Actor> {
    let worker = u8::try_from(stream.within(Span { from: 1, to: config.workers })).unwrap_or(1);
    if fault == Fault::PushesSilent {
        return stream.chance(Ratio { hits: 1, of: 2 }).then_some(Actor::Worker(worker));
    }
    if fault != Fault::OneWayCut {
        return None;
    }
    let engine = u8::try_from(stream.within(Span { from: 1, to: config.engines })).unwrap_or(1);
    stream.pick(&[Actor::Engine(engine), Actor::Worker(worker), Actor::Caller(1)]).copied()
}

const fn is_lossy(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::FailoverLosesSuffix
            | Fault::SplitBrainBranch
            | Fault::EpochRepeats
            | Fault::AmnesiaRestart
    )
}

const fn is_damage(fault: Fault) -> bool {
    use Fault::*;
    matches!(fault, Eviction | OperatorEdit | WrongType | ForeignKey | RecordLost)
}

const fn is_large(fault: Fault) -> bool {
    matches!(fault, Fault::TimerStorm | Fault::PoisonHead | Fault::OversizeGroup)
}
