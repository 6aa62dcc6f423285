//! `cargo sim bench`: how fast seeds run, and where the time goes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use selvedge_sim::profile::{Part, TimeSpent};
use selvedge_sim::runner::{Outcome, RunOptions, run as simulate};

use super::out::out;
use super::{CliError, Seeds};

/// Which seeds.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
}

/// Real time. The simulator uses it nowhere else.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// CPU time of this thread in nanoseconds, or real time where the system does not report it.
fn core_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    told.unwrap_or_else(real_ns)
}

/// Real time in nanoseconds since the first call.
fn real_ns() -> u64 {
    thread_local!(static FIRST: Stopwatch = Stopwatch::start());
    FIRST.with(|first| u64::try_from(first.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn run(options: &Options) -> Result<(), CliError> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(options)?);
    }
    rounds.sort_by_key(|runs| runs.iter().map(|run| run.core_ns).sum::<u64>());
    if let [fastest, .., slowest] = &rounds[..] {
        show(fastest, slowest);
    }
    Ok(())
}

/// Runs every seed once.
fn round(options: &Options) -> Result<Vec<Measured>, CliError> {
    let seeds = options.seeds.seeds.max(SEEDS_MIN);
    let mut runs = Vec::new();
    for step in 0..seeds {
        let plan = options.seeds.mode().plan(options.seeds.seed.plus(step));
        let (began, clock) = (core_ns(), Some(real_ns as fn() -> u64));
        let run_options = RunOptions { clock, ..RunOptions::default() };
        let outcome = simulate(&plan, &run_options).map_err(CliError::Cannot)?;
        runs.push(Measured::new(&outcome, core_ns() - began));
    }
    Ok(runs)
}

/// The measurements of one run.
struct Measured {
    core_ns: u64,
    calls: u64,
    elapsed_ms: u64,
    spent: TimeSpent,
}

impl Measured {
    fn new(outcome: &Outcome, core_ns: u64) -> Self {
        let (calls, elapsed_ms) = (outcome.counters.calls, outcome.elapsed_ms);
        Self { core_ns: core_ns.max(1), calls, elapsed_ms, spent: outcome.spent.clone() }
    }

    fn simulated_per_second(&self) -> u64 {
        per_second(self.elapsed_ms, self.core_ns) / 1_000
    }
}

/// Prints the figures of the fastest round, since other load only slows it down, and the time of
/// the slowest.
fn show(runs: &[Measured], slowest: &[Measured]) {
    let sum = |figure: fn(&Measured) -> u64| runs.iter().map(figure).sum::<u64>();
    let (core_ns, calls) = (sum(|run| run.core_ns), sum(|run| run.calls));
    let calls_a_second = per_second(calls, core_ns);
    let seeds = runs.len() as u64;
    out!(
        "one core, {seeds} seeds: {:.1} s of CPU time in the fastest of {ROUNDS} rounds, {:.1} s in the \
         slowest",
        core_ns as f64 / 1e9,
        slowest.iter().map(|run| run.core_ns).sum::<u64>() as f64 / 1e9
    );
    out!("{:>10.1} seeds per second", seeds as f64 * 1e9 / core_ns as f64);
    out!(
        "{:>10} store calls per seed, median {}",
        calls / seeds,
        median(runs.iter().map(|run| run.calls))
    );
    out!("{calls_a_second:>10} store calls per second");
    out!("{:>10.1} seeds per second at 1,000 store calls each", calls_a_second as f64 / 1e3);
    out!(
        "{:>10} simulated seconds per second, median {}",
        per_second(sum(|run| run.elapsed_ms), core_ns) / 1_000,
        median(runs.iter().map(Measured::simulated_per_second))
    );
    out!("time by part");
    let spent = |part: Part| runs.iter().map(|run| run.spent.parts[part as usize]).sum::<u64>();
    let all: u64 = Part::ALL.iter().map(|(part, _)| spent(*part)).sum();
    for (part, name) in Part::ALL {
        out!("{:>9}% {name}", spent(part) * 100 / all.max(1));
    }
    show_calls(runs, all);
}

/// Prints the calls that take most of the time.
fn show_calls(runs: &[Measured], all: u64) {
    let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, (calls, ns)) in runs.iter().flat_map(|run| &run.spent.calls) {
        let (all_calls, all_ns) = by_name.entry(name).or_default();
        *all_calls += calls;
        *all_ns += ns;
    }
    let mut costly: Vec<_> = by_name.into_iter().collect();
    costly.sort_unstable_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
    out!("calls by time");
    for (name, (calls, ns)) in costly.into_iter().take(CALLS_SHOWN) {
        let micros = ns as f64 / 1e3 / calls.max(1) as f64;
        out!("{:>9}% {name}: {calls} of {micros:.0} us", ns * 100 / all.max(1));
    }
}

fn per_second(count: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(count) * 1_000_000_000 / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

fn median(figures: impl Iterator<Item = u64>) -> u64 {
    let mut figures: Vec<u64> = figures.collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or(0)
}

/// The remaining calls take very little time.
const CALLS_SHOWN: usize = 12;

/// How often every seed is run.
const ROUNDS: usize = 5;

/// Fewer seeds are not representative.
const SEEDS_MIN: u64 = 20;
