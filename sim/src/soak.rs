//! Many seeds: which failed or were excused, and which faults and marks occurred.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::failure::Failure;
use crate::fault::{Fault, FaultCounts};
use crate::mark::Marks;
use crate::plan::{Mode, Seed};
use crate::runner::{Outcome, RunOptions, RunResult, run};
use crate::search::run_seeds;

/// The results of many seeds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SoakReport {
    /// How many seeds were run.
    pub seeds: u64,
    /// Seeds that failed.
    pub failed: BTreeMap<Seed, Failure>,
    /// Seeds with an excused violation, with the excuse.
    pub excused: BTreeMap<Seed, String>,
    /// Seeds whose plan cannot be run, with the reason.
    pub broken: BTreeMap<Seed, String>,
    /// Seeds that panicked, with the message.
    pub panicked: BTreeMap<Seed, String>,
    /// Seeds whose second run differed from the first.
    pub nondeterministic: BTreeSet<Seed>,
    /// Faults injected, by kind.
    pub faults: FaultCounts,
    /// How often each mark was hit.
    pub marks: Marks,
    /// Calls to the store.
    pub calls: u64,
    /// Virtual milliseconds.
    pub elapsed_ms: u64,
}

impl SoakReport {
    /// Kinds of faults that were never injected.
    #[must_use]
    pub fn missing_faults(&self) -> Vec<Fault> {
        let never = |fault: &&Fault| self.faults.get(fault).copied().unwrap_or(0) == 0;
        Fault::ALL.iter().filter(never).copied().collect()
    }

    /// Whether more than 2% of the seeds were excused: then the soak tests too little.
    #[must_use]
    pub fn excuses_too_much(&self) -> bool {
        self.excused.len() as u64 * 50 > self.seeds
    }

    fn add(&mut self, seed: Seed, ran: Result<Ran, String>) {
        self.seeds += 1;
        let (outcome, again) = match ran {
            Ok((Ok(outcome), again)) => (outcome, again),
            Ok((Err(why), _)) => return drop(self.broken.insert(seed, why)),
            Err(words) => return drop(self.panicked.insert(seed, words)),
        };
        if again == Some(false) {
            self.nondeterministic.insert(seed);
        }
        if outcome.result == RunResult::Excused {
            let excuses = outcome.violations.iter().filter_map(|found| {
                let (oracle, subject) = (found.oracle, &found.subject);
                found.excuse.as_ref().map(|excuse| format!("{oracle} {subject}: {excuse}"))
            });
            self.excused.insert(seed, excuses.take(1).collect());
        }
        if let Some(failure) = Failure::of(&outcome) {
            self.failed.insert(seed, failure);
        }
        for (fault, count) in &outcome.counters.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (mark, count) in outcome.marks {
            *self.marks.entry(mark).or_default() += count;
        }
        self.calls += outcome.counters.calls;
        self.elapsed_ms += outcome.elapsed_ms;
    }
}

/// Runs seeds on `jobs` threads, one in sixteen of them twice. `progress` is called after every
/// seed.
#[must_use]
pub fn soak(
    mode: Mode,
    first: Seed,
    seeds: u64,
    jobs: usize,
    options: &RunOptions,
    mut progress: impl FnMut(&SoakReport) + Send,
) -> SoakReport {
    let mut report = SoakReport::default();
    let run_one = |(): &mut (), at: u64| {
        let plan = mode.plan(first.plus(at));
        let outcome = run(&plan, options);
        let again = at.is_multiple_of(DOUBLED_ONE_IN).then(|| {
            let other = run(&plan, options);
            matches!((&outcome, &other), (Ok(one), Ok(two)) if is_same(one, two))
        });
        (outcome, again)
    };
    run_seeds(
        seeds,
        jobs,
        || (),
        run_one,
        |at, ran| {
            report.add(first.plus(at), ran);
            progress(&report);
            ControlFlow::Continue(())
        },
    );
    report
}

/// The outcome of a seed, and whether a second run was the same.
type Ran = (Result<Outcome, String>, Option<bool>);

/// Whether two runs agree in every event, every draw and the final keyspace.
#[must_use]
pub fn is_same(one: &Outcome, two: &Outcome) -> bool {
    (one.trace.hash(), one.digest, &one.draws) == (two.trace.hash(), two.digest, &two.draws)
}

/// One seed in this many is run twice.
const DOUBLED_ONE_IN: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_recorded_with_its_seed_and_message() {
        let mut report = SoakReport::default();
        report.add(7.into(), Err("at 3".to_owned()));
        report.add(9.into(), Err("just so".to_owned()));
        let panicked = [(7, "at 3"), (9, "just so")];
        let panicked = panicked.map(|(seed, words)| (Seed::from(seed), words.to_owned()));
        assert_eq!((report.seeds, report.panicked), (2, BTreeMap::from(panicked)));
    }
}
