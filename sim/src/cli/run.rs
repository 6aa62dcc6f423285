//! `cargo sim run`: runs seeds up to the first failure. Failures of all commands are reported here.

use selvedge_sim::failure::{Class, Failure};
use selvedge_sim::failure_store::Record;
use selvedge_sim::plan::{Mode, Plan, Seed};
use selvedge_sim::report::report;
use selvedge_sim::runner::{Outcome, RunOptions, run as simulate};
use selvedge_sim::shrink_plan::shrink_plan;
use selvedge_sim::{format, soak};

use super::out::{err, out};
use super::{CliError, Failures, Seeds};

/// Which seeds, and where failures are saved.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
    #[command(flatten)]
    failures: Failures,
}

pub(crate) fn run(options: &Options) -> Result<(), CliError> {
    for step in 0..options.seeds.seeds {
        let seed = options.seeds.seed.plus(step);
        let mode = options.seeds.mode();
        let plan = mode.plan(seed);
        let outcome = simulate(&plan, &RunOptions::default()).map_err(CliError::Cannot)?;
        out!("{}", line(&format!("seed {seed}"), &outcome));
        if let Some(failure) = Failure::of(&outcome) {
            return Err(CliError::Failed(report_failure(
                seed,
                mode,
                &plan,
                &failure,
                &options.failures,
            )));
        }
    }
    Ok(())
}

/// A run as one line.
pub(crate) fn line(name: &str, outcome: &Outcome) -> String {
    format!(
        "{name}: {:?} after {}.{}s, {} calls, {} engines died, {} faults, trace {:016x}{}{}",
        outcome.result,
        outcome.elapsed_ms / 1_000,
        outcome.elapsed_ms % 1_000 / 100,
        outcome.counters.calls,
        outcome.counters.engine_deaths,
        outcome.counters.faults.values().sum::<u64>(),
        outcome.trace.hash(),
        waiting(
            &outcome.unsignalled,
            ["a signal that is never sent", "signals that are never sent"]
        ),
        waiting(&outcome.unserved, ["a worker (workers 0)", "workers (workers 0)"]),
    )
}

/// The executions that still wait, or nothing if there are none; `for_what` in the singular and the
/// plural.
fn waiting(names: &[String], for_what: [&str; 2]) -> String {
    let some = names.iter().take(NAMES_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMES_TOLD { " and others" } else { "" };
    let [one, many] = for_what;
    match names.len() {
        0 => String::new(),
        1 => format!("; 1 still waits for {one}: {some}"),
        count => format!("; {count} still wait for {many}: {some}{more}"),
    }
}

/// Reports a failing seed, shrinks its plan and saves both. Returns the class of the failure, which
/// is nondeterminism if a second run differs.
pub(crate) fn report_failure(
    seed: Seed,
    mode: Mode,
    plan: &Plan,
    failure: &Failure,
    failures: &Failures,
) -> Class {
    let options = RunOptions { keep_events: Some(EVENTS_KEPT), ..RunOptions::default() };
    let (outcome, again) = match (simulate(plan, &options), simulate(plan, &options)) {
        (Ok(outcome), Ok(again)) => (outcome, again),
        (Err(why), _) | (_, Err(why)) => {
            err!("FAIL  {}   seed {seed}: cannot be run again: {why}", failure.oracle);
            return Class::Nondeterminism;
        }
    };
    let mut text = report(&format!("seed {seed}"), plan, &outcome, failure);
    let commit = commit();
    if let Some(commit) = &commit {
        text.push_str(&format!("  commit   {commit}\n"));
    }
    text.push_str(&format!("  replay   {}\n", mode.replay(seed)));
    let same = soak::is_same(&outcome, &again);
    let hash = outcome.trace.hash();
    let word = if same { "yes" } else { "NO" };
    text.push_str(&format!("  deterministic: {word} (2 runs, trace {hash:016x})"));
    err!("{text}");
    let shrunk = shrink_plan(plan, failure, &RunOptions::default(), SHRINK_RUNS);
    let trace: Vec<String> = outcome.trace.tail().map(format::line).collect();
    let kept = failures.store().keep(&Record {
        seed,
        mode,
        commit: commit.as_deref(),
        failure,
        plan,
        shrunk: &shrunk.plan,
        report: &text,
        trace: &trace.join("\n"),
    });
    let (from, to, runs) = (plan.lines(), shrunk.plan.lines(), shrunk.runs);
    let place = match kept {
        Ok(path) => format!("cargo sim replay {}", path.display()),
        Err(error) => {
            format!("NOT SAVED to {}: {error}\n{}", failures.failures.display(), shrunk.plan)
        }
    };
    err!("  shrunk   {from} -> {to} plan lines in {runs} runs:  {place}");
    if same { failure.class } else { Class::Nondeterminism }
}

/// The commit that is checked out, marked if files were edited.
fn commit() -> Option<String> {
    let words = ["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, edited"];
    let told = std::process::Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(told.stdout).ok().filter(|_| told.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Events of a failing run that are searched and saved.
const EVENTS_KEPT: usize = 20_000;
/// Only this many names are printed.
const NAMES_TOLD: usize = 3;
/// The most runs for shrinking.
const SHRINK_RUNS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_cannot_be_saved_keeps_its_class() {
        // Nothing can be written below a file.
        let file = std::env::current_exe().expect("this test");
        let failures = Failures { failures: file.join("failures") };
        let plan = Plan::parse(
            "task E1 does die die die\nlength 2s\nbound 5s\nat 1s caller-1 create E1\n",
        );
        let plan = plan.expect("a plan");
        let outcome = simulate(&plan, &RunOptions::default()).expect("it can be run");
        let failure = Failure::of(&outcome).expect("it is not done in time");
        assert_eq!(
            report_failure(7.into(), Mode::Swarm, &plan, &failure, &failures),
            Class::Liveness
        );
    }
}
