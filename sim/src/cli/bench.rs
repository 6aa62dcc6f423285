//! `cargo sim bench`: how fast seeds are run, and where the time goes.

use std::time::{Duration, Instant};

use selvedge_sim::runner::{RunOptions, run as simulate};

use super::{End, Seeds};

/// Which seeds.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
}

/// Real time: the only place where the simulator looks at it.
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

pub(crate) fn run(options: &Options) -> Result<(), End> {
    let seeds = options.seeds.seeds.max(SEEDS_MIN);
    let plans: Vec<_> =
        (0..seeds).map(|step| options.seeds.mode().plan(options.seeds.seed.plus(step))).collect();
    let judged = measure(&plans, &RunOptions::default())?;
    let unjudged = measure(&plans, &RunOptions { only: Some(NOBODY), ..RunOptions::default() })?;
    println!("one core, {seeds} seeds");
    println!("{:>10} seeds a second", rate(seeds, judged.took));
    println!("{:>10} store calls a seed", judged.calls / seeds);
    println!("{:>10} store calls a second", rate(judged.calls, judged.took));
    println!("{:>10} simulated seconds a second", rate(judged.elapsed_ms / 1_000, judged.took));
    let (all, bare) = (judged.took.as_millis(), unjudged.took.as_millis());
    let share = all.saturating_sub(bare) * 100 / all.max(1);
    println!(
        "{share:>9}% of the time goes to oracles and marks, the rest to Lua, engines and actors"
    );
    Ok(())
}

struct Measured {
    took: Duration,
    calls: u64,
    elapsed_ms: u64,
}

fn measure(plans: &[selvedge_sim::plan::Plan], options: &RunOptions) -> Result<Measured, End> {
    let watch = Stopwatch::start();
    let (mut calls, mut elapsed_ms) = (0, 0);
    for plan in plans {
        let outcome = simulate(plan, options).map_err(End::Cannot)?;
        calls += outcome.counters.calls;
        elapsed_ms += outcome.elapsed_ms;
    }
    Ok(Measured { took: watch.elapsed(), calls, elapsed_ms })
}

fn rate(count: u64, took: Duration) -> u64 {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    count * 1_000 / ms
}

/// No oracle has this name, so none is heard.
const NOBODY: &str = "nobody";
/// Fewer seeds say little.
const SEEDS_MIN: u64 = 20;
