//! The configuration of an engine.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;

use thiserror::Error;

use super::filter::Filter;
use super::scanners::{ScannerName, ScannerSpec, is_paced, scanner_specs};
use crate::id::LaneId;
use crate::partition::PartitionCounts;
use crate::time::DURATION_MAX;

/// No scanner runs more often than this.
pub const INTERVAL_FLOOR: Duration = Duration::from_millis(100);

/// The variables of [`EngineConfig::longest_sleep`] and [`EngineConfig::audit`].
pub const LONGEST_SLEEP: &str = "SELVEDGE_LONGEST_SLEEP_MS";
/// See [`LONGEST_SLEEP`].
pub const AUDIT_SHARE: &str = "SELVEDGE_AUDIT_SHARE_PERMILLE";
/// See [`LONGEST_SLEEP`].
pub const AUDIT_COMMANDS: &str = "SELVEDGE_AUDIT_COMMANDS_PER_SECOND";

/// The library sends no push about what is due later than this.
pub const SLEEP_MAX: Duration = Duration::from_secs(30);

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
    /// How much of a server audits may take.
    pub audit: AuditPace,
    /// How long a partition where nothing is due is left alone, unless a push says otherwise; at
    /// most [`SLEEP_MAX`]. A lost push costs no more than that.
    pub longest_sleep: Duration,
    /// How many ended executions of a lane are kept in one partition at most, the last ones,
    /// whatever their retention; any number by default.
    pub keep_ended: Option<u64>,
}

/// How fast audits go: both bounds hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditPace {
    /// Most thousandths of a server's time, as measured by how long calls take.
    pub share_permille: u32,
    /// Most commands in a second, counted inside the server.
    pub commands_per_second: u32,
}

impl AuditPace {
    /// As fast as the store answers: for an audit that somebody waits for.
    pub const UNPACED: Self = Self { share_permille: 1_000, commands_per_second: u32::MAX };

    /// How long to pause after a call that took so long and so many commands.
    #[must_use]
    pub fn pause(self, took: Duration, commands: u64) -> Duration {
        let share = self.share_permille.clamp(1, 1_000);
        let by_time = took.saturating_mul(1_000 - share) / share;
        let by_count = commands.saturating_mul(1_000) / u64::from(self.commands_per_second.max(1));
        by_time.max(Duration::from_millis(by_count).saturating_sub(took))
    }
}

impl Default for AuditPace {
    /// A hundredth of the time, and few enough commands that an idle deployment stays idle.
    fn default() -> Self {
        Self { share_permille: 10, commands_per_second: 25 }
    }
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
            audit: AuditPace::default(),
            longest_sleep: SLEEP_MAX,
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

    /// The same configuration with another pace of audits.
    #[must_use]
    pub fn with_audit(mut self, audit: AuditPace) -> Self {
        self.audit = audit;
        self
    }

    /// The same configuration with another longest sleep.
    #[must_use]
    pub fn with_longest_sleep(mut self, longest_sleep: Duration) -> Self {
        self.longest_sleep = longest_sleep.min(SLEEP_MAX);
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
        config.read_pace(lookup)?;
        Ok(config)
    }

    /// Reads the variables that FlowFabric does not have.
    fn read_pace(&mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<(), InvalidSetting> {
        let number = |variable: &str, least: u32, most: u32, reason| {
            let Some(text) = lookup(variable) else { return Ok(None) };
            match text.parse::<u32>() {
                Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
                Ok(_) | Err(_) => Err(InvalidSetting::new(variable, &text, reason)),
            }
        };
        let reason = "expected milliseconds from 0 to 30000";
        if let Some(sleep_ms) = number(LONGEST_SLEEP, 0, 30_000, reason)? {
            self.longest_sleep = Duration::from_millis(sleep_ms.into());
        }
        let reason = "expected thousandths from 1 to 1000";
        if let Some(share) = number(AUDIT_SHARE, 1, 1_000, reason)? {
            self.audit.share_permille = share;
        }
        let reason = "expected a whole number of at least 1";
        if let Some(count) = number(AUDIT_COMMANDS, 1, u32::MAX, reason)? {
            self.audit.commands_per_second = count;
        }
        Ok(())
    }

    /// How often a scanner runs.
    #[must_use]
    pub fn interval(&self, name: ScannerName, default: Duration) -> Duration {
        self.intervals.get(&name).copied().unwrap_or(default).max(INTERVAL_FLOOR)
    }

    /// How long a scanner's cycle over all partitions takes at most if nothing is in its way; none
    /// for audits and sweeps, which go at their own pace.
    #[must_use]
    pub fn longest_cycle(&self, spec: &ScannerSpec) -> Option<Duration> {
        if is_paced(spec) {
            return None;
        }
        let (interval, sleep) = (self.interval(spec.name, spec.interval), self.longest_sleep);
        let sleeps = interval.as_millis().div_ceil(sleep.as_millis().max(1));
        let asleep = sleep.saturating_mul(u32::try_from(sleeps).unwrap_or(u32::MAX));
        Some(if sleep.is_zero() { interval } else { asleep })
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
            ("SELVEDGE_LONGEST_SLEEP_MS", "5000"),
            ("SELVEDGE_AUDIT_SHARE_PERMILLE", "20"),
        ])
        .unwrap();
        assert_eq!(config.longest_sleep, Duration::from_secs(5));
        assert_eq!(config.audit.share_permille, 20);
        assert_eq!(config.partitions.flow.get(), 4);
        assert_eq!(config.lanes.len(), 2);
        let default = Duration::from_secs(1);
        assert_eq!(config.interval(ScannerName::LeaseExpiry, default), INTERVAL_FLOOR);
        assert_eq!(config.interval(ScannerName::Unblock, default), Duration::from_secs(7));
        assert_eq!(config.interval(ScannerName::BudgetReset, default), INTERVAL_FLOOR);
    }

    #[test]
    fn an_audit_pauses_until_both_bounds_hold() {
        let ms = Duration::from_millis;
        let pace = AuditPace { share_permille: 10, commands_per_second: 25 };
        assert_eq!(pace.pause(ms(2), 1), ms(198), "two of two hundred milliseconds");
        assert_eq!(pace.pause(ms(2), 50), ms(1_998), "fifty commands in two seconds");
        assert_eq!(AuditPace::UNPACED.pause(ms(2), 50), Duration::ZERO);
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_variable() {
        for (name, value) in [
            ("FF_FLOW_PARTITIONS", "0"),
            ("FF_QUOTA_PARTITIONS", "many"),
            ("FF_LANES", " , "),
            ("FF_UNBLOCK_INTERVAL_S", "-1"),
            ("FF_LEASE_EXPIRY_INTERVAL_MS", "99"),
            ("SELVEDGE_LONGEST_SLEEP_MS", "30001"),
            ("SELVEDGE_AUDIT_SHARE_PERMILLE", "0"),
            ("SELVEDGE_AUDIT_COMMANDS_PER_SECOND", "some"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
