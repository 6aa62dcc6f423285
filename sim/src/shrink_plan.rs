//! Shrinks a failing plan: removes lines and shortens times as long as the same oracle fails.
//!
//! Every line of a plan can be removed on its own. Lines are removed in halves, then in smaller
//! groups, then singly; the whole is repeated until nothing changes, since one line may have been
//! needed only for another.

use crate::failure::Failure;
use crate::plan::Plan;
use crate::runner::{RunOptions, run};
use crate::search::{Tried, Tries, shrink_list, shrink_value};

/// A shrunk plan.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan that still fails in the same way.
    pub plan: Plan,
    /// How often a plan was run to find it.
    pub runs: usize,
}

/// Shrinks a plan that fails, with at most `runs_max` runs.
#[must_use]
pub fn shrink_plan(
    plan: &Plan,
    failure: &Failure,
    options: &RunOptions,
    runs_max: usize,
) -> Shrunk {
    let mut tries = Tries::at_most(runs_max);
    let fails = |lines: &[String]| {
        let Ok(plan) = Plan::parse(&lines.join("\n")) else { return Tried::Invalid };
        // A plan that cannot be run is not a smaller form of this failure.
        let Ok(outcome) = run(&plan, options) else { return Tried::Passes };
        Failure::of(&outcome).is_some_and(|found| found.is_like(failure)).into()
    };
    let mut lines: Vec<String> = plan.to_string().lines().map(str::to_owned).collect();
    loop {
        let before = lines.clone();
        // Faults first: they are most of the lines.
        for kind in ["fault ", "at ", "task "] {
            lines = shrink_list(&lines, |line| line.starts_with(kind), &mut tries, fails);
        }
        let halve = |(): &(), lines: &mut Vec<String>| halve_length(lines);
        lines = shrink_value(lines, |_| vec![()], halve, &mut tries, |lines| fails(lines));
        lines = shrink_list(&lines, |_| true, &mut tries, fails);
        if lines == before {
            break;
        }
    }
    let shrunk = Plan::parse(&lines.join("\n")).unwrap_or_else(|_| plan.clone());
    Shrunk { plan: shrunk, runs: tries.used() }
}

/// Halves the length of the run, unless it would become zero.
fn halve_length(lines: &mut Vec<String>) {
    let Ok(mut plan) = Plan::parse(&lines.join("\n")) else { return };
    plan.config.length.0 /= 2;
    if plan.config.length.0 > 0 {
        *lines = plan.to_string().lines().map(str::to_owned).collect();
    }
}
