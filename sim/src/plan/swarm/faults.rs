//! What goes wrong in the world of a seed: a few kinds, in bursts with quiet between them, and only
//! so much of what cannot be repaired.

use crate::event::Actor;
use crate::fault::Fault;
use crate::plan::{Config, Rule, Span, Strikes};
use crate::world::stream::{Ratio, Stream};

/// Most faults of a run after which acknowledged facts are gone.
const LOSSY_MAX: usize = 2;
/// Most faults of a run that damage single records.
const DAMAGE_MAX: usize = 1;

/// Who sends a call, and so whose a fault can be armed for.
#[derive(Clone, Copy)]
enum Who {
    Engine,
    Worker,
    Caller,
    Signaller,
    Anybody,
}

/// A call that a fault can be armed for.
type Place = (&'static str, Who);

pub(super) fn draw(stream: &mut Stream, config: &Config) -> Vec<Rule> {
    let kinds = kinds(stream, config);
    let bursts = bursts(stream, config);
    let (mut rules, mut lossy, mut damage) = (Vec::new(), 0, 0);
    for (fault, weight) in kinds {
        // One crowd is enough for everybody to be busy.
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

/// Crashes of engines, and nothing else.
pub(super) fn draw_crashes(stream: &mut Stream, config: &Config) -> Vec<Rule> {
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

/// A few kinds, each with a weight. What cannot be repaired is rarer.
fn kinds(stream: &mut Stream, config: &Config) -> Vec<(Fault, u64)> {
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
                | Fault::ClusterDown
                | Fault::NodeClockSkew
        );
        let possible = (!cluster || config.shards > 1)
            && (fault != Fault::ScannerOverlap || config.engines > 1);
        if !dropped && possible && !kinds.iter().any(|(known, _)| *known == fault) {
            kinds.push((fault, stream.within(Span { from: 1, to: 100 })));
        }
    }
    // Whether others keep their cadence beside a slow shard shows only where nothing else is wrong.
    let slow = |(fault, weight): &(Fault, u64)| *fault == Fault::SlowPartition && *weight > 50;
    if config.shards > 1 && kinds.iter().any(slow) {
        kinds.retain(|(fault, _)| fault.burdens());
    }
    kinds
}

/// When it gets bad: one to three times, with quiet between.
fn bursts(stream: &mut Stream, config: &Config) -> Vec<u64> {
    let count = stream.within(Span { from: 1, to: 3 });
    (0..count).map(|_| stream.below(config.length.0 * 4 / 5)).collect()
}

fn rule(stream: &mut Stream, config: &Config, bursts: &[u64], fault: Fault) -> Rule {
    let by_call = match fault.strikes() {
        Strikes::Calls => true,
        Strikes::Times => false,
        Strikes::Both => stream.chance(Ratio { hits: 1, of: 2 }),
    };
    if by_call {
        return on_call(stream, config, fault);
    }
    let burst = stream.pick(bursts).copied().unwrap_or(0);
    let at_ms = (burst + stream.below(2_000)).min(config.length.0 - 1);
    let mut rule = Rule::at(fault, at_ms);
    rule.lasting_ms = fault.lasts().then(|| stream.within(Span { from: 300, to: 9_000 }));
    rule.amount = amount(stream, fault);
    rule.to = target(stream, config, fault);
    rule
}

fn on_call(stream: &mut Stream, config: &Config, fault: Fault) -> Rule {
    let group = stream.pick(places(fault)).copied().unwrap_or(ANY);
    let (verb, who) = stream.pick(group).copied().unwrap_or(("call", Who::Anybody));
    // There are many calls in a run, and of most kinds only a few.
    let often = if verb == "call" { 120 } else { 1 + stream.below(6) };
    let nth = u32::try_from(stream.within(Span { from: 1, to: often })).unwrap_or(1);
    let one_of = |stream: &mut Stream, most: u64| {
        u8::try_from(stream.within(Span { from: 1, to: most.max(1) })).unwrap_or(1)
    };
    let who = match who {
        Who::Anybody => [who, Who::Engine, Who::Worker, Who::Caller][stream.below(4) as usize],
        Who::Engine | Who::Worker | Who::Caller | Who::Signaller => who,
    };
    let by = match who {
        Who::Engine => Some(Actor::Engine(one_of(stream, config.engines))),
        Who::Worker => Some(Actor::Worker(one_of(stream, config.workers))),
        Who::Caller => Some(Actor::Caller(one_of(stream, 2))),
        Who::Signaller => Some(Actor::Signaller(1)),
        Who::Anybody => None,
    };
    // One of them in particular, or whichever comes first.
    let by = by.filter(|_| stream.chance(Ratio { hits: 1, of: 3 }));
    Rule { amount: amount(stream, fault), ..Rule::on(fault, nth, verb, by) }
}

/// Which calls a fault is armed for, in groups that are equally likely.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others strike any call of anybody")]
const fn places(fault: Fault) -> &'static [&'static [Place]] {
    match fault {
        Fault::CrashBeforeSend | Fault::CrashAfterApply => &[ENGINES_ANY, ACTS, ACTS],
        Fault::CrashBetweenSaddAndDrain => {
            &[&[("drain", Who::Engine), ("cancel_execution", Who::Engine)]]
        }
        Fault::CrashMidFanOut => &[&[
            ("resolve_outgoing", Who::Engine),
            ("purge_execution", Who::Engine),
            ("submit_flow", Who::Caller),
        ]],
        Fault::CrashBetweenStageAndApply => &[&[("apply_dependency_to_child", Who::Caller)]],
        Fault::PartialPipeline | Fault::ReplyForOldTicket | Fault::ReorderBetweenTickets => {
            &[ENGINES_ANY]
        }
        Fault::StaleReplicaRead => &[
            ENGINES_ANY,
            &[("scan_partition", Who::Engine), ("HMGET", Who::Engine), ("HGET", Who::Engine)],
        ],
        Fault::StalePreRead => &[ACTS],
        Fault::EpochRepeats | Fault::WorkerZombie | Fault::ClaimReplyLost => {
            &[&[("claim_next", Who::Worker)]]
        }
        Fault::WorkerDoubleReport => &[REPORTS],
        Fault::CancelRace | Fault::ReplayRace => &[
            ACTS,
            REPORTS,
            &[
                ("claim_next", Who::Worker),
                ("renew_lease", Who::Worker),
                ("deliver_signal", Who::Signaller),
            ],
        ],
        _ => &[ANY, ACTS, WORK, REPORTS, WISHES],
    }
}

const ANY: &[Place] = &[("call", Who::Anybody)];
const ENGINES_ANY: &[Place] = &[("call", Who::Engine)];

/// What engines do.
const ACTS: &[Place] = &[
    ("resolve_outgoing", Who::Engine),
    ("cancel_execution", Who::Engine),
    ("drain", Who::Engine),
    ("reconcile_sibling_cancel_group", Who::Engine),
    ("requeue_lost_lease", Who::Engine),
    ("mark_lease_expired_if_due", Who::Engine),
    ("promote_delayed", Who::Engine),
    ("expire_if_due", Who::Engine),
    ("expire_suspension", Who::Engine),
    ("ack_cancel_member", Who::Engine),
    ("purge_execution", Who::Engine),
    ("project_flow", Who::Engine),
    ("unblock_execution", Who::Engine),
];

/// What workers do on the way.
const WORK: &[Place] = &[
    ("claim_next", Who::Worker),
    ("renew_lease", Who::Worker),
    ("check_admission_and_record", Who::Worker),
    ("release_admission", Who::Worker),
];

/// How they end it.
const REPORTS: &[Place] = &[
    ("complete_execution", Who::Worker),
    ("fail_execution", Who::Worker),
    ("suspend_execution", Who::Worker),
];

/// What callers and signal senders do.
const WISHES: &[Place] = &[
    ("submit_flow", Who::Caller),
    ("create_execution", Who::Caller),
    ("cancel_execution", Who::Caller),
    ("cancel_flow", Who::Caller),
    ("replay_execution", Who::Caller),
    ("apply_dependency_to_child", Who::Caller),
    ("deliver_signal", Who::Signaller),
];

/// How much of it, where that is worth drawing.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others take no number, or none is drawn")]
fn amount(stream: &mut Stream, fault: Fault) -> Option<i64> {
    let within = |stream: &mut Stream, from: u64, to: u64| {
        Some(stream.within(Span { from, to }).cast_signed())
    };
    // A clock that is not off at all is no fault.
    let off = |ms: i64| if ms == 0 { 1 } else { ms };
    match fault {
        Fault::DuplicateDelivery | Fault::ReplyForOldTicket => within(stream, 1, 20_000),
        Fault::LateApply => within(stream, 300, 25_000),
        Fault::ReorderBetweenTickets => within(stream, 5, 2_000),
        // Of a world that lost much, little can be judged in the end.
        Fault::FailoverLosesSuffix => within(stream, 1, 8),
        // A node that comes back empty is rare for the same reason.
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
        _ => None,
    }
}

fn target(stream: &mut Stream, config: &Config, fault: Fault) -> Option<Actor> {
    if fault != Fault::OneWayCut {
        return None;
    }
    let engine = u8::try_from(stream.within(Span { from: 1, to: config.engines })).unwrap_or(1);
    let worker = u8::try_from(stream.within(Span { from: 1, to: config.workers })).unwrap_or(1);
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
    matches!(fault, Fault::Eviction | Fault::OperatorEdit | Fault::WrongType | Fault::ForeignKey)
}

const fn is_large(fault: Fault) -> bool {
    matches!(fault, Fault::TimerStorm | Fault::PoisonHead | Fault::OversizeGroup)
}
