//! The configuration of an engine.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;

use thiserror::Error;

use super::filter::Filter;
use super::scanners::{ScannerName, scanner_specs};
use crate::id::LaneId;
use crate::partition::PartitionCounts;
use crate::time::DURATION_MAX;

/// No scanner runs more often than this.
pub const INTERVAL_FLOOR: Duration = Duration::from_millis(100);

/// The configuration of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// How many partitions the deployment has.
    pub partitions: PartitionCounts,
    /// Lanes to scan, besides those in the registry.
    pub lanes: Vec<LaneId>,
    /// Intervals that differ from the scanners' defaults.
    pub intervals: BTreeMap<ScannerName, Duration>,
    /// Which executions to handle.
    pub filter: Filter,
    /// Most batches in flight. With room for a batch of every partition, unresponsive partitions
    /// delay no others.
    pub window: usize,
    /// Most batches in flight for one hash slot.
    pub window_per_slot: usize,
    /// How long a batch may stay unanswered.
    pub batch_timeout: Duration,
    /// How many completions are dispatched at a time, besides one of each partition.
    pub dispatch_concurrency: usize,
    /// Most completions that wait to be dispatched or are being dispatched. What does not fit is
    /// left to the dependency reconciler.
    pub dispatch_queue: usize,
    /// How long ended executions are kept, unless their policy says it. The same for all engines of
    /// a deployment: the shortest decides.
    pub retention: Duration,
    /// How many ended executions of a lane are kept in one partition at most, the last ones,
    /// whatever their retention; any number by default.
    pub keep_ended: Option<u64>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            partitions: PartitionCounts::DEFAULT,
            lanes: alloc::vec![LaneId::default_lane()],
            intervals: BTreeMap::new(),
            filter: Filter::default(),
            window: 1_024,
            window_per_slot: 2,
            batch_timeout: Duration::from_secs(10),
            dispatch_concurrency: 64,
            dispatch_queue: 10_000,
            retention: Duration::from_secs(86_400),
            keep_ended: None,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{variable}=`{text}`: {reason}")]
#[non_exhaustive]
pub struct InvalidSetting {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl InvalidSetting {
    /// A variable whose value cannot be used for this reason.
    #[must_use]
    pub fn new(variable: &str, text: &str, reason: &'static str) -> Self {
        Self { variable: variable.to_string(), text: text.to_string(), reason }
    }
}

impl EngineConfig {
    /// The same configuration with other partition counts.
    #[must_use]
    pub fn with_partitions(mut self, partitions: PartitionCounts) -> Self {
        self.partitions = partitions;
        self
    }

    /// The same configuration with other lanes.
    #[must_use]
    pub fn with_lanes(mut self, lanes: Vec<LaneId>) -> Self {
        self.lanes = lanes;
        self
    }

    /// The same configuration with other intervals: those of the scanners that are not named are
    /// their own.
    #[must_use]
    pub fn with_intervals(mut self, intervals: BTreeMap<ScannerName, Duration>) -> Self {
        self.intervals = intervals;
        self
    }

    /// The same configuration with another filter.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// The same configuration with another retention.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// The same configuration with a most number of ended executions per lane and partition.
    #[must_use]
    pub fn with_keep_ended(mut self, most: Option<u64>) -> Self {
        self.keep_ended = most;
        self
    }

    /// The retention in milliseconds.
    #[must_use]
    pub fn retention_ms(&self) -> u64 {
        u64::try_from(self.retention.min(DURATION_MAX).as_millis()).unwrap_or(u64::MAX)
    }

    /// The name of a setting that is zero, with which an engine could do nothing.
    #[must_use]
    pub fn zero_setting(&self) -> Option<&'static str> {
        [
            ("window", self.window == 0),
            ("window_per_slot", self.window_per_slot == 0),
            ("batch_timeout", self.batch_timeout.is_zero()),
            ("dispatch_concurrency", self.dispatch_concurrency == 0),
            ("dispatch_queue", self.dispatch_queue == 0),
        ]
        .into_iter()
        .find_map(|(name, is_zero)| is_zero.then_some(name))
    }

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
                    InvalidSetting::new(variable, &text, "expected a whole number from 1 to 65535")
                })?;
            }
        }
        if let Some(text) = lookup("FF_LANES") {
            config.lanes = read_lanes(&text)?;
        }
        for spec in scanner_specs() {
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

    /// The first scanner whose interval is below [`INTERVAL_FLOOR`]. An engine with such a
    /// configuration is refused; should one be built all the same, the floor holds.
    #[must_use]
    pub fn short_interval(&self) -> Option<(ScannerName, Duration)> {
        let mut intervals = self.intervals.iter();
        intervals.find(|(_, interval)| **interval < INTERVAL_FLOOR).map(|(name, at)| (*name, *at))
    }
}

fn read_lanes(text: &str) -> Result<Vec<LaneId>, InvalidSetting> {
    let lanes: Vec<LaneId> = text
        .split(',')
        .map(str::trim)
        .filter(|lane| !lane.is_empty())
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| {
            InvalidSetting::new("FF_LANES", text, "a lane is 1 to 64 printable ASCII characters")
        })?;
    if lanes.is_empty() {
        return Err(InvalidSetting::new("FF_LANES", text, "at least one lane is needed"));
    }
    Ok(lanes)
}

/// The unit is part of the variable's name: `…_MS` or `…_S`.
fn read_interval(variable: &str, text: &str) -> Result<Duration, InvalidSetting> {
    let number: u64 =
        text.parse().map_err(|_| InvalidSetting::new(variable, text, "expected a whole number"))?;
    let interval = if variable.ends_with("_MS") {
        Duration::from_millis(number)
    } else {
        Duration::from_secs(number)
    };
    match interval {
        // As often as a scanner may run. Variables in seconds cannot say that otherwise.
        Duration::ZERO => Ok(INTERVAL_FLOOR),
        short if short < INTERVAL_FLOOR => Err(InvalidSetting::new(
            variable,
            text,
            "the shortest interval is 100 ms; 0 means that",
        )),
        interval => Ok(interval),
    }
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
            ("FF_LEASE_EXPIRY_INTERVAL_MS", "100"),
            ("FF_UNBLOCK_INTERVAL_S", "7"),
            ("FF_BUDGET_RESET_INTERVAL_S", "0"),
        ])
        .unwrap();
        assert_eq!(config.partitions.flow.get(), 4);
        assert_eq!(config.lanes.len(), 2);
        let default = Duration::from_secs(1);
        assert_eq!(config.interval(ScannerName::LeaseExpiry, default), INTERVAL_FLOOR);
        assert_eq!(config.interval(ScannerName::Unblock, default), Duration::from_secs(7));
        assert_eq!(config.interval(ScannerName::BudgetReset, default), INTERVAL_FLOOR);
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_variable() {
        for (name, value) in [
            ("FF_FLOW_PARTITIONS", "0"),
            ("FF_QUOTA_PARTITIONS", "many"),
            ("FF_LANES", " , "),
            ("FF_UNBLOCK_INTERVAL_S", "-1"),
            ("FF_LEASE_EXPIRY_INTERVAL_MS", "99"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
