//! `cargo sim soak`: runs many seeds on all cores.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use selvedge_sim::failure::{Class, Failure};
use selvedge_sim::mark;
use selvedge_sim::plan::{Mode, Seed};
use selvedge_sim::runner::RunOptions;
use selvedge_sim::soak::{SoakReport, soak};

use super::bench::Stopwatch;
use super::out::{err, out};
use super::run::report_failure;
use super::{CliError, Failures, Seeds, progress};

/// Which seeds, and how to run them.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
    /// Number of threads; the number of cores by default. It does not change the result.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print how often each fault was injected and each mark was hit.
    #[arg(long)]
    counts: bool,
    /// Do not shrink and save failures.
    #[arg(long)]
    brief: bool,
    #[command(flatten)]
    failures: Failures,
}

pub(crate) fn run(options: &Options) -> Result<(), CliError> {
    let watch = Stopwatch::start();
    let seeds = &options.seeds;
    let shown = |report: &SoakReport| {
        let line = format!(
            "{} of {} seeds, {} failed{}, {} excused, {} s",
            report.seeds,
            seeds.seeds,
            report.failed.len(),
            first_of(&report.failed),
            report.excused.len(),
            watch.elapsed().as_secs()
        );
        progress::step(report.seeds, seeds.seeds, &line);
    };
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = options.jobs.unwrap_or_else(cores).get();
    let options_of_run = RunOptions::default();
    let done = soak(seeds.mode(), seeds.seed, seeds.seeds, jobs, &options_of_run, shown);
    progress::done();
    summary(&done, watch.elapsed());
    if options.counts {
        counts(&done);
    }
    judge(&done, options)
}

/// The first seeds that failed, in parentheses.
fn first_of(failed: &BTreeMap<Seed, Failure>) -> String {
    let first: Vec<String> = failed.keys().take(FAILURES_TOLD).map(Seed::to_string).collect();
    if first.is_empty() { String::new() } else { format!(" ({})", first.join(" ")) }
}

fn summary(done: &SoakReport, took: Duration) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    out!(
        "{} seeds in {}.{}s: {} calls, {} simulated seconds per second, {} seeds per second",
        done.seeds,
        ms / 1_000,
        ms % 1_000 / 100,
        done.calls,
        done.elapsed_ms / ms,
        done.seeds * 1_000 / ms,
    );
    out!(
        "{} failed, {} excused, {} faults of {} kinds, {} of {} marks hit",
        done.failed.len(),
        done.excused.len(),
        done.faults.values().sum::<u64>(),
        done.faults.len(),
        done.marks.len(),
        mark::MARKS.len(),
    );
    for (seed, proof) in &done.excused {
        out!("excused: seed {seed}: {proof}");
    }
}

fn counts(done: &SoakReport) {
    for (fault, count) in &done.faults {
        out!("{count:>9}  {fault}");
    }
    for (mark, count) in &done.marks {
        out!("{count:>9}  {mark}");
    }
}

/// Prints all failures and returns the worst: a panic, then nondeterminism, correctness, liveness,
/// coverage.
fn judge(done: &SoakReport, options: &Options) -> Result<(), CliError> {
    let mode = options.seeds.mode();
    for (seed, words) in &done.panicked {
        err!("FAIL  seed {seed} panicked: {words};  {} --plan-too", mode.replay(*seed));
    }
    let mut worst = done.failed.values().map(|failure| failure.class).max();
    if let Some(seed) = done.nondeterministic.first() {
        let flag = mode.flag();
        err!("FAIL  seed {seed}: two runs differ;  cargo sim double --seed {seed}{flag}");
        worst = Some(Class::Nondeterminism);
    }
    for (seed, failure) in &done.failed {
        let (class, oracle, subject) = (failure.class, &failure.oracle, &failure.subject);
        err!("failed: seed {seed} ({class}) {oracle} {subject}: {}", failure.what);
    }
    let told = if options.brief { 0 } else { FAILURES_TOLD };
    for (seed, failure) in done.failed.iter().take(told) {
        worst = worst.max(Some(report_failure(
            *seed,
            mode,
            &mode.plan(*seed),
            failure,
            &options.failures,
        )));
    }
    if !done.panicked.is_empty() {
        return Err(CliError::Panicked(format!("{} seeds panicked", done.panicked.len())));
    }
    if let Some((seed, why)) = done.broken.first_key_value() {
        return Err(CliError::Cannot(format!("seed {seed} cannot be run: {why}")));
    }
    if let Some(class) = worst {
        return Err(CliError::Failed(class));
    }
    // Lite plans have few kinds of faults and reach few marks.
    let (faults, marks) = match mode {
        Mode::Swarm => (done.missing_faults(), mark::missed(&done.marks)),
        Mode::Lite => (Vec::new(), Vec::new()),
    };
    if done.seeds < SEEDS_TO_COVER {
        out!("too few seeds to check coverage and excuses: run at least {SEEDS_TO_COVER}");
        return Ok(());
    }
    if !faults.is_empty() || !marks.is_empty() || done.excuses_too_much() {
        err!("FAIL  never injected: {faults:?}\n      never hit: {marks:?}");
        err!("      excused: {} of {} seeds", done.excused.len(), done.seeds);
        return Err(CliError::Failed(Class::Coverage));
    }
    Ok(())
}

/// How many failures are shrunk and saved.
const FAILURES_TOLD: usize = 5;
/// With fewer seeds, some faults and marks are missed by chance.
const SEEDS_TO_COVER: u64 = 1_000;
