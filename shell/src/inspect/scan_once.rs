//! Runs every scanner once, without waiting for their intervals: the engine's state machine gets
//! times that jump from one deadline to the next. What is due is decided by the store's clock.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use selvedge_core::engine::{
    AuditPace, Effect, Engine, EngineConfig, Input, Observation, ScanCounts, ScannerName,
};
use selvedge_core::time::LocalTime;

use crate::deployment::{self, DeploymentError};
use crate::store::Store;

/// What each scanner did in one cycle over all partitions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// The counts of each scanner; a scanner that is missing did not complete its cycle.
    pub counts: BTreeMap<ScannerName, ScanCounts>,
    /// The first 100 failures, for people.
    pub failures: Vec<String>,
}

impl ScanReport {
    /// Whether every scanner completed its cycle.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.counts.len() == ScannerName::ALL.len()
    }
}

/// Runs every scanner once over every partition, without waiting for their intervals. It does the
/// same work as an engine.
///
/// # Errors
/// [`DeploymentError::InvalidConfig`] or [`DeploymentError::ShortInterval`] for a configuration
/// that an engine would not start with.
pub async fn scan_once(store: &Store, config: EngineConfig) -> Result<ScanReport, DeploymentError> {
    deployment::check_config(&config)?;
    let within = config.batch_timeout;
    let mut now = LocalTime(0);
    let mut engine = Engine::new(config.with_audit(AuditPace::UNPACED), 0, now);
    let mut missing: BTreeSet<ScannerName> = ScannerName::ALL.iter().copied().collect();
    let mut report = ScanReport::default();
    for _ in 0..WAKES_MAX {
        engine.handle(now, Input::Wake);
        loop {
            let mut batches = Vec::new();
            while let Some(effect) = engine.next_effect() {
                match effect {
                    Effect::Send { ticket, batch, .. } => batches.push((ticket, batch)),
                    Effect::Observe(fact) => report.on_observation(fact, &mut missing),
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
        now = next.max(LocalTime(now.0 + 1));
    }
    Ok(report)
}

impl ScanReport {
    fn on_observation(&mut self, fact: Observation, missing: &mut BTreeSet<ScannerName>) {
        if let Observation::CycleDone { scanner, counts, .. } = &fact
            && missing.remove(scanner)
        {
            self.counts.insert(*scanner, *counts);
        }
        if let Observation::ItemFailed { scanner, partition, item, error } = fact
            && self.failures.len() < FAILURES_LISTED
        {
            self.failures.push(format!("{scanner} {partition} {item}: {error}"));
        }
    }
}

/// Most steps of the engine's clock.
const WAKES_MAX: usize = 1_000_000;
/// Most failures listed; the counts include all of them.
const FAILURES_LISTED: usize = 100;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::{StoreOptions, StoreUrl};

    #[tokio::test]
    async fn a_configuration_that_no_engine_starts_with_is_refused() {
        let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await.unwrap();
        let mut zero = EngineConfig::default();
        zero.window = 0;
        let refused = scan_once(&store, zero).await.expect_err("nothing could be sent");
        assert_eq!(refused, DeploymentError::InvalidConfig { setting: "window" });
        let interval = Duration::from_millis(99);
        let short = EngineConfig::default()
            .with_intervals([(ScannerName::Unblock, interval)].into_iter().collect());
        let refused = scan_once(&store, short).await.expect_err("99 ms");
        assert_eq!(refused, DeploymentError::ShortInterval { scanner: "unblock", interval });
    }
}
