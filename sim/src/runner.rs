//! Runs a plan. The same plan always gives the same run, byte for byte.

use std::collections::BTreeMap;

use selvedge_lua::library;

use crate::canary::{self, PlantedBug};
use crate::event::Phase;
use crate::mark::Marks;
use crate::oracle::{Class, OracleSet, RunEnd, Violation, class_of};
use crate::plan::Plan;
use crate::profile::{Clock, Part, Profiler, TimeSpent};
use crate::trace::Trace;
use crate::world::random_streams::DrawCounts;
use crate::world::{Counters, World};

/// How to run a plan.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// A bug to plant.
    pub bug: Option<PlantedBug>,
    /// Check with this oracle only; with all of them if not set.
    pub only: Option<&'static str>,
    /// How many of the last events to keep; a few hundred if not set.
    pub keep_events: Option<usize>,
    /// Measure with this clock where the time goes.
    pub clock: Option<Clock>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunResult {
    /// No oracle found anything.
    Passed,
    /// All findings are explained by lost commits or damaged keys.
    Excused,
    /// A safety oracle found a violation.
    Incorrect,
    /// Something did not come to rest in time.
    Stuck,
}

/// The result of a run and everything recorded about it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result.
    pub result: RunResult,
    /// Everything that oracles found, excused or not.
    pub violations: Vec<Violation>,
    /// What had not come to rest at the end.
    pub pending: Vec<String>,
    /// Executions that wait for a signal which the plan never sends. That counts as rest.
    pub unsignalled: Vec<String>,
    /// Executions that wait for a worker in a plan without workers. That counts as rest too.
    pub unserved: Vec<String>,
    /// The names that the plan gives to executions and flows, by id.
    pub names: BTreeMap<String, String>,
    /// The faults of the plan that were never injected, by their position in the plan.
    pub unused_faults: Vec<usize>,
    /// The trace.
    pub trace: Trace,
    /// Counters.
    pub counters: Counters,
    /// Marks that were hit.
    pub marks: Marks,
    /// How many random draws were made for each purpose.
    pub draws: DrawCounts,
    /// A digest of the final keyspace of all primaries.
    pub digest: u64,
    /// How much virtual time passed.
    pub elapsed_ms: u64,
    /// Where the time went, if it was measured.
    pub spent: TimeSpent,
}

/// Runs a plan.
///
/// # Errors
/// When the plan cannot be run at all: the library does not load, a planted bug does not apply.
pub fn run(plan: &Plan, options: &RunOptions) -> Result<Outcome, String> {
    let profiler = Profiler::start(options.clock);
    let library = canary::planted(library::SOURCE, options.bug)?;
    let mut world = World::new(plan, &library, OracleSet::new(options.only), options.bug)?;
    if let Some(count) = options.keep_events {
        world.keep_events(count);
    }
    world.profiler = profiler;
    world.profiler.enter(Part::World);
    let end = plan.config.length.0;
    run_until(&mut world, end);
    world.enter(Phase::Settle);
    world.end_all_faults();
    world.enter(Phase::Liveness);
    // Delayed work gets the full time from its due time on.
    let calm = end.max(plan.last_due_ms());
    let patient = calm + plan.config.settle_ms();
    let pending = come_to_rest(&mut world, patient, calm + plan.config.bound.0);
    if !pending.is_empty() && unexcused(&world) == 0 {
        world.judge_end(RunEnd::Overdue);
    } else if unexcused(&world) == 0 {
        world.enter(Phase::Rest);
        let backlog_ms = plan.config.dispatch_ms(&world.network.servers.audited);
        let end = world.now_ms + backlog_ms + 2 * plan.config.cycle_ms();
        run_until(&mut world, end);
        // Edges closed late may have left a group with siblings to cancel; that gets its time too.
        if unexcused(&world) == 0 {
            let now = world.now_ms;
            come_to_rest(&mut world, now, now + plan.config.bound.0);
        }
        if unexcused(&world) == 0 {
            world.judge_end(RunEnd::AtRest);
        }
    }
    Ok(outcome(world, pending))
}

/// Runs until this time, or until an oracle finds something that nothing excuses.
fn run_until(world: &mut World, end_ms: u64) {
    while unexcused(world) == 0 && world.step(end_ms) {}
}

/// Runs until nothing is pending, or until `end_ms`, and returns what is pending then. Work on
/// damaged records may still finish in time, so it is waited for until `patient_ms`.
fn come_to_rest(world: &mut World, patient_ms: u64, end_ms: u64) -> Vec<String> {
    loop {
        let over = world.now_ms >= end_ms || unexcused(world) > 0;
        if over || !world.has_straggler() {
            let pending = world.pending(over || world.now_ms >= patient_ms, end_ms);
            if over || pending.is_empty() {
                return pending;
            }
        }
        let next = (world.now_ms + CHECK_EVERY_MS).min(end_ms);
        run_until(world, next);
    }
}

fn unexcused(world: &World) -> usize {
    world.violations().iter().filter(|found| found.excuse.is_none()).count()
}

fn outcome(mut world: World, pending: Vec<String>) -> Outcome {
    let violations = world.violations().to_vec();
    let real = || violations.iter().filter(|found| found.excuse.is_none());
    let result = if real().any(|found| class_of(found.oracle) == Class::Safety) {
        RunResult::Incorrect
    } else if real().next().is_some() || !pending.is_empty() {
        RunResult::Stuck
    } else if violations.is_empty() {
        RunResult::Passed
    } else {
        RunResult::Excused
    };
    world.profiler.enter(Part::Setup);
    let mut outcome = Outcome {
        result,
        violations,
        pending,
        unsignalled: world.unsignalled(),
        unserved: world.unserved(),
        names: world.clients.names.by_id(),
        unused_faults: world.unused_faults(),
        digest: world.network.servers.digest(world.now_ms),
        elapsed_ms: world.now_ms,
        draws: world.streams.counts(),
        marks: world.marks().clone(),
        trace: std::mem::replace(&mut world.judges.trace, Trace::new(0)),
        counters: world.counters.clone(),
        spent: TimeSpent::default(),
    };
    world.network.servers.release_host();
    outcome.spent = world.profiler.spent();
    outcome
}

/// How often to check whether everything has come to rest.
const CHECK_EVERY_MS: u64 = 1_000;
