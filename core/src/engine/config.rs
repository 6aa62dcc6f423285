//! What an engine is told at its start.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;

use thiserror::Error;

use super::scan::{SCANNERS, ScannerName};
use crate::id::LaneId;
use crate::partition::PartitionCounts;

/// No scanner runs more often than this.
pub const INTERVAL_FLOOR: Duration = Duration::from_millis(100);

/// Which executions an engine cares for. Nothing set means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this namespace.
    pub namespace: Option<String>,
    /// Only with this tag at this value.
    pub instance_tag: Option<(String, String)>,
}

impl Filter {
    /// Whether it lets everything pass.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.namespace.is_none() && self.instance_tag.is_none()
    }
}

/// What an engine is told at its start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// How many partitions the deployment has.
    pub partitions: PartitionCounts,
    /// Lanes to look after, besides those in the registry.
    pub lanes: Vec<LaneId>,
    /// Intervals that differ from the scanners' own.
    pub intervals: BTreeMap<ScannerName, Duration>,
    /// Which executions to care for.
    pub filter: Filter,
    /// Most batches in flight; with room for those of all partitions, dead ones delay no other.
    pub window: usize,
    /// Most batches in flight for one hash slot.
    pub window_per_slot: usize,
    /// How long a batch may stay unanswered.
    pub ticket_timeout: Duration,
    /// How many completions are dispatched side by side, beside one of each partition.
    pub dispatch_concurrency: usize,
    /// How many completions may wait to be dispatched; the reconciler finds what does not fit.
    pub dispatch_queue: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            partitions: PartitionCounts::DEFAULT,
            lanes: alloc::vec!["default".parse().expect("`default` is printable ASCII")],
            intervals: BTreeMap::new(),
            filter: Filter::default(),
            window: 1_024,
            window_per_slot: 2,
            ticket_timeout: Duration::from_secs(10),
            dispatch_concurrency: 64,
            dispatch_queue: 10_000,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{variable}=`{text}`: {reason}")]
pub struct InvalidSetting {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl EngineConfig {
    /// Reads the contract's environment variables through `lookup`; unset ones keep the defaults.
    ///
    /// # Errors
    /// The first variable whose value cannot be used.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidSetting> {
        let mut config = Self::default();
        let counts = &mut config.partitions;
        for (variable, count) in [
            ("FF_FLOW_PARTITIONS", &mut counts.flow),
            ("FF_BUDGET_PARTITIONS", &mut counts.budget),
            ("FF_QUOTA_PARTITIONS", &mut counts.quota),
        ] {
            if let Some(text) = lookup(variable) {
                *count = text.parse::<NonZeroU16>().map_err(|_| {
                    invalid(variable, &text, "expected a whole number from 1 to 65535")
                })?;
            }
        }
        if let Some(text) = lookup("FF_LANES") {
            config.lanes = read_lanes(&text)?;
        }
        for scanner in SCANNERS {
            let spec = scanner.spec();
            if let Some(text) = lookup(spec.interval_variable) {
                let interval = read_interval(spec.interval_variable, &text)?;
                config.intervals.insert(spec.name, interval);
            }
        }
        Ok(config)
    }

    /// How often a scanner runs.
    #[must_use]
    pub fn interval(&self, name: ScannerName, default: Duration) -> Duration {
        self.intervals.get(&name).copied().unwrap_or(default).max(INTERVAL_FLOOR)
    }
}

fn read_lanes(text: &str) -> Result<Vec<LaneId>, InvalidSetting> {
    let lanes: Vec<LaneId> = text
        .split(',')
        .map(str::trim)
        .filter(|lane| !lane.is_empty())
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| invalid("FF_LANES", text, "a lane is 1 to 64 printable ASCII characters"))?;
    if lanes.is_empty() {
        return Err(invalid("FF_LANES", text, "at least one lane is needed"));
    }
    Ok(lanes)
}

/// The unit is part of the variable's name: `…_MS` or `…_S`.
fn read_interval(variable: &str, text: &str) -> Result<Duration, InvalidSetting> {
    let number: u64 =
        text.parse().map_err(|_| invalid(variable, text, "expected a whole number"))?;
    Ok(if variable.ends_with("_MS") {
        Duration::from_millis(number)
    } else {
        Duration::from_secs(number)
    })
}

fn invalid(variable: &str, text: &str, reason: &'static str) -> InvalidSetting {
    InvalidSetting { variable: variable.to_string(), text: text.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<EngineConfig, InvalidSetting> {
        EngineConfig::from_env(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn unset_variables_keep_the_defaults() {
        let config = read(&[]).unwrap();
        assert_eq!(config.partitions, PartitionCounts::DEFAULT);
        assert_eq!(config.lanes.len(), 1);
    }

    #[test]
    fn the_contracts_names_are_read() {
        let config = read(&[
            ("FF_FLOW_PARTITIONS", "4"),
            ("FF_LANES", " a, ,b "),
            ("FF_LEASE_EXPIRY_INTERVAL_MS", "20"),
            ("FF_UNBLOCK_INTERVAL_S", "7"),
        ])
        .unwrap();
        assert_eq!(config.partitions.flow.get(), 4);
        assert_eq!(config.lanes.len(), 2);
        let default = Duration::from_secs(1);
        assert_eq!(config.interval(ScannerName::LeaseExpiry, default), INTERVAL_FLOOR);
        assert_eq!(config.interval(ScannerName::Unblock, default), Duration::from_secs(7));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (name, value) in [
            ("FF_FLOW_PARTITIONS", "0"),
            ("FF_QUOTA_PARTITIONS", "many"),
            ("FF_LANES", " , "),
            ("FF_UNBLOCK_INTERVAL_S", "-1"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
