//! What a deployment agrees on before anybody works: how many partitions there are, which secret
//! signs its waitpoints, which lanes it has.

use std::fmt;

use selvedge_core::call::library::{CountsFixed, FixPartitionCounts};
use selvedge_core::engine::Command;
use selvedge_core::error::{CallError, Class, ServerError};
use selvedge_core::id::LaneId;
use selvedge_core::key::Key;
use selvedge_core::partition::PartitionCounts;
use selvedge_core::value::Value;
use thiserror::Error;

use crate::secret::{self, SecretError, SecretSource};
use crate::store::Store;

/// Why nobody can work on a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeploymentError {
    /// The counts of partitions were written down by another configuration. A change would orphan
    /// every record: use the counts that are stored, or another store.
    #[error(
        "the deployment has {stored}, this configuration says {wanted}: set FF_FLOW_PARTITIONS, \
         FF_BUDGET_PARTITIONS and FF_QUOTA_PARTITIONS to what the deployment has"
    )]
    Counts {
        /// What is written down.
        stored: String,
        /// What was asked for.
        wanted: String,
    },
    /// The waitpoint secret is not in place.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The store does not answer, or refuses us.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl DeploymentError {
    /// The server's part in it, if it has one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Counts { .. } => None,
            Self::Secret(error) => error.server(),
            Self::Call(CallError::Server(error)) => Some(error),
            Self::Call(CallError::Refused(_) | CallError::Broken(_)) => None,
        }
    }

    /// Whether trying again may help without anybody changing the configuration.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.server().is_some_and(|error| match error.class {
            Class::Silence | Class::NotNow | Class::Redirect | Class::Library | Class::Denied => {
                true
            }
            Class::Broken => false,
        })
    }
}

/// Agrees on everything: writes down what is not written yet, and compares what is.
///
/// # Errors
/// When the configuration does not fit the deployment, or the store does not answer.
pub async fn prepare(
    store: &Store,
    counts: PartitionCounts,
    lanes: &[LaneId],
    secrets: &SecretSource,
) -> Result<(), DeploymentError> {
    let _ = fix_counts(store, counts).await?;
    secret::install(store, counts, secrets).await?;
    if !lanes.is_empty() {
        store.command(register_lanes(lanes)).await.map_err(CallError::from)?;
    }
    Ok(())
}

/// Writes the partition counts down, once; afterwards only compares. Answers which of the two.
///
/// # Errors
/// [`DeploymentError::Counts`] names both when they differ.
pub async fn fix_counts(
    store: &Store,
    counts: PartitionCounts,
) -> Result<CountsFixed, DeploymentError> {
    let reply = store.call(&FixPartitionCounts { counts }).await?;
    agreed(&reply, counts).map(|()| reply)
}

/// Whether the deployment has these counts.
pub(crate) fn agreed(reply: &CountsFixed, counts: PartitionCounts) -> Result<(), DeploymentError> {
    match reply {
        CountsFixed::Fixed | CountsFixed::Same => Ok(()),
        CountsFixed::Different { flow, budget, quota } => {
            Err(differ(&Counts(flow, budget, quota), counts))
        }
    }
}

/// The same for counts that were read.
pub(crate) fn compare(
    stored: PartitionCounts,
    wanted: PartitionCounts,
) -> Result<(), DeploymentError> {
    if stored == wanted {
        return Ok(());
    }
    Err(differ(&Counts(&stored.flow, &stored.budget, &stored.quota), wanted))
}

fn differ(stored: &impl fmt::Display, wanted: PartitionCounts) -> DeploymentError {
    DeploymentError::Counts {
        stored: stored.to_string(),
        wanted: Counts(&wanted.flow, &wanted.budget, &wanted.quota).to_string(),
    }
}

/// The partition counts that are written down; none before the first start. A count that nobody
/// can read is the default, as the contract's readers take it.
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

/// The lanes in the registry. An entry that is no lane is passed over.
///
/// # Errors
/// When the store does not answer.
pub async fn lanes(store: &Store) -> Result<Vec<LaneId>, ServerError> {
    store.command(list_lanes()).await.map(read_lanes)
}

/// Adds lanes to the registry, so that running engines look after them within seconds.
pub(crate) fn register_lanes(lanes: &[LaneId]) -> Command {
    let names: Vec<&[u8]> = lanes.iter().map(|lane| lane.as_str().as_bytes()).collect();
    Command { reads: false, ..Command::read("SADD", &Key::Lanes, &names) }
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
