//! One round of all scanners, at once: the engine is a pure machine, so its clock can be put
//! forward from one deadline to the next while the store's own clock decides what is due.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use selvedge_core::engine::{Effect, Engine, EngineConfig, Input, Observation, ScannerName, Tally};
use selvedge_core::time::EngineTime;

use crate::store::Store;

/// What each scanner did in its round over all partitions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Round {
    /// By scanner; one that is missing did not get through.
    pub tallies: BTreeMap<ScannerName, Tally>,
    /// What failed, in words.
    pub failures: Vec<String>,
}

impl Round {
    /// Whether every scanner has been everywhere.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.tallies.len() == ScannerName::ALL.len()
    }
}

/// Runs every scanner once over every partition, without waiting for their intervals.
pub async fn one_round(store: &Store, config: EngineConfig) -> Round {
    let within = config.ticket_timeout;
    let mut now = EngineTime(0);
    let mut engine = Engine::new(config, 0, now);
    let mut missing: BTreeSet<ScannerName> = ScannerName::ALL.iter().copied().collect();
    let mut round = Round::default();
    for _ in 0..WAKES_MAX {
        engine.handle(now, Input::Wake);
        loop {
            let mut batches = Vec::new();
            while let Some(effect) = engine.next_effect() {
                match effect {
                    Effect::Send { ticket, batch, .. } => batches.push((ticket, batch)),
                    Effect::Observe(fact) => round.note(fact, &mut missing),
                }
            }
            if batches.is_empty() {
                break;
            }
            let carried = batches
                .into_iter()
                .map(|(ticket, batch)| async move { (ticket, store.run(batch, within).await) });
            for (ticket, answers) in join_all(carried).await {
                engine.handle(now, Input::Settled { ticket, answers });
            }
        }
        if missing.is_empty() {
            break;
        }
        let Some(next) = engine.deadline() else { break };
        now = next.max(EngineTime(now.0 + 1));
    }
    round
}

impl Round {
    fn note(&mut self, fact: Observation, missing: &mut BTreeSet<ScannerName>) {
        if let Observation::CycleDone { scanner, tally, .. } = &fact
            && missing.remove(scanner)
        {
            self.tallies.insert(*scanner, *tally);
        }
        if let Observation::ItemFailed { scanner, partition, item, error } = fact
            && self.failures.len() < FAILURES_TOLD
        {
            self.failures.push(format!("{scanner} {partition} {item}: {error}"));
        }
    }
}

/// A round ends after so many steps of the engine's clock, whatever happens.
const WAKES_MAX: usize = 1_000_000;
/// Failures that are told; the tallies count all of them.
const FAILURES_TOLD: usize = 100;
