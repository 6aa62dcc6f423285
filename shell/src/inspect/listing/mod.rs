//! Lists executions by a filter, page by page. A page reads a bounded number of keys at any size of
//! the deployment, and says when it ends because of that.

mod count;
mod cursor;
mod filter;
mod merge;

use selvedge_core::command::Command;
use selvedge_core::id::{AttemptIndex, ExecutionId, FlowId, LaneId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::reply::{Record, record, text};
use selvedge_core::state::PublicState;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

pub use count::ExecutionCount;
pub use cursor::{InvalidCursor, ListCursor};
pub use filter::{ExecutionFilter, InvalidCondition, ReasonText};

use crate::client::{Client, ClientError, fields};
use cursor::Position;
use merge::{Entry, Merge};

/// An execution that a filter found, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundExecution {
    /// Its id.
    pub id: ExecutionId,
    /// Its namespace.
    pub namespace: String,
    /// Its lane, as its record names it.
    pub lane: String,
    /// Its kind.
    pub kind: String,
    /// Its state; none if this version does not know the one in the record.
    pub state: Option<PublicState>,
    /// Its flow, if it has one.
    pub flow: Option<FlowId>,
    /// When it was created.
    pub created_at: Option<ServerTime>,
    /// When its state changed last.
    pub moved_at: Option<ServerTime>,
    /// How many attempts it has had.
    pub attempts: u32,
    /// Why it failed or was cancelled; empty otherwise.
    pub reason: String,
    /// The category of the failure of its last attempt; empty if it was not asked for.
    pub category: String,
    attempt: Option<AttemptIndex>,
}

/// A page of a list of executions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecutionPage {
    /// Those that match: ended ones newest first, others by the order of their index.
    pub executions: Vec<FoundExecution>,
    /// Where the list continues; none at its end.
    pub next: Option<ListCursor>,
    /// How many records were read.
    pub examined: u64,
    /// Whether the page ends before its limit because it has read as much as a page may.
    pub is_cut: bool,
}

