//! `cargo sim soak`

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use selvedge_sim::campaign::{Campaign, Mode, campaign};
use selvedge_sim::failure::{Class, Failure};
use selvedge_sim::mark;
use selvedge_sim::plan::Seed;
use selvedge_sim::runner::RunOptions;

use super::bench::Stopwatch;
use super::out::{err, out};
use super::run::tell;
use super::{End, Failures, Seeds, progress};

/// How much, and with how many threads.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
    /// Threads; as many as there are cores unless said. The result does not depend on it.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print how often each fault was injected and each mark was hit.
    #[arg(long)]
    counts: bool,
    /// Name failures without shrinking and keeping them.
    #[arg(long)]
    brief: bool,
    #[command(flatten)]
    failures: Failures,
}

pub(crate) fn run(options: &Options) -> Result<(), End> {
    let watch = Stopwatch::start();
    let seeds = &options.seeds;
    let shown = |campaign: &Campaign| {
        let line = format!(
            "{} of {} seeds, {} failed{}, {} excused, {} s",
            campaign.seeds,
            seeds.seeds,
            campaign.failed.len(),
            first_of(&campaign.failed),
            campaign.excused.len(),
            watch.elapsed().as_secs()
        );
        progress::step(campaign.seeds, seeds.seeds, &line);
    };
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = options.jobs.unwrap_or_else(cores).get();
    let options_of_run = RunOptions::default();
    let done = campaign(seeds.mode(), seeds.seed, seeds.seeds, jobs, &options_of_run, shown);
    progress::done();
    summary(&done, watch.elapsed());
    if options.counts {
        counts(&done);
    }
    judge(&done, options)
}

/// The first seeds that failed, in brackets: who watches can look at them at once.
fn first_of(failed: &BTreeMap<Seed, Failure>) -> String {
    let first: Vec<String> = failed.keys().take(FAILURES_TOLD).map(Seed::to_string).collect();
    if first.is_empty() { String::new() } else { format!(" ({})", first.join(" ")) }
}

fn summary(done: &Campaign, took: Duration) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    out!(
        "{} seeds in {}.{}s: {} calls, {} simulated seconds per second, {} seeds a second",
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

fn counts(done: &Campaign) {
    for (fault, count) in &done.faults {
        out!("{count:>9}  {fault}");
    }
    for (mark, count) in &done.marks {
        out!("{count:>9}  {mark}");
    }
}

/// What outranks what: panics, then nondeterminism, then correctness, then liveness, then coverage.
fn judge(done: &Campaign, options: &Options) -> Result<(), End> {
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
        worst = worst.max(Some(tell(*seed, mode, &mode.plan(*seed), failure, &options.failures)));
    }
    if !done.panicked.is_empty() {
        return Err(End::Panicked(format!("{} seeds panicked", done.panicked.len())));
    }
    if let Some((seed, why)) = done.broken.first_key_value() {
        return Err(End::Cannot(format!("seed {seed} cannot be run: {why}")));
    }
    if let Some(class) = worst {
        return Err(End::Failed(class));
    }
    // Small worlds know few faults, and reach few of the marks.
    let (faults, marks) = match mode {
        Mode::Swarm => (done.missing_faults(), mark::missed(&done.marks)),
        Mode::Lite => (Vec::new(), Vec::new()),
    };
    if done.seeds < SEEDS_TO_COVER {
        out!(
            "too few seeds to judge what was never seen, and how many are excused: \
             {SEEDS_TO_COVER} are enough"
        );
        return Ok(());
    }
    if !faults.is_empty() || !marks.is_empty() || done.excuses_too_much() {
        err!("FAIL  never injected: {faults:?}\n      never hit: {marks:?}");
        err!("      excused: {} of {} seeds", done.excused.len(), done.seeds);
        return Err(End::Failed(Class::Coverage));
    }
    Ok(())
}

/// Failures that are shrunk and told; the rest is only counted.
const FAILURES_TOLD: usize = 5;
/// Fewer seeds cannot be expected to see everything.
const SEEDS_TO_COVER: u64 = 1_000;
