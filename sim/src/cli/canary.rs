//! `cargo sim canary`: every planted bug must be caught.

use selvedge_sim::canary::{self, CANARIES, Canary, Caught};
use selvedge_sim::failure::{Class, Failure};
use selvedge_sim::plan::hint;
use selvedge_sim::runner::{RunOptions, run as run_plan};
use selvedge_sim::shrink_plan::shrink_plan;

use super::out::out;
use super::{CliError, progress};

/// Which planted bugs, and how many seeds.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only the planted bug of this name.
    name: Option<String>,
    /// Seeds to try for a bug without a story.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Do not shrink the plans.
    #[arg(long)]
    as_found: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), CliError> {
    let wanted = |canary: &&Canary| options.name.as_ref().is_none_or(|name| canary.name == name);
    let canaries: Vec<&Canary> = CANARIES.iter().filter(wanted).collect();
    if canaries.is_empty() {
        let name = options.name.as_deref().unwrap_or_default();
        let hint = hint(name, CANARIES.iter().map(|canary| canary.name));
        return Err(CliError::Usage(format!("there is no planted bug `{name}`{hint}")));
    }
    out!("{:<44} {:<22} {:>6} {:>6}", "planted bug", "oracle", "seeds", "lines");
    let (mut missed, mut sizes) = (0, Vec::new());
    for canary in canaries {
        progress::show(canary.name);
        let caught = canary::hunt(canary, options.seeds);
        progress::done();
        let (name, oracle) = (canary.name, canary.oracle);
        match caught {
            Ok(caught) => {
                let by =
                    caught.seed.map_or_else(|| "story".to_owned(), |_| caught.tries.to_string());
                let lines =
                    if options.as_found { caught.plan.lines() } else { shrunk(canary, &caught) };
                sizes.push(lines);
                out!("{name:<44} {oracle:<22} {by:>6} {lines:>6}");
            }
            Err(why) => {
                missed += 1;
                out!("{name:<44} {oracle:<22} MISSED: {why}");
            }
        }
    }
    sizes.sort_unstable();
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    out!("{} found, {missed} missed, median {median} plan lines", sizes.len());
    let too_large = median > LINES_MAX && !options.as_found;
    if missed > 0 || too_large { Err(CliError::Failed(Class::Coverage)) } else { Ok(()) }
}

/// The number of lines of the shrunk plan.
fn shrunk(canary: &Canary, caught: &Caught) -> usize {
    let options =
        RunOptions { bug: Some(canary.bug), only: Some(canary.oracle), ..RunOptions::default() };
    let Some(failure) = run_plan(&caught.plan, &options).ok().and_then(|done| Failure::of(&done))
    else {
        return caught.plan.lines();
    };
    shrink_plan(&caught.plan, &failure, &options, SHRINK_RUNS).plan.lines()
}

/// A longer plan, in the median, is hard to read.
const LINES_MAX: usize = 10;
/// The most runs for shrinking one plan.
const SHRINK_RUNS: usize = 300;
