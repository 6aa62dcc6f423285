//! Many histories in a row, each with a seed of its own, so that one can be run again alone.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::operation::histories;
use super::world::Tally;
use super::{Downfall, Operation, World, run};

/// Which histories to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seed of the first; the others follow.
    pub seed: u64,
    /// How many.
    pub histories: u64,
    /// How many operations each has.
    pub length: usize,
}

impl Campaign {
    /// Runs them all, up to the first that goes wrong.
    ///
    /// # Errors
    /// That history, made as short as possible and told in full.
    pub fn run(&self, library: &str) -> Result<Tally, String> {
        let mut total = Tally::new();
        for seed in self.seeds() {
            let world = run(library, &self.history(seed).current())
                .map_err(|_| self.shortest_downfall(library, seed))?;
            for (function, [accepted, refused]) in world.tally() {
                let sum = total.entry(function).or_default();
                *sum = [sum[0] + accepted, sum[1] + refused];
            }
        }
        Ok(total)
    }

    /// Runs them all, and keeps the first that goes wrong in each new way.
    #[must_use]
    pub fn survey(&self, library: &str) -> Vec<String> {
        let mut found = BTreeMap::new();
        for seed in self.seeds() {
            if let Err(downfall) = run(library, &self.history(seed).current()) {
                found.entry(kind_of(&downfall)).or_insert(seed);
            }
        }
        found.values().map(|seed| self.shortest_downfall(library, *seed)).collect()
    }

    /// Whether one of them trips an oracle.
    #[must_use]
    pub fn trips(&self, library: &str, oracle: &str) -> bool {
        self.seeds().any(|seed| {
            run(library, &self.history(seed).current()).is_err_and(|downfall| {
                downfall.findings.iter().any(|finding| finding.starts_with(oracle))
            })
        })
    }

    /// The world that the history of a seed leaves.
    ///
    /// # Errors
    /// The history, if it goes wrong.
    pub fn world(&self, library: &str, seed: u64) -> Result<World, String> {
        run(library, &self.history(seed).current())
            .map_err(|_| self.shortest_downfall(library, seed))
    }

    fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.seed..self.seed + self.histories
    }

    fn history(&self, seed: u64) -> impl ValueTree<Value = Vec<Operation>> + use<> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        histories(self.length).new_tree(&mut runner).expect("nothing is filtered out")
    }

    fn shortest_downfall(&self, library: &str, seed: u64) -> String {
        let (mut tree, mut worst) = (self.history(seed), None);
        for _ in 0..SHRINKS_MAX {
            let goes_on = match run(library, &tree.current()) {
                Err(downfall) => {
                    worst = Some(downfall);
                    tree.simplify()
                }
                Ok(_) => tree.complicate(),
            };
            if !goes_on {
                break;
            }
        }
        worst.map_or_else(
            || format!("seed {seed} goes wrong, but not when it is run again"),
            |downfall| format!("seed {seed} goes wrong:\n{downfall}"),
        )
    }
}

/// The last function called and the oracles that found fault with it.
fn kind_of(downfall: &Downfall) -> Vec<String> {
    let word = |text: &String| text.split([' ', ':']).next().unwrap_or_default().to_owned();
    let mut kind: Vec<String> = downfall.findings.iter().map(word).collect();
    kind.sort();
    kind.dedup();
    kind.extend(downfall.trace.last().map(word));
    kind
}

const SHRINKS_MAX: u32 = 1_500;
