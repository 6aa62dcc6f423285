//! Lists the lanes, and counts the executions in each index of a lane.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_core::command::Command;
use selvedge_core::id::LaneId;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError};
use crate::deployment;

/// How many executions are in each index of a lane, over all partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneCounts {
    /// The lane.
    pub lane: LaneId,
    /// The count of each index, including zeros.
    pub counts: BTreeMap<LaneIndex, u64>,
}

impl LaneCounts {
    /// The sum over these indexes.
    #[must_use]
    pub fn total(&self, indexes: &[LaneIndex]) -> u64 {
        indexes.iter().filter_map(|index| self.counts.get(index)).sum()
    }
}

impl Client {
    /// The lanes in the lane registry, sorted.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn lanes(&self) -> Result<Vec<LaneId>, ClientError> {
        let mut lanes = deployment::read_lanes(self.read_one(deployment::list_lanes()).await?);
        lanes.sort();
        Ok(lanes)
    }

    /// Counts the ended executions of a lane that could be purged: those beyond this retention, and
    /// those beyond the number that is kept in each partition. A policy of their own, or a task
    /// that still needs them, may keep some. One pipeline with two commands per partition.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn count_purgeable(
        &self,
        lane: &LaneId,
        retention: Duration,
        keep: Option<u64>,
    ) -> Result<u64, ClientError> {
        let over = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let by = self.server_time().await?.0.saturating_sub(over).to_string();
        let reads = (0..self.partitions().flow.get()).flat_map(|at| {
            let key = Key::index(Partition::flow(at)).lane(lane, LaneIndex::Terminal);
            [
                Command::read("ZCOUNT", &key, &[b"-inf", by.as_bytes()]),
                Command::read("ZCARD", &key, &[]),
            ]
        });
        let replies = self.read(reads.collect()).await?;
        let of_partition = |pair: &[Value]| {
            let [by_age, all] = [&pair[0], &pair[1]].map(count);
            by_age.max(all.saturating_sub(keep.unwrap_or(u64::MAX)))
        };
        Ok(replies.chunks_exact(2).map(of_partition).sum())
    }

    /// Counts the executions of a lane: one pipeline with one command per partition and index.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn lane_counts(&self, lane: &LaneId) -> Result<LaneCounts, ClientError> {
        let partitions = self.partitions().flow.get();
        let reads: Vec<Command> = LaneIndex::ALL
            .iter()
            .flat_map(|index| (0..partitions).map(move |at| (*index, at)))
            .map(|(index, at)| Key::index(Partition::flow(at)).lane(lane, index))
            .map(|key| Command::read("ZCARD", &key, &[]))
            .collect();
        let replies = self.read(reads).await?;
        let mut counts = BTreeMap::new();
        for (index, replies) in LaneIndex::ALL.iter().zip(replies.chunks(partitions.into())) {
            counts.insert(*index, replies.iter().map(count).sum());
        }
        Ok(LaneCounts { lane: lane.clone(), counts })
    }
}

fn count(reply: &Value) -> u64 {
    if let Value::Int(count) = reply { u64::try_from(*count).unwrap_or_default() } else { 0 }
}
