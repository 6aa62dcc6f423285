//! From a seed to a plan. Each seed switches on a few kinds of faults and operations only, since
//! everything at once hides bugs that need something to be absent; knobs are sane as often as they
//! are hostile.

mod faults;
mod workload;

use super::{Config, Doing, Habits, Ms, Plan, Seed, Span, Times};
use crate::event::Actor;
use crate::world::stream::{Purpose, Ratio, Stream, Streams};

/// The plan that a seed writes.
#[must_use]
pub fn plan_from_seed(seed: Seed) -> Plan {
    let mut streams = Streams::new(seed);
    let config = config(seed, streams.of(Purpose::Topology, Actor::World));
    let (tasks, steps) = workload::draw(streams.of(Purpose::Workload, Actor::World), &config);
    let faults = faults::draw(streams.of(Purpose::Faults, Actor::World), &config);
    Plan { config, tasks, steps, faults }
}

/// A small world in which engines only crash: for a quick look.
#[must_use]
pub fn lite_plan_from_seed(seed: Seed) -> Plan {
    let mut streams = Streams::new(seed);
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

/// One of these, the first of which is sane: half of the time it is that one.
fn knob<T: Copy>(stream: &mut Stream, values: &[T]) -> T {
    let hostile = stream.chance(Ratio { hits: 1, of: 2 });
    let at = if hostile { stream.below(values.len() as u64) } else { 0 };
    values[usize::try_from(at).unwrap_or(0)]
}

fn config(seed: Seed, stream: &mut Stream) -> Config {
    let slow_link = Times::new(20, 700);
    let links = [Times::new(1, 5), Times::new(0, 0), Times::new(1, 60), slow_link];
    let link = knob(stream, &links);
    // A ticket that expires before any answer can come would let nobody ever learn anything.
    let tickets = [Ms(10_000), Ms(2_000), Ms(if link == slow_link { 1_700 } else { 200 })];
    let interval =
        knob(stream, &[Ms(0), Ms(250), Ms(700), Ms(3_000), Ms(15_000), Ms(60_000), Ms(HOUR_MS)]);
    // Without pushes a chain takes a scan per link; and while engines scan once an hour, workers need
    // not ask all the time.
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
        bound,
        unruly_scans: knob(stream, &[false, true]),
        push: knob(stream, &[true, false]),
        permute: knob(stream, &[false, true]),
        permanent: knob(stream, &[false, true]),
        length: Ms(stream.within(Span { from: 8_000, to: longest_ms(interval.0) })),
    };
    if !config.push && config.interval.0 == 0 {
        config.bound.0 += LINKS_MAX * RECONCILED_EVERY_MS;
    }
    // Workers ask every partition and lane in turn, one round trip each, before they find a link.
    let asked = config.flow_partitions * config.lanes + REPORTS_PER_LINK;
    config.bound.0 += LINKS_MAX * asked * 2 * config.link.0.to;
    if config.window == 1 {
        config.bound.0 += LINKS_MAX * LONE_ROUND_TRIPS * 2 * config.link.0.to;
    }
    config
}

/// How long a run may be: who scans all the time gets on sooner.
const fn longest_ms(interval_ms: u64) -> u64 {
    if interval_ms > 0 && interval_ms < 1_000 { 12_000 } else { 30_000 }
}

/// Somewhat more than the longest chain of a seed has links.
const LINKS_MAX: u64 = 110;

/// How often engines look for what no push told them of, left to themselves.
const RECONCILED_EVERY_MS: u64 = 15_000;

/// Round trips of a link beside those: it is completed, its end is pushed and dispatched.
const REPORTS_PER_LINK: u64 = 3;

/// Round trips in a row that a link of a chain takes an engine with one batch in flight: all its
/// scanners take turns.
const LONE_ROUND_TRIPS: u64 = 40;

/// An interval at which pushes must do nearly everything.
const HOUR_MS: u64 = 3_600_000;

/// What workers do: they mostly complete, and do some other things.
fn habits(stream: &mut Stream) -> Habits {
    let mut habits = vec![(Doing::Complete, 60)];
    for doing in Doing::ALL.iter().filter(|doing| **doing != Doing::Complete) {
        if stream.chance(Ratio { hits: 1, of: 3 }) {
            habits.push((*doing, stream.within(Span { from: 1, to: 25 })));
        }
    }
    Habits(habits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_writes_the_same_plan_and_it_can_be_read_back() {
        for number in 0..300 {
            let plan = plan_from_seed(Seed::from(number));
            assert_eq!(plan, plan_from_seed(Seed::from(number)));
            let text = plan.to_string();
            assert_eq!(Plan::parse(&text).map_err(|error| error.to_string()), Ok(plan), "{text}");
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn_sooner_or_later() {
        let mut missing: Vec<_> = crate::fault::Fault::ALL.to_vec();
        for number in 0..2_000 {
            let plan = plan_from_seed(Seed::from(number));
            missing.retain(|fault| !plan.faults.iter().any(|rule| rule.fault == *fault));
        }
        assert_eq!(missing, []);
    }
}
