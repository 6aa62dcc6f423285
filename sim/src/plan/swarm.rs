//! From a seed to a plan.

use super::{Config, Deed, FlowSpec, Group, Plan, Rule, Seed, Shape, Span, Step};
use crate::event::Actor;
use crate::fault::Fault;
use crate::world::stream::{Purpose, Stream, Streams};

/// Faults that tie to a call.
const CALL_FAULTS: [Fault; 5] = [
    Fault::CrashBeforeSend,
    Fault::CrashAfterApply,
    Fault::ReplyLost,
    Fault::RequestLost,
    Fault::LateApply,
];

/// The plan that a seed writes.
#[must_use]
pub fn plan_from_seed(seed: Seed) -> Plan {
    let mut streams = Streams::new(seed);
    let topology = streams.of(Purpose::Topology, Actor::World);
    let config = Config {
        seed,
        engines: topology.within(Span { from: 1, to: 3 }),
        workers: topology.within(Span { from: 1, to: 3 }),
        flow_partitions: topology.within(Span { from: 1, to: 3 }),
        ..Config::default()
    };
    let steps = steps(streams.of(Purpose::Workload, Actor::World));
    let faults = faults(streams.of(Purpose::Faults, Actor::World), &config);
    Plan { config, steps, faults }
}

fn steps(stream: &mut Stream) -> Vec<Step> {
    let flows = stream.within(Span { from: 1, to: 4 });
    (0..flows)
        .map(|number| {
            let size = usize::try_from(stream.within(Span { from: 1, to: 6 })).unwrap_or(1);
            let group = match stream.below(3) {
                0 => Group::All,
                1 => Group::AnyOf { cancel_remaining: true },
                _ => Group::Quorum { of: 1, cancel_remaining: false },
            };
            let shape = match stream.below(4) {
                0 => Shape::Chain(size),
                1 => Shape::FanIn(size, group),
                2 => Shape::FanOut(size),
                _ => Shape::Diamond(size, group),
            };
            let name = format!("F{number}");
            let flow = FlowSpec { name, partition: None, chunk: None, shape };
            let at_ms = stream.below(5_000);
            Step { at_ms, by: Actor::Caller(1), deed: Deed::Submit(flow) }
        })
        .collect()
}

fn faults(stream: &mut Stream, config: &Config) -> Vec<Rule> {
    (0..stream.below(6))
        .map(|_| {
            let fault = *stream.pick(&CALL_FAULTS).unwrap_or(&Fault::ReplyLost);
            let nth = u32::try_from(stream.within(Span { from: 1, to: 40 })).unwrap_or(1);
            let engine = u8::try_from(stream.within(Span { from: 1, to: config.engines }));
            Rule::on(fault, nth, "call", engine.ok().map(Actor::Engine))
        })
        .collect()
}
