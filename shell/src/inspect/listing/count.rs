//! Counts executions by a filter without reading all of them.

use selvedge_core::command::Command;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::reply::text;
use selvedge_core::time::ServerTime;

use super::{ExecutionFilter, Section};
use crate::client::{Client, ClientError};

/// How many executions match a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutionCount {
    /// Entries of the indexes that hold all that may match.
    pub entries: u64,
    /// Entries that were looked at: the newest of those that have ended, the first of others.
    pub examined: u64,
    /// How many of those match.
    pub matching: u64,
    /// Whether `matching` is the exact count of all.
    pub is_exact: bool,
}

impl ExecutionCount {
    /// How many match if all entries are like those that were looked at.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        if self.is_exact || self.examined == 0 {
            return self.matching;
        }
        let all = u128::from(self.matching) * u128::from(self.entries);
        u64::try_from(all / u128::from(self.examined)).unwrap_or(u64::MAX).max(self.matching)
    }
}

impl Client {
    /// How many executions match. Exact if the indexes alone tell it, or if the first 20,000
    /// entries are all; otherwise a sample of those. Reads one count per index, lane and partition.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn count_executions(
        &self,
        filter: &ExecutionFilter,
    ) -> Result<ExecutionCount, ClientError> {
        let now = self.server_time().await?;
        let entries = self.count_entries(filter, now).await?;
        if filter.is_decided_by_indexes() {
            let (examined, matching, is_exact) = (entries, entries, true);
            return Ok(ExecutionCount { entries, examined, matching, is_exact });
        }
        let page = self.find_at(filter, None, usize::MAX, now).await?;
        let matching = u64::try_from(page.executions.len()).unwrap_or(u64::MAX);
        let is_exact = page.next.is_none();
        Ok(ExecutionCount { entries, examined: page.examined, matching, is_exact })
    }

    /// How many entries the indexes hold that may match.
    pub(in crate::inspect) async fn count_entries(
        &self,
        filter: &ExecutionFilter,
        now: ServerTime,
    ) -> Result<u64, ClientError> {
        let (mut entries, partitions) = (0, self.partitions().flow.get());
        let (first, last) = filter.window(now);
        let (first, last) = (first.to_string(), last.to_string());
        for Section { index, lanes, .. } in self.sections(filter, None).await? {
            let reads = lanes.iter().flat_map(|lane| {
                let keys = (0..partitions).map(|at| Key::index(Partition::flow(at)));
                keys.map(move |keys| keys.lane(lane, index))
            });
            let reads = reads.map(|key| match index {
                LaneIndex::Terminal => {
                    Command::read("ZCOUNT", &key, &[first.as_bytes(), last.as_bytes()])
                }
                LaneIndex::Eligible
                | LaneIndex::Delayed
                | LaneIndex::Active
                | LaneIndex::Suspended
                | LaneIndex::BlockedDependencies
                | LaneIndex::BlockedBudget
                | LaneIndex::BlockedQuota
                | LaneIndex::BlockedRoute
                | LaneIndex::BlockedOperator => Command::read("ZCARD", &key, &[]),
            });
            for reply in self.read(reads.collect()).await? {
                entries += text(reply).parse::<u64>().unwrap_or(0);
            }
        }
        Ok(entries)
    }
}
