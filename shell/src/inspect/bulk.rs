//! Changes many executions by a filter: cancels, replays or purges them.
//!
//! Pages of the list are worked on one after the other, the executions of a page some at a time.
//! Whatever was done is no longer found by the same filter or is refused, so a run that stopped can
//! be repeated as it was; the cursor only saves reading again what was looked at.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use selvedge_core::call::execution::{Purge, PurgeExecution};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::time::ServerTime;

use super::listing::{ExecutionFilter, FoundExecution, ListCursor};
use crate::client::{Client, ClientError};

/// What to do with each execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkAction {
    /// Cancel it, for this reason.
    Cancel(String),
    /// Run it again with the same input.
    Replay,
    /// Delete it with all its records, whatever its retention; it must have ended.
    Purge,
}

/// Where a change of many executions stands. Give it to [`Client::change_many`] until it is done.
#[derive(Clone, Debug)]
pub struct BulkProgress {
    /// Which executions.
    pub filter: ExecutionFilter,
    /// Where to go on; none at first, and at the end.
    pub cursor: Option<ListCursor>,
    /// How many more may be changed.
    pub left: u64,
    /// What was done so far.
    pub report: BulkReport,
    /// Whether nothing is left to look at.
    pub is_done: bool,
    /// The time of the first page: what changes its state later is not changed again.
    began_at: Option<ServerTime>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkReport {
    /// Changed by this run.
    pub done: u64,
    /// Refused, by reason: with how many, and one example.
    pub refused: BTreeMap<String, (u64, Option<ExecutionId>)>,
    /// Without an answer, or with one that cannot be read: perhaps changed.
    pub failed: u64,
    /// The last of those failures.
    pub last_failure: Option<String>,
    /// Records that were read.
    pub examined: u64,
}

impl BulkReport {
    /// How many were refused.
    #[must_use]
    pub fn refused_count(&self) -> u64 {
        self.refused.values().map(|(count, _)| count).sum()
    }
}

/// What became of one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkStep {
    /// It was changed.
    Done,
    /// It was refused, for this reason.
    Refused(String),
    /// Unknown, or the store failed.
    Failed(String),
}

impl BulkProgress {
    /// The beginning: at most so many executions are changed.
    #[must_use]
    pub fn new(filter: ExecutionFilter, from: Option<ListCursor>, most: u64) -> Self {
        let report = BulkReport::default();
        Self { filter, cursor: from, left: most, report, is_done: false, began_at: None }
    }
}

impl Client {
    /// Changes the executions of the next page, some at a time, and moves on. Executions that are
    /// refused or fail do not count against the most that may be changed.
    ///
    /// # Errors
    /// When the list cannot be read. What was changed before is in the report.
    pub async fn change_many(
        &self,
        action: &BulkAction,
        progress: &mut BulkProgress,
    ) -> Result<(), ClientError> {
        let began_at = match progress.began_at {
            Some(at) => at,
            None => *progress.began_at.insert(self.server_time().await?),
        };
        let most = usize::try_from(progress.left).unwrap_or(usize::MAX).min(PAGE);
        if most == 0 || progress.is_done {
            return Ok(());
        }
        let from = progress.cursor.clone();
        let page = self.find_at(&progress.filter, from, most, began_at).await?;
        let found = page.executions.into_iter().filter(|one| is_before(one, began_at));
        let changes = found.map(|one| async move {
            let step = self.change_one(action, &one).await;
            (one.id, step)
        });
        let mut changes = stream::iter(changes).buffer_unordered(AT_ONCE);
        let report = &mut progress.report;
        while let Some((id, step)) = changes.next().await {
            match step {
                BulkStep::Done => {
                    report.done += 1;
                    progress.left = progress.left.saturating_sub(1);
                }
                BulkStep::Refused(reason) => {
                    let (count, example) = report.refused.entry(reason).or_default();
                    *count += 1;
                    example.get_or_insert(id);
                }
                BulkStep::Failed(error) => {
                    report.failed += 1;
                    report.last_failure = Some(error);
                }
            }
        }
        report.examined += page.examined;
        progress.is_done = page.next.is_none();
        progress.cursor = page.next;
        Ok(())
    }

    async fn change_one(&self, action: &BulkAction, found: &FoundExecution) -> BulkStep {
        let changed = match action {
            BulkAction::Cancel(reason) => self.cancel(&found.id, reason).await,
            BulkAction::Replay => self.replay(&found.id).await,
            BulkAction::Purge => {
                return match found.lane.parse() {
                    Ok(lane) => self.purge(&found.id, &lane).await,
                    Err(_) => BulkStep::Refused("its record names no lane".into()),
                };
            }
        };
        changed.map_or_else(step_of, |()| BulkStep::Done)
    }

    /// Deletes an ended execution of a lane with all its records, in steps, whatever its retention.
    pub async fn purge(&self, id: &ExecutionId, lane: &LaneId) -> BulkStep {
        let call = PurgeExecution {
            execution_id: id.clone(),
            lane: lane.clone(),
            retention_ms: None,
            limit: None,
            keep: Some(0),
        };
        for _ in 0..PURGE_STEPS_MAX {
            return match self.call_with_retry(&call).await {
                Ok(Purge::Partial(_)) => continue,
                Ok(Purge::Purged(_) | Purge::NotFound) => BulkStep::Done,
                Ok(Purge::Needed(_)) => {
                    BulkStep::Refused("a child still waits for its outcome".into())
                }
                Ok(Purge::NotDue(_)) => {
                    BulkStep::Refused("it is not in the index of its lane; run fsck".into())
                }
                Err(error) => step_of(error),
            };
        }
        BulkStep::Failed("it has too many records for one run; run it again".into())
    }
}

/// Whether it has not changed its state since the beginning.
fn is_before(found: &FoundExecution, began_at: ServerTime) -> bool {
    found.moved_at.is_none_or(|at| at <= began_at)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is open")]
fn step_of(error: ClientError) -> BulkStep {
    match error {
        ClientError::Refused(refusal) => BulkStep::Refused(refusal.code.to_string()),
        ClientError::NeedsUpstreams { .. } => {
            BulkStep::Refused("an upstream that has failed has to be replayed with it".into())
        }
        ClientError::NotFound { .. } => BulkStep::Refused("it is gone".into()),
        other => BulkStep::Failed(other.to_string()),
    }
}

/// Executions of one page.
const PAGE: usize = 500;
/// Executions that are changed at the same time.
const AT_ONCE: usize = 32;
/// Most calls to purge one execution.
const PURGE_STEPS_MAX: u32 = 10_000;
