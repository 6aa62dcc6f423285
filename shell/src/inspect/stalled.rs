//! Finds the executions that have not moved for a while, and explains them.

use std::time::Duration;

use selvedge_core::command::Command;
use selvedge_core::engine::EngineConfig;
use selvedge_core::explain::{Explanation, Urgency};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, fields};

/// Which executions to look for.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Those that have not changed their state for so long.
    pub older_than: Duration,
    /// Those of all namespaces, instead of the client's only.
    pub all_namespaces: bool,
    /// How many to return.
    pub limit: usize,
}

/// Executions that have not moved for a while.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stalled {
    /// The worst of them, worst first; of the same urgency, those that stand longest first.
    pub explanations: Vec<Explanation>,
    /// How many more were found.
    pub more: u64,
    /// How many entries of indexes were not looked at: only so many are read.
    pub unread: u64,
}

/// An execution that may have to be explained.
struct Found {
    /// Those that wait for others are explained last.
    is_dependent: bool,
    moved_at: i64,
    id: ExecutionId,
}

impl Client {
    /// The executions that neither run under a live lease nor wait for a time to come, and have not
    /// changed their state for a while. Reads the first 100 entries of every open index of every
    /// lane, one round trip for each kind of index of a lane; of these at most 20,000 records,
    /// 1,000 in a round trip, and explains at most 1,000 of them. One that is missing from its
    /// index is not found: that is for `fsck`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn stalled(
        &self,
        scope: Scope,
        config: &EngineConfig,
    ) -> Result<Stalled, ClientError> {
        let now = self.server_time().await?;
        let (mut found, mut visited, mut stalled) = (Vec::new(), 0, Stalled::default());
        let lanes = self.lanes().await?;
        for index in OPEN {
            for lane in &lanes {
                let (ids, unread) = self.entries(lane, index, now).await?;
                let kept = ids.len().min(VISITED_MAX.saturating_sub(visited));
                visited += kept;
                stalled.unread += unread + count(ids.len() - kept);
                for ids in ids[..kept].chunks(RECORDS_PER_PIPELINE) {
                    found.extend(self.unmoved(ids, index, scope, now).await?);
                }
            }
        }
        found.sort_by_key(|one| (one.is_dependent, one.moved_at));
        let of_all = found.len();
        let ids: Vec<ExecutionId> =
            found.into_iter().map(|one| one.id).take(EXPLAINED_MAX).collect();
        let mut explained = self.explain_many(&ids, config).await?;
        // Some moved on meanwhile.
        let moved = explained.len();
        explained.retain(|one| {
            let stands = one.moved_at.is_none_or(|at| is_old(at.0, scope, now));
            stands && !matches!(one.urgency(), Urgency::Runs | Urgency::Ended)
        });
        let moved = moved - explained.len();
        explained.sort_by_key(|one| (one.urgency(), one.moved_at));
        explained.truncate(scope.limit);
        stalled.more = count(of_all.saturating_sub(moved + explained.len()));
        stalled.explanations = explained;
        Ok(stalled)
    }

    /// The first entries of an index of a lane in every partition, and how many more there are.
    async fn entries(
        &self,
        lane: &LaneId,
        index: LaneIndex,
        now: ServerTime,
    ) -> Result<(Vec<ExecutionId>, u64), ClientError> {
        // What is delayed until later, or runs under a lease, stands still for a good reason.
        let by_time = matches!(index, LaneIndex::Delayed | LaneIndex::Active);
        let last = if by_time { now.to_string() } else { "+inf".to_owned() };
        let (first, page) = (b"-inf".as_slice(), ENTRIES_PER_INDEX.to_string());
        let reads = (0..self.partitions().flow.get()).flat_map(|at| {
            let key = Key::index(Partition::flow(at)).lane(lane, index);
            let range: [&[u8]; 5] = [first, last.as_bytes(), b"LIMIT", b"0", page.as_bytes()];
            [
                Command::read("ZRANGEBYSCORE", &key, &range),
                Command::read("ZCOUNT", &key, &[first, last.as_bytes()]),
            ]
        });
        let replies = self.read(reads.collect()).await?;
        let (mut ids, mut unread) = (Vec::new(), 0);
        for pair in replies.chunks_exact(2) {
            let page = fields(pair[0].clone());
            let of_all = if let Value::Int(of_all) = pair[1] { of_all } else { 0 };
            unread += u64::try_from(of_all).unwrap_or(0).saturating_sub(count(page.len()));
            ids.extend(page.iter().filter_map(|id| id.parse::<ExecutionId>().ok()));
        }
        Ok((ids, unread))
    }

    /// Those of these executions that have not moved for so long.
    async fn unmoved(
        &self,
        ids: &[ExecutionId],
        index: LaneIndex,
        scope: Scope,
        now: ServerTime,
    ) -> Result<Vec<Found>, ClientError> {
        let names: [&[u8]; 3] = [b"namespace", b"last_transition_at", b"lease_expires_at"];
        let reads = ids.iter().map(|id| Command::read("HMGET", &Key::execution(id).core(), &names));
        let replies = self.read(reads.collect()).await?;
        let mut found = Vec::new();
        for (id, reply) in ids.iter().zip(replies) {
            let record = fields(reply);
            let field = |at: usize| record.get(at).map(String::as_str).unwrap_or_default();
            let time = |at: usize| field(at).parse::<i64>().unwrap_or(0);
            let ours = scope.all_namespaces || field(0) == self.namespace().as_str();
            let runs = index == LaneIndex::Active && time(2) >= now.0;
            if ours && !runs && is_old(time(1), scope, now) {
                let is_dependent = index == LaneIndex::BlockedDependencies;
                found.push(Found { is_dependent, moved_at: time(1), id: id.clone() });
            }
        }
        Ok(found)
    }
}

fn is_old(moved_at: i64, scope: Scope, now: ServerTime) -> bool {
    let age = u128::try_from(now.0.saturating_sub(moved_at)).unwrap_or(0);
    age >= scope.older_than.as_millis()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The indexes of executions that have not ended; those that wait for others come last.
const OPEN: [LaneIndex; 9] = [
    LaneIndex::Eligible,
    LaneIndex::BlockedBudget,
    LaneIndex::BlockedQuota,
    LaneIndex::BlockedRoute,
    LaneIndex::BlockedOperator,
    LaneIndex::Active,
    LaneIndex::Delayed,
    LaneIndex::Suspended,
    LaneIndex::BlockedDependencies,
];
/// Entries read of one index of one partition.
const ENTRIES_PER_INDEX: usize = 100;
/// Most records that are read.
const VISITED_MAX: usize = 20_000;
/// Records read in one pipeline.
const RECORDS_PER_PIPELINE: usize = 1_000;
/// Most executions that are explained.
const EXPLAINED_MAX: usize = 1_000;
