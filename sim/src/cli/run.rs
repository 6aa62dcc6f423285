//! `cargo sim run`

use selvedge_sim::campaign::Mode;
use selvedge_sim::failure::Failure;
use selvedge_sim::plan::{Plan, Seed};
use selvedge_sim::report::report;
use selvedge_sim::runner::{Outcome, RunOptions, run as simulate};
use selvedge_sim::shelf::Record;
use selvedge_sim::shrink::shrink;
use selvedge_sim::{campaign, say};

use super::out::out;
use super::{End, Failures, Seeds, at};

/// Which seeds, and what becomes of a failure.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
    #[command(flatten)]
    failures: Failures,
}

pub(crate) fn run(options: &Options) -> Result<(), End> {
    for step in 0..options.seeds.seeds {
        let seed = options.seeds.seed.plus(step);
        let mode = options.seeds.mode();
        let plan = mode.plan(seed);
        let outcome = simulate(&plan, &RunOptions::default()).map_err(End::Cannot)?;
        out!("{}", line(&format!("seed {seed}"), &outcome));
        if let Some(failure) = Failure::of(&outcome) {
            tell(seed, mode, &plan, &failure, &options.failures)?;
            return Err(End::Failed(failure.class));
        }
    }
    Ok(())
}

/// One line about a run.
pub(crate) fn line(name: &str, outcome: &Outcome) -> String {
    format!(
        "{name}: {:?} after {}.{}s, {} calls, {} engines died, {} faults, trace {:016x}{}",
        outcome.verdict,
        outcome.elapsed_ms / 1_000,
        outcome.elapsed_ms % 1_000 / 100,
        outcome.counters.calls,
        outcome.counters.engine_deaths,
        outcome.counters.faults.values().sum::<u64>(),
        outcome.trace.hash(),
        unsignalled(&outcome.unsignalled),
    )
}

/// A word about those who wait for a signal that nobody sends, if there are any.
fn unsignalled(names: &[String]) -> String {
    let some = names.iter().take(NAMES_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMES_TOLD { " and others" } else { "" };
    match names.len() {
        0 => String::new(),
        1 => format!("; 1 still waits for a signal that nobody sends: {some}"),
        count => format!("; {count} still wait for signals that nobody sends: {some}{more}"),
    }
}

/// Reports a failing seed, shrinks its plan, and keeps both.
pub(crate) fn tell(
    seed: Seed,
    mode: Mode,
    plan: &Plan,
    failure: &Failure,
    failures: &Failures,
) -> Result<(), End> {
    let options = RunOptions { keep_events: Some(EVENTS_KEPT), ..RunOptions::default() };
    let outcome = simulate(plan, &options).map_err(End::Cannot)?;
    let again = simulate(plan, &options).map_err(End::Cannot)?;
    let mut text = report(&format!("seed {seed}"), plan, &outcome, failure);
    let commit = commit();
    if let Some(commit) = &commit {
        text.push_str(&format!("  commit   {commit}\n"));
    }
    text.push_str(&format!("  replay   {}\n", mode.replay(seed)));
    let shrunk = shrink(plan, failure, &RunOptions::default(), SHRINK_RUNS);
    let trace: Vec<String> = outcome.trace.tail().map(say::line).collect();
    let record = Record {
        seed,
        mode,
        commit: commit.as_deref(),
        failure,
        plan,
        shrunk: &shrunk.plan,
        report: &text,
        trace: &trace.join("\n"),
    };
    let kept = failures.shelf().keep(&record).map_err(at(&failures.failures))?;
    text.push_str(&format!(
        "  shrunk   {} -> {} plan lines in {} runs:  cargo sim replay {}\n",
        plan.lines(),
        shrunk.plan.lines(),
        shrunk.runs,
        kept.display()
    ));
    let same = campaign::is_same(&outcome, &again);
    let hash = outcome.trace.hash();
    let word = if same { "yes" } else { "NO" };
    text.push_str(&format!("  deterministic: {word} (2 runs, trace {hash:016x})"));
    eprintln!("{text}");
    if same { Ok(()) } else { Err(End::Failed(selvedge_sim::failure::Class::Nondeterminism)) }
}

/// The commit that is checked out here, with a word when more was changed since.
fn commit() -> Option<String> {
    let words = ["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, edited"];
    let told = std::process::Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(told.stdout).ok().filter(|_| told.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Events of a failing run that are looked through and kept.
const EVENTS_KEPT: usize = 20_000;
/// Of more names only the first are told.
const NAMES_TOLD: usize = 3;
/// Runs that shrinking may cost.
const SHRINK_RUNS: usize = 400;
