//! One plan, one run, one verdict. The same plan gives the same run, byte for byte.

use std::collections::BTreeMap;

use selvedge_lua::library;

use crate::canary::{self, Plant};
use crate::event::Phase;
use crate::mark::Marks;
use crate::meter::{Clock, Meter, Part, Spent};
use crate::oracle::{Bench, Class, Rest, Violation, class_of};
use crate::plan::Plan;
use crate::trace::Trace;
use crate::world::stream::Draws;
use crate::world::{Counters, World};

/// How a plan is to be run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// A bug to plant.
    pub plant: Option<Plant>,
    /// The only oracle that is heard; all of them unless said.
    pub only: Option<&'static str>,
    /// How many of the last events are kept; a few hundred unless said.
    pub keep_events: Option<usize>,
    /// Measures where the time goes, by this clock.
    pub clock: Option<Clock>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything held.
    Passed,
    /// Everything held but for what lost commits or damaged keys explain.
    Excused,
    /// Something that must always hold did not.
    Incorrect,
    /// Something did not come to rest.
    Stuck,
}

/// What a run came to, and how it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// What was found, excused or not.
    pub violations: Vec<Violation>,
    /// What had not come to rest.
    pub pending: Vec<String>,
    /// Who waits for a signal that nobody sends: that is rest, and worth a word.
    pub unsignalled: Vec<String>,
    /// Who waits for a worker where the plan has none: likewise.
    pub unserved: Vec<String>,
    /// What the plan calls the executions and flows, by their ids.
    pub names: BTreeMap<String, String>,
    /// The faults of the plan that never came about, by their places in it.
    pub unstruck: Vec<usize>,
    /// The trace.
    pub trace: Trace,
    /// What was counted.
    pub counters: Counters,
    /// Marks that were hit.
    pub marks: Marks,
    /// How often each purpose drew.
    pub draws: Draws,
    /// A digest over what the primaries held in the end.
    pub digest: u64,
    /// How much virtual time passed.
    pub elapsed_ms: u64,
    /// Where the time went, if it was measured.
    pub spent: Spent,
}

/// Runs a plan.
///
/// # Errors
/// When the plan cannot be run at all: the library does not load, a planted bug does not apply.
pub fn run(plan: &Plan, options: &RunOptions) -> Result<Outcome, String> {
    let meter = Meter::start(options.clock);
    let library = canary::planted(library::SOURCE, options.plant)?;
    let mut world = World::new(plan, &library, Bench::new(options.only), options.plant)?;
    if let Some(count) = options.keep_events {
        world.keep_events(count);
    }
    world.meter = meter;
    world.meter.turn_to(Part::World);
    let end = plan.config.length.0;
    run_until(&mut world, end);
    world.enter(Phase::Settle);
    world.settle_down();
    world.enter(Phase::Liveness);
    // What was asked to begin later has its whole time as well.
    let calm = end.max(plan.last_due_ms());
    let patient = calm + plan.config.settle_ms();
    let pending = come_to_rest(&mut world, patient, calm + plan.config.bound.0);
    if !pending.is_empty() && unexcused(&world) == 0 {
        world.rest(Rest::Overdue);
    } else if unexcused(&world) == 0 {
        world.enter(Phase::Rest);
        let backlog_ms = plan.config.dispatch_ms(&world.servers.audited);
        let end = world.now_ms + backlog_ms + 2 * plan.config.cycle_ms();
        run_until(&mut world, end);
        // Books that were closed at rest may have left a note of late, which has its time too.
        if unexcused(&world) == 0 {
            let now = world.now_ms;
            come_to_rest(&mut world, now, now + plan.config.bound.0);
        }
        if unexcused(&world) == 0 {
            world.rest(Rest::Reached);
        }
    }
    Ok(outcome(world, pending))
}

/// Runs until this time, or until something is found that nothing excuses.
fn run_until(world: &mut World, end_ms: u64) {
    while unexcused(world) == 0 && world.step(end_ms) {}
}

/// Runs until nothing is pending, or the bound; answers what is. What damage explains may still be
/// done in its time, and is waited for that long: whoever is left by then stays for good.
fn come_to_rest(world: &mut World, patient_ms: u64, end_ms: u64) -> Vec<String> {
    loop {
        let over = world.now_ms >= end_ms || unexcused(world) > 0;
        if over || !world.has_straggler() {
            let pending = world.pending(over || world.now_ms >= patient_ms, end_ms);
            if over || pending.is_empty() {
                return pending;
            }
        }
        let next = (world.now_ms + LOOK_EVERY_MS).min(end_ms);
        run_until(world, next);
    }
}

fn unexcused(world: &World) -> usize {
    world.violations().iter().filter(|found| found.excuse.is_none()).count()
}

fn outcome(mut world: World, pending: Vec<String>) -> Outcome {
    let violations = world.violations().to_vec();
    let real = || violations.iter().filter(|found| found.excuse.is_none());
    let verdict = if real().any(|found| class_of(found.oracle) == Class::Safety) {
        Verdict::Incorrect
    } else if real().next().is_some() || !pending.is_empty() {
        Verdict::Stuck
    } else if violations.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Excused
    };
    world.meter.turn_to(Part::Setup);
    let mut outcome = Outcome {
        verdict,
        violations,
        pending,
        unsignalled: world.unsignalled(),
        unserved: world.unserved(),
        names: world.names.by_id(),
        unstruck: world.unstruck(),
        digest: world.servers.digest(world.now_ms),
        elapsed_ms: world.now_ms,
        draws: world.streams.draws(),
        marks: world.marks().clone(),
        trace: std::mem::replace(&mut world.trace, Trace::new(0)),
        counters: world.counters.clone(),
        spent: Spent::default(),
    };
    world.servers.retire();
    outcome.spent = world.meter.spent();
    outcome
}

/// How often the end is looked for.
const LOOK_EVERY_MS: u64 = 1_000;
