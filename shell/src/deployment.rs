//! Prepares a deployment: stores or checks its partition counts, installs its waitpoint secret, and
//! registers lanes.

use std::fmt;
use std::time::Duration;

use selvedge_core::call::library::{CountsFixed, FixPartitionCounts};
use selvedge_core::command::Command;
use selvedge_core::engine::{EngineConfig, INTERVAL_FLOOR};
use selvedge_core::error::{CallError, ServerError};
use selvedge_core::id::LaneId;
use selvedge_core::key::Key;
use selvedge_core::partition::PartitionCounts;
use selvedge_core::value::Value;
use thiserror::Error;

use crate::secret::{self, SecretError, SecretSource};
use crate::store::Store;

/// Why a deployment cannot be used with this configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeploymentError {
    /// The configuration of the engine has a zero where none can be.
    #[error("the setting `{setting}` of the engine must be above zero")]
    InvalidConfig {
        /// The field of the configuration.
        setting: &'static str,
    },
    /// A scanner would run more often than any may.
    #[error(
        "the interval of scanner {scanner} is {interval:?}; the shortest is {INTERVAL_FLOOR:?}"
    )]
    ShortInterval {
        /// The scanner.
        scanner: &'static str,
        /// Its interval in the configuration.
        interval: Duration,
    },
    /// The deployment was created with other partition counts. They cannot change, because every
    /// key would move: use the stored counts, or another store.
    #[error(
        "partition counts differ: the deployment has {stored}, this configuration has {wanted}; \
         set FF_FLOW_PARTITIONS, FF_BUDGET_PARTITIONS and FF_QUOTA_PARTITIONS to those of the \
         deployment"
    )]
    Counts {
        /// The stored counts.
        stored: String,
        /// The counts of this configuration.
        wanted: String,
    },
    /// The waitpoint secret is missing or cannot be installed.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The store does not answer, or refuses a call.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl DeploymentError {
    /// The server error behind it, if there is one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::InvalidConfig { .. } | Self::ShortInterval { .. } | Self::Counts { .. } => None,
            Self::Secret(error) => error.server(),
            Self::Call(error) => error.server(),
        }
    }

    /// Whether the same call may succeed later without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.server().is_some_and(ServerError::is_transient)
    }
}

/// Refuses settings with which an engine could do nothing, or would do the same too often.
pub(crate) fn check_config(config: &EngineConfig) -> Result<(), DeploymentError> {
    if let Some(setting) = config.zero_setting() {
        return Err(DeploymentError::InvalidConfig { setting });
    }
    match config.short_interval() {
        Some((scanner, interval)) => {
            Err(DeploymentError::ShortInterval { scanner: scanner.as_str(), interval })
        }
        None => Ok(()),
    }
}

/// Stores partition counts, waitpoint secret and lanes where they are missing, and checks the
/// counts where they are stored.
///
/// # Errors
/// When the configuration does not match the deployment, or the store does not answer.
pub async fn prepare(
    store: &Store,
    counts: PartitionCounts,
    lanes: &[LaneId],
    secrets: &SecretSource,
) -> Result<(), DeploymentError> {
    secrets.check()?;
    let _ = fix_counts(store, counts).await?;
    secret::install(store, counts, secrets).await?;
    if !lanes.is_empty() {
        store.command(register_lanes(lanes)).await.map_err(CallError::from)?;
    }
    Ok(())
}

/// Stores the partition counts, or compares them with the stored ones. The reply tells which.
///
/// # Errors
/// [`DeploymentError::Counts`] when they differ; otherwise when the store does not answer.
pub async fn fix_counts(
    store: &Store,
    counts: PartitionCounts,
) -> Result<CountsFixed, DeploymentError> {
    let reply = store.call(&FixPartitionCounts { counts }).await?;
    check_fixed(&reply, counts).map(|()| reply)
}

/// Turns a reply of different counts into an error.
fn check_fixed(reply: &CountsFixed, counts: PartitionCounts) -> Result<(), DeploymentError> {
    match reply {
        CountsFixed::Fixed | CountsFixed::Same => Ok(()),
        CountsFixed::Different { flow, budget, quota } => {
            Err(other_counts(flow, budget, quota, counts))
        }
    }
}

/// The error for a deployment that has these counts stored.
pub(crate) fn other_counts(
    flow: &str,
    budget: &str,
    quota: &str,
    wanted: PartitionCounts,
) -> DeploymentError {
    counts_differ(&Counts(&flow, &budget, &quota), wanted)
}

/// Compares counts that were read.
pub(crate) fn check_counts(
    stored: PartitionCounts,
    wanted: PartitionCounts,
) -> Result<(), DeploymentError> {
    if stored == wanted {
        return Ok(());
    }
    Err(counts_differ(&Counts(&stored.flow, &stored.budget, &stored.quota), wanted))
}

fn counts_differ(stored: &impl fmt::Display, wanted: PartitionCounts) -> DeploymentError {
    DeploymentError::Counts {
        stored: stored.to_string(),
        wanted: Counts(&wanted.flow, &wanted.budget, &wanted.quota).to_string(),
    }
}

/// The stored partition counts; `None` before the first start. An unreadable count counts as the
/// default, as the contract defines.
///
/// # Errors
/// When the store does not answer.
pub async fn counts(store: &Store) -> Result<Option<PartitionCounts>, ServerError> {
    let fields: [&[u8]; 3] =
        [b"num_flow_partitions", b"num_budget_partitions", b"num_quota_partitions"];
    let reply = store.command(Command::read("HMGET", &Key::PartitionCounts, &fields)).await?;
    let Value::Array(parts) = reply else { return Ok(None) };
    let read = |place: usize| match parts.get(place) {
        Some(Value::Bulk(text)) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    };
    if parts.iter().all(|part| *part == Value::Nil) {
        return Ok(None);
    }
    let default = PartitionCounts::DEFAULT;
    Ok(Some(PartitionCounts {
        flow: read(0).unwrap_or(default.flow),
        budget: read(1).unwrap_or(default.budget),
        quota: read(2).unwrap_or(default.quota),
    }))
}

/// The lanes in the lane registry. Entries that are not valid lane names are skipped.
///
/// # Errors
/// When the store does not answer.
pub async fn lanes(store: &Store) -> Result<Vec<LaneId>, ServerError> {
    store.command(list_lanes()).await.map(read_lanes)
}

/// The command that adds lanes to the lane registry. Running engines serve them within seconds.
pub(crate) fn register_lanes(lanes: &[LaneId]) -> Command {
    let names: Vec<&[u8]> = lanes.iter().map(|lane| lane.as_str().as_bytes()).collect();
    Command::write("SADD", &Key::Lanes, &names)
}

pub(crate) fn list_lanes() -> Command {
    Command::read("SMEMBERS", &Key::Lanes, &[])
}

pub(crate) fn read_lanes(reply: Value) -> Vec<LaneId> {
    let Value::Array(members) = reply else { return Vec::new() };
    let lane = |member: Value| match member {
        Value::Bulk(text) => str::from_utf8(&text).ok()?.parse().ok(),
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) | Value::Array(_) => None,
    };
    let mut lanes: Vec<LaneId> = members.into_iter().filter_map(lane).collect();
    lanes.sort();
    lanes
}

struct Counts<'a, T>(&'a T, &'a T, &'a T);

impl<T: fmt::Display> fmt::Display for Counts<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(flow, budget, quota) = self;
        write!(formatter, "{flow} flow, {budget} budget and {quota} quota partitions")
    }
}