impl Client {
    /// The next executions that match, at most `limit`. Reads at most 20,000 keys and the heads of
    /// the indexes that are merged: one per partition for up to eight lanes at a time. What changes
    /// its state meanwhile may be missed or returned twice; an execution that is in no index, or in
    /// a lane that is neither named nor registered, is for `fsck`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn find_executions(
        &self,
        filter: &ExecutionFilter,
        from: Option<ListCursor>,
        limit: usize,
    ) -> Result<ExecutionPage, ClientError> {
        self.find_at(filter, from, limit, self.server_time().await?).await
    }

    /// The same at a time that the caller knows: ages do not change between pages.
    pub(super) async fn find_at(
        &self,
        filter: &ExecutionFilter,
        from: Option<ListCursor>,
        limit: usize,
        now: ServerTime,
    ) -> Result<ExecutionPage, ClientError> {
        let (mut page, mut keys_read) = (ExecutionPage::default(), 0);
        let partitions = self.partitions().flow.get();
        for section in self.sections(filter, from).await? {
            let Section { index, lanes, after } = section;
            let here = |after| Some(ListCursor { index, lane: lanes[0].clone(), after });
            if page.executions.len() >= limit || keys_read >= KEYS_MAX {
                page.is_cut = page.executions.len() < limit;
                page.next = here(after);
                return Ok(page);
            }
            let mut merge = Merge::new(index, &lanes, partitions, after, filter.window(now));
            loop {
                let wanted = limit - page.executions.len();
                let room = KEYS_MAX.saturating_sub(keys_read).clamp(1, RECORDS_PER_PIPELINE);
                // Of a filter that only names indexes, no more is read than is returned.
                let most = if filter.is_decided_by_indexes() { room.min(wanted) } else { room };
                let chunk = self.next_entries(&mut merge, most, &mut keys_read).await?;
                let Some(last) = chunk.last().map(|entry| entry.position.clone()) else { break };
                let looked_at = self.look(filter, now, index, chunk, &mut keys_read).await?;
                let mut end = last;
                for (position, execution) in looked_at {
                    page.examined += 1;
                    page.executions.extend(execution);
                    if page.executions.len() == limit {
                        end = position;
                        break;
                    }
                }
                if page.executions.len() == limit || keys_read >= KEYS_MAX {
                    page.is_cut = page.executions.len() < limit;
                    page.next = here(Some(end));
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// What is read one after the other from a cursor on.
    async fn sections(
        &self,
        filter: &ExecutionFilter,
        from: Option<ListCursor>,
    ) -> Result<Vec<Section>, ClientError> {
        let mut lanes = match filter.lanes.is_empty() {
            true => self.lanes().await?,
            false => filter.lanes.clone(),
        };
        lanes.sort();
        lanes.dedup();
        let at_once = (SOURCES_MAX / usize::from(self.partitions().flow.get())).max(1);
        let mut indexes = filter.indexes();
        let mut sections = Vec::new();
        if let Some(ListCursor { index, lane, after }) = from {
            let passed = indexes.iter().position(|other| *other == index);
            indexes.drain(..passed.map_or(indexes.len(), |at| at + 1));
            let rest: Vec<LaneId> = lanes.iter().filter(|other| **other >= lane).cloned().collect();
            let mut after = after.filter(|_| rest.first() == Some(&lane));
            for lanes in rest.chunks(at_once) {
                sections.push(Section { index, lanes: lanes.to_vec(), after: after.take() });
            }
        }
        for index in indexes {
            let chunks = lanes.chunks(at_once);
            sections.extend(chunks.map(|lanes| Section {
                index,
                lanes: lanes.to_vec(),
                after: None,
            }));
        }
        Ok(sections)
    }

    /// The next entries, at most so many.
    async fn next_entries(
        &self,
        merge: &mut Merge,
        most: usize,
        keys_read: &mut usize,
    ) -> Result<Vec<Entry>, ClientError> {
        let mut chunk = Vec::new();
        while chunk.len() < most {
            let reads = merge.reads();
            if reads.is_empty() {
                match merge.next() {
                    Some(entry) => chunk.push(entry),
                    None => break,
                }
            } else {
                *keys_read += reads.len();
                merge.replied(self.read(reads).await?);
            }
        }
        Ok(chunk)
    }

    /// Reads the records of these entries: each with the execution if it matches.
    async fn look(
        &self,
        filter: &ExecutionFilter,
        now: ServerTime,
        index: LaneIndex,
        entries: Vec<Entry>,
        keys_read: &mut usize,
    ) -> Result<Vec<(Position, Option<FoundExecution>)>, ClientError> {
        let ids = entries.iter().map(|entry| entry.position.member.parse::<ExecutionId>().ok());
        let ids: Vec<Option<ExecutionId>> = ids.collect();
        let reads: Vec<Command> = (ids.iter().flatten())
            .map(|id| Command::read("HMGET", &Key::execution(id).core(), &FIELDS))
            .collect();
        *keys_read += reads.len();
        let mut replies = self.read(reads).await?.into_iter();
        let mut looked_at = Vec::with_capacity(entries.len());
        for (entry, id) in entries.into_iter().zip(ids) {
            let ended_at = (index == LaneIndex::Terminal).then(|| entry.ms());
            let found = id.and_then(|id| {
                let record = record(replies.next()?)?;
                Some(found(id, &record)).filter(|found| matches(filter, now, found, ended_at))
            });
            looked_at.push((entry.position, found));
        }
        self.keep_tagged(filter, &mut looked_at, keys_read).await?;
        if !filter.categories.is_empty() {
            let found = looked_at.iter_mut().filter_map(|(_, found)| found.as_mut());
            self.read_categories(found.collect(), keys_read).await?;
            for (_, found) in &mut looked_at {
                *found = found.take().filter(|one| filter.categories.contains(&one.category));
            }
        }
        Ok(looked_at)
    }

    async fn keep_tagged(
        &self,
        filter: &ExecutionFilter,
        looked_at: &mut [(Position, Option<FoundExecution>)],
        keys_read: &mut usize,
    ) -> Result<(), ClientError> {
        if filter.tags.is_empty() {
            return Ok(());
        }
        let names: Vec<&[u8]> = filter.tags.iter().map(|(name, _)| name.as_bytes()).collect();
        let left = looked_at.iter().filter_map(|(_, found)| found.as_ref());
        let reads: Vec<Command> = left
            .map(|one| Command::read("HMGET", &Key::execution(&one.id).tags(), &names))
            .collect();
        *keys_read += reads.len();
        let mut replies = self.read(reads).await?.into_iter();
        for (_, found) in looked_at.iter_mut().filter(|(_, found)| found.is_some()) {
            let values = fields(replies.next().unwrap_or(Value::Nil));
            let has_all = values.len() == filter.tags.len()
                && values.iter().zip(&filter.tags).all(|(value, (_, wanted))| value == wanted);
            *found = found.take().filter(|_| has_all);
        }
        Ok(())
    }

    /// Fills in how the last attempts of these executions failed.
    pub(super) async fn read_categories(
        &self,
        all: Vec<&mut FoundExecution>,
        keys_read: &mut usize,
    ) -> Result<(), ClientError> {
        let mut attempted: Vec<(AttemptIndex, &mut FoundExecution)> =
            all.into_iter().filter_map(|one| Some((one.attempt?, one))).collect();
        for some in attempted.chunks_mut(RECORDS_PER_PIPELINE) {
            let reads: Vec<Command> = some
                .iter()
                .map(|(attempt, one)| {
                    let key = Key::execution(&one.id).attempt(*attempt);
                    Command::read("HGET", &key, &[b"failure_category"])
                })
                .collect();
            *keys_read += reads.len();
            for ((_, one), reply) in some.iter_mut().zip(self.read(reads).await?) {
                one.category = text(reply);
            }
        }
        Ok(())
    }
}

/// One index of several lanes, which are merged.
struct Section {
    index: LaneIndex,
    /// At least one.
    lanes: Vec<LaneId>,
    after: Option<Position>,
}

fn found(id: ExecutionId, record: &Record) -> FoundExecution {
    let field = |at: usize| record.field(at).to_owned();
    let state = record.field(0).parse().ok();
    // Reasons of earlier ends stay in the record.
    let reason = match state {
        Some(PublicState::Cancelled) => field(9),
        Some(PublicState::Completed | PublicState::Skipped) => String::new(),
        Some(_) | None => field(8),
    };
    FoundExecution {
        id,
        state,
        namespace: field(1),
        lane: field(2),
        kind: field(3),
        flow: record.field(4).parse().ok(),
        created_at: record.field(5).parse().ok(),
        moved_at: record.field(6).parse().ok(),
        attempts: record.field(7).parse().unwrap_or(0),
        reason,
        category: String::new(),
        attempt: record.field(10).parse().ok(),
    }
}

/// Whether what the record itself says matches. For an ended execution the index says when.
fn matches(
    filter: &ExecutionFilter,
    now: ServerTime,
    found: &FoundExecution,
    ended_at: Option<i64>,
) -> bool {
    let any = |list: &[String], value: &String| list.is_empty() || list.contains(value);
    let (first, last) = filter.window(now);
    let moved_at = ended_at.or(found.moved_at.map(|at| at.0)).unwrap_or(0);
    let in_namespace = match &filter.namespace {
        Some(wanted) => found.namespace.is_empty() || found.namespace == *wanted,
        None => true,
    };
    in_namespace
        && (filter.states.is_empty() || found.state.is_some_and(|one| filter.states.contains(&one)))
        && any(&filter.kinds, &found.kind)
        && filter.allows_reason(&found.reason)
        && (first..=last).contains(&moved_at)
}

const FIELDS: [&[u8]; 11] = [
    b"public_state",
    b"namespace",
    b"lane_id",
    b"execution_kind",
    b"flow_id",
    b"created_at",
    b"last_transition_at",
    b"total_attempt_count",
    b"failure_reason",
    b"cancellation_reason",
    b"current_attempt_index",
];

/// Most keys that a page reads before it ends; the last read of a page may go a little beyond.
const KEYS_MAX: usize = 20_000;
/// Most indexes that are merged at a time, unless one lane has more.
const SOURCES_MAX: usize = 2_048;
/// Records read in one pipeline.
const RECORDS_PER_PIPELINE: usize = 1_000;
