//! Generates the plan of a seed. A seed uses only a few kinds of faults and actions, since some
//! bugs need others to be absent. Settings are usual or extreme with equal probability.

mod faults;
mod workload;

use super::{Config, Habits, Ms, Plan, Seed, Span, Times, WorkerAction};
use crate::event::Actor;
use crate::search::{Draws, Ratio};
use crate::world::random_streams::{Purpose, RandomStreams};

/// The plan of a seed.
#[must_use]
pub fn plan_from_seed(seed: Seed) -> Plan {
    let mut streams = RandomStreams::new(seed);
    let config = config(seed, streams.of(Purpose::Topology, Actor::World));
    let (tasks, steps) = workload::draw(streams.of(Purpose::Workload, Actor::World), &config);
    let faults = faults::draw(streams.of(Purpose::Faults, Actor::World), &config);
    Plan { config, tasks, steps, faults }
}

/// The lite plan of a seed: small, and engines only crash.
#[must_use]
pub fn lite_plan_from_seed(seed: Seed) -> Plan {
    let mut streams = RandomStreams::new(seed);
    let topology = streams.of(Purpose::Topology, Actor::World);
    let config = Config {
        seed,
        engines: 1 + topology.below(3),
        workers: 1 + topology.below(2),
        length: Ms(15_000),
        ..Config::default()
    };
    let (tasks, steps) = workload::draw(streams.of(Purpose::Workload, Actor::World), &config);
    let faults = faults::draw_crashes(streams.of(Purpose::Faults, Actor::World), &config);
    Plan { config, tasks, steps, faults }
}

/// One of these values: with probability one half the first, which is the usual one.
fn knob<T: Copy>(stream: &mut Draws, values: &[T]) -> T {
    let hostile = stream.chance(Ratio { hits: 1, of: 2 });
    let at = if hostile { stream.below(values.len() as u64) } else { 0 };
    values[usize::try_from(at).unwrap_or(0)]
}

fn config(seed: Seed, stream: &mut Draws) -> Config {
    let slow_link = Times::new(20, 700);
    let links = [Times::new(1, 5), Times::new(0, 0), Times::new(1, 60), slow_link];
    let link = knob(stream, &links);
    // The ticket timeout must leave time for a reply.
    let tickets = [Ms(10_000), Ms(2_000), Ms(if link == slow_link { 1_700 } else { 200 })];
    let interval =
        knob(stream, &[Ms(0), Ms(250), Ms(700), Ms(3_000), Ms(15_000), Ms(60_000), Ms(HOUR_MS)]);
    // Without pushes, every link of a chain takes a scan. With an interval of an hour, workers need
    // not claim often.
    let bound = Ms(Config::default().bound.0 + LINKS_MAX * interval.0);
    let idle = if interval.0 < HOUR_MS {
        knob(stream, &[Times::new(300, 1_500), Times::new(50, 300)])
    } else {
        Times::new(20_000, 90_000)
    };
    let mut config = Config {
        seed,
        engines: knob(stream, &[2, 1, 3, 4, 5, 7]),
        shards: knob(stream, &[1, 2, 3]),
        workers: knob(stream, &[2, 1, 3, 5]),
        capacity: knob(stream, &[1, 2, 4, 16]),
        habits: habits(stream),
        signals: knob(stream, &[true, true, false]),
        tenants: knob(stream, &[1, 2]),
        flow_partitions: knob(stream, &[1, 2, 3, 7]),
        budget_partitions: knob(stream, &[1, 2]),
        quota_partitions: knob(stream, &[1, 2]),
        lanes: knob(stream, &[1, 2]),
        link,
        work: knob(stream, &[Times::new(10, 500), Times::new(0, 20), Times::new(200, 4_000)]),
        idle,
        lease: knob(stream, &[Ms(5_000), Ms(1_000), Ms(300), Ms(30_000)]),
        patience: knob(stream, &[Ms(3_000), Ms(2_000)]),
        ticket_timeout: knob(stream, &tickets),
        window: knob(stream, &[1_024, 1, 4]),
        window_per_slot: knob(stream, &[2, 1, 8]),
        dispatch_concurrency: knob(stream, &[64, 1]),
        dispatch_queue: knob(stream, &[10_000, 1, 3]),
        interval,
        sleep: knob(stream, &[Ms(30_000), Ms(7_000), Ms(0)]),
        bound,
        unruly_scans: knob(stream, &[false, true]),
        push: knob(stream, &[true, false]),
        permute: knob(stream, &[false, true]),
        permanent: knob(stream, &[false, true]),
        length: Ms(stream.within(Span { from: 8_000, to: longest_ms(interval.0) })),
        retry_for: knob(stream, &[Ms(15_000), Ms(1_000)]),
        keep: knob(stream, &[0, 0, 1, 4]),
        kinds: knob(stream, &[1, 2, 3]),
    };
    if !config.push && config.interval.0 == 0 {
        config.bound.0 += LINKS_MAX * RECONCILED_EVERY_MS;
    }
    // Workers claim from every partition and lane in turn, one round trip each.
    let asked = config.flow_partitions * config.lanes + REPORTS_PER_LINK;
    config.bound.0 += LINKS_MAX * asked * 2 * config.link.0.to;
    if config.window == 1 {
        config.bound.0 += LINKS_MAX * LONE_ROUND_TRIPS * 2 * config.link.0.to;
    }
    config
}

/// The longest run: shorter if scanners run often.
const fn longest_ms(interval_ms: u64) -> u64 {
    if interval_ms > 0 && interval_ms < 1_000 { 12_000 } else { 30_000 }
}

/// More than the longest chain of any seed.
const LINKS_MAX: u64 = 110;

/// The default interval at which engines look for completions without a push.
const RECONCILED_EVERY_MS: u64 = 15_000;

/// More round trips for each link of a chain: completion, push and dispatch.
const REPORTS_PER_LINK: u64 = 3;

/// Round trips in a row for each link of a chain, for an engine with one batch in flight.
const LONE_ROUND_TRIPS: u64 = 40;

/// With this interval nearly everything depends on pushes.
const HOUR_MS: u64 = 3_600_000;

/// What workers do: mostly complete.
fn habits(stream: &mut Draws) -> Habits {
    let mut habits = vec![(WorkerAction::Complete, 60)];
    for action in WorkerAction::ALL.iter().filter(|action| **action != WorkerAction::Complete) {
        if stream.chance(Ratio { hits: 1, of: 3 }) {
            habits.push((*action, stream.within(Span { from: 1, to: 25 })));
        }
    }
    Habits(habits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_generates_the_same_plan_and_it_parses() {
        for number in 0..300 {
            let plan = plan_from_seed(Seed::from(number));
            assert_eq!(plan, plan_from_seed(Seed::from(number)));
            let text = plan.to_string();
            assert_eq!(Plan::parse(&text).map_err(|error| error.to_string()), Ok(plan), "{text}");
        }
    }

    #[test]
    fn every_kind_of_fault_is_generated_by_some_seed() {
        let mut missing: Vec<_> = crate::fault::Fault::ALL.to_vec();
        for number in 0..2_000 {
            let plan = plan_from_seed(Seed::from(number));
            missing.retain(|fault| !plan.faults.iter().any(|rule| rule.fault == *fault));
        }
        assert_eq!(missing, []);
    }
}
