//! Runs many histories, each from its own seed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use selvedge_sim::search::{Draws, Tries, run_seeds, shrink_list, shrink_value};

use super::operation::history;
use super::state::Tally;
use super::{Failure, HistoryState, Operation, run, run_migrating};

/// Which histories to run.
#[derive(Clone, Debug)]
pub struct HistoryRun {
    /// The seed of the first; the others follow.
    pub seed: u64,
    /// How many.
    pub histories: u64,
    /// How many operations each has.
    pub length: usize,
    /// How many threads run them.
    pub jobs: usize,
    /// Whether slots move key by key meanwhile.
    pub migrating: bool,
}

impl HistoryRun {
    /// Runs them all, up to the first that fails.
    ///
    /// # Errors
    /// That history, shrunk, with its trace.
    pub fn run(&self, library: &str) -> Result<Tally, String> {
        let (mut total, mut failed) = (Tally::new(), None);
        self.each(library, |seed, result| match result {
            Ok(tally) => {
                for (function, [accepted, refused]) in tally {
                    let sum = total.entry(function).or_default();
                    *sum = [sum[0] + accepted, sum[1] + refused];
                }
                ControlFlow::Continue(())
            }
            Err(_) => {
                failed = Some(seed);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(total), |seed| Err(self.shortest_failure(library, seed)))
    }

    /// Runs them all, and keeps one failure of each kind.
    #[must_use]
    pub fn survey(&self, library: &str) -> Vec<String> {
        let mut found = BTreeMap::new();
        self.each(library, |seed, result| {
            if let Err(failure) = result {
                found.entry(kind_of(&failure)).or_insert(seed);
            }
            ControlFlow::Continue(())
        });
        found.values().map(|seed| self.shortest_failure(library, *seed)).collect()
    }

    /// Whether one of them trips an oracle.
    #[must_use]
    pub fn trips(&self, library: &str, oracle: &str) -> bool {
        let mut trips = false;
        let named = |failure: Failure| failure.findings.iter().any(|it| it.starts_with(oracle));
        self.each(library, |_, result| {
            trips = result.is_err_and(named);
            if trips { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        trips
    }

    /// The state that the history of a seed leaves.
    ///
    /// # Errors
    /// The history, if it goes wrong.
    pub fn state(&self, library: &str, seed: u64) -> Result<HistoryState, String> {
        let state = self.carry_out(library, &self.history(seed), seed);
        state.map_err(|_| self.shortest_failure(library, seed))
    }

    /// Runs every history; `done` gets what each accepted and refused, or how it failed.
    fn each(
        &self,
        library: &str,
        mut done: impl FnMut(u64, Result<Tally, Failure>) -> ControlFlow<()> + Send,
    ) {
        let run = |(): &mut (), at| {
            let seed = self.seed + at;
            let state = self.carry_out(library, &self.history(seed), seed);
            let state = state.map_err(|failure| *failure)?;
            Ok(state.tally().clone())
        };
        run_seeds(
            self.histories,
            self.jobs,
            || (),
            run,
            |at, result| {
                let panicked =
                    |message| Err(Failure { trace: Vec::new(), findings: vec![message] });
                done(self.seed + at, result.unwrap_or_else(panicked))
            },
        );
    }

    fn carry_out(
        &self,
        library: &str,
        operations: &[Operation],
        seed: u64,
    ) -> Result<HistoryState, Box<Failure>> {
        if self.migrating {
            run_migrating(library, operations, seed)
        } else {
            run(library, operations)
        }
    }

    fn history(&self, seed: u64) -> Vec<Operation> {
        history(&mut Draws::seeded(seed, 0), self.length)
    }

    /// Removes operations and zeroes their numbers as long as the history still fails.
    fn shortest_failure(&self, library: &str, seed: u64) -> String {
        let tries = &mut Tries::at_most(SHRINKS_MAX);
        let fails = |operations: &[Operation]| self.carry_out(library, operations, seed).is_err();
        let few = shrink_list(&self.history(seed), |_| true, tries, fails);
        let small = shrink_value(
            few,
            |operations| (0..3 * operations.len()).collect(),
            |at: &usize, operations: &mut Vec<Operation>| {
                let operation = &mut operations[at / 3];
                *[&mut operation.a, &mut operation.b, &mut operation.c][at % 3] = 0;
            },
            tries,
            |operations: &Vec<Operation>| fails(operations),
        );
        match self.carry_out(library, &small, seed) {
            Ok(_) => format!("seed {seed} fails, but not when it is run again"),
            Err(failure) => format!("seed {seed} fails:\n{failure}"),
        }
    }
}

/// The last function called and the oracles that found fault with it.
fn kind_of(failure: &Failure) -> Vec<String> {
    let word = |text: &String| text.split([' ', ':']).next().unwrap_or_default().to_owned();
    let mut kind: Vec<String> = failure.findings.iter().map(word).collect();
    kind.sort();
    kind.dedup();
    kind.extend(failure.trace.last().map(word));
    kind
}

const SHRINKS_MAX: usize = 1_500;
