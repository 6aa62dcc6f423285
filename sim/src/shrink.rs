//! Smaller plans that fail in the same way.
//!
//! A plan is lines, and every line can be left out. So shrinking leaves lines out, by halves and
//! then one by one, and keeps what still fails by the same oracle; then it shortens times. One line
//! may have been needed only for another: so it begins again until nothing changes any more.

use crate::failure::Failure;
use crate::plan::Plan;
use crate::runner::{RunOptions, run};

/// What shrinking came to.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan that still fails in the same way.
    pub plan: Plan,
    /// How often a plan was run.
    pub runs: usize,
}

/// Shrinks a plan that fails, with at most so many runs.
#[must_use]
pub fn shrink(plan: &Plan, failure: &Failure, options: &RunOptions, runs_max: usize) -> Shrunk {
    let mut runs = 0;
    let mut still_fails = |lines: &[String]| {
        let Ok(plan) = Plan::parse(&lines.join("\n")) else { return false };
        if runs >= runs_max {
            return false;
        }
        runs += 1;
        // A plan that cannot be run any more is no smaller form of this failure.
        let Ok(outcome) = run(&plan, options) else { return false };
        Failure::of(&outcome).is_some_and(|found| found.is_like(failure))
    };
    let mut lines: Vec<String> = plan.to_string().lines().map(str::to_owned).collect();
    loop {
        let before = lines.clone();
        // Faults first: they make most of a plan and hide the rest of it.
        for kind in ["fault ", "at ", "task "] {
            thin_out(&mut lines, |line| line.starts_with(kind), &mut still_fails);
        }
        shorten(&mut lines, &mut still_fails);
        thin_out(&mut lines, |_| true, &mut still_fails);
        if lines == before {
            break;
        }
    }
    let shrunk = Plan::parse(&lines.join("\n")).unwrap_or_else(|_| plan.clone());
    Shrunk { plan: shrunk, runs }
}

/// Leaves out items that may go: halves, quarters, and so on down to single ones.
fn thin_out<T: Clone>(
    items: &mut Vec<T>,
    may_go: impl Fn(&T) -> bool,
    still_fails: &mut impl FnMut(&[T]) -> bool,
) {
    let mut size = items.iter().filter(|item| may_go(item)).count().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        loop {
            let places: Vec<usize> = (0..items.len()).filter(|at| may_go(&items[*at])).collect();
            let chunk = places.get(from..places.len().min(from + size)).unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            let left: Vec<T> = (0..items.len())
                .filter(|at| !chunk.contains(at))
                .map(|at| items[at].clone())
                .collect();
            if still_fails(&left) {
                *items = left;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
}

/// Halves the length of the run as long as it still fails.
fn shorten(lines: &mut Vec<String>, still_fails: &mut impl FnMut(&[String]) -> bool) {
    for _ in 0..LENGTH_HALVINGS {
        let Ok(mut plan) = Plan::parse(&lines.join("\n")) else { return };
        plan.config.length.0 /= 2;
        let shorter: Vec<String> = plan.to_string().lines().map(str::to_owned).collect();
        if plan.config.length.0 == 0 || !still_fails(&shorter) {
            return;
        }
        *lines = shorter;
    }
}

const LENGTH_HALVINGS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_failure_needs_stays_and_all_else_goes() {
        let mut items: Vec<u32> = (0..40).collect();
        let mut tries = 0;
        thin_out(&mut items, |_| true, &mut |left: &[u32]| {
            tries += 1;
            left.contains(&7) && left.contains(&31)
        });
        assert_eq!(items, [7, 31]);
        assert!(tries < 60, "{tries} tries for two of forty");
    }

    #[test]
    fn only_what_may_go_is_left_out() {
        let mut items: Vec<u32> = (0..10).collect();
        thin_out(&mut items, |item| item % 2 == 0, &mut |_: &[u32]| true);
        assert_eq!(items, [1, 3, 5, 7, 9]);
    }
}
