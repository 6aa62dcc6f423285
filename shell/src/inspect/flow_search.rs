//! Lists flows by a filter, page by page: those that have not ended by their index, those that have
//! through their ended executions, since no index names them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use futures_util::stream::{self, StreamExt};
use selvedge_core::id::FlowId;
use selvedge_core::state::PublicState;
use selvedge_core::time::ServerTime;

use super::FlowProgress;
use super::listing::{ExecutionFilter, InvalidCursor, ListCursor};
use crate::client::{Client, ClientError, FlowCursor, FlowRecord};

/// Which flows. An empty list allows all; each of the others has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowFilter {
    /// Those that have ended, instead of those that have not.
    pub ended: bool,
    /// Those of this namespace; a flow without one belongs to all.
    pub namespace: Option<String>,
    /// Those in one of these states: `open`, `blocked`, `running`, `completed`, …
    pub states: Vec<String>,
    /// Those of one of these kinds.
    pub kinds: Vec<String>,
    /// Those with all of these tags.
    pub tags: Vec<(String, String)>,
}

/// A flow that a filter found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundFlow {
    /// Its record.
    pub flow: FlowRecord,
    /// How far it is, or how it ended.
    pub progress: FlowProgress,
    /// When the last of its tasks ended that the list has met; none for one that has not ended.
    pub ended_at: Option<ServerTime>,
}

/// A page of a list of flows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FlowPage {
    /// The flows that match; ended ones in the order in which the list met their last tasks.
    pub flows: Vec<FoundFlow>,
    /// Where the list continues; none at its end.
    pub next: Option<FlowListCursor>,
    /// Whether the page ends before its limit because it has read as much as a page may.
    pub is_cut: bool,
    /// How many flows of other namespaces were passed over.
    pub of_others: u64,
    /// How many flows were read.
    pub examined: u64,
}

/// Where a list of flows continues, as text that can be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowListCursor {
    /// In the index of flows.
    Open(FlowCursor),
    /// Among ended executions.
    Ended(ListCursor),
}

impl fmt::Display for FlowListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(cursor) => write!(f, "flows/{cursor}"),
            Self::Ended(cursor) => cursor.fmt(f),
        }
    }
}

impl FromStr for FlowListCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        match text.strip_prefix("flows/").and_then(FlowCursor::read) {
            Some(cursor) => Ok(Self::Open(cursor)),
            None => text.parse().map(Self::Ended),
        }
    }
}

impl Client {
    /// The next flows that match, about `limit` and not many more. Reads at most 2,000 flows, and
    /// 20,000 executions to find ended ones. A flow may be returned again by a later page: as with
    /// `SCAN`, and when its tasks ended far apart.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn find_flows(
        &self,
        filter: &FlowFilter,
        from: Option<FlowListCursor>,
        limit: usize,
    ) -> Result<FlowPage, ClientError> {
        let (mut page, mut seen, mut tasks) = (FlowPage::default(), BTreeSet::new(), 0);
        let start = match filter.ended {
            true => None,
            false => Some(FlowListCursor::Open(FlowCursor::default())),
        };
        let mut from = from.or(start);
        loop {
            let wanted = limit.saturating_sub(page.flows.len()).clamp(1, FLOWS_PER_STEP);
            let (met, next) = match from.take() {
                Some(FlowListCursor::Open(cursor)) => {
                    let count = u32::try_from(wanted).unwrap_or(1);
                    let (flows, next) = self.flows(cursor, count).await?;
                    let flows = flows.into_iter().map(|id| (id, None)).collect();
                    (flows, next.map(FlowListCursor::Open))
                }
                Some(FlowListCursor::Ended(cursor)) => {
                    self.ended_flows(filter, Some(cursor), &mut tasks).await?
                }
                None => self.ended_flows(filter, None, &mut tasks).await?,
            };
            let new = met.into_iter().filter(|(id, _)| seen.insert(*id)).collect();
            self.add_flows(filter, &mut page, new).await?;
            let is_full = page.flows.len() >= limit;
            page.is_cut = !is_full && (page.examined >= FLOWS_MAX || tasks >= TASKS_MAX);
            if next.is_none() || is_full || page.is_cut {
                page.is_cut &= next.is_some();
                page.next = next;
                return Ok(page);
            }
            from = next;
        }
    }

    /// Flows of the executions that ended last, each with the time of that end.
    async fn ended_flows(
        &self,
        filter: &FlowFilter,
        from: Option<ListCursor>,
        tasks: &mut u64,
    ) -> Result<(Vec<(FlowId, Option<ServerTime>)>, Option<FlowListCursor>), ClientError> {
        let mut of_tasks = ExecutionFilter::default();
        of_tasks.namespace.clone_from(&filter.namespace);
        of_tasks.states = PublicState::ALL.iter().copied().filter(|one| one.is_end()).collect();
        let page = self.find_executions(&of_tasks, from, TASKS_PER_STEP).await?;
        *tasks += page.examined;
        let flows =
            page.executions.into_iter().filter_map(|task| Some((task.flow?, task.moved_at)));
        Ok((flows.collect(), page.next.map(FlowListCursor::Ended)))
    }

    async fn add_flows(
        &self,
        filter: &FlowFilter,
        page: &mut FlowPage,
        met: Vec<(FlowId, Option<ServerTime>)>,
    ) -> Result<(), ClientError> {
        let reads = met.into_iter().map(|(id, at)| async move { (at, self.flow(id).await) });
        let mut reads = stream::iter(reads).buffered(READ_AT_ONCE);
        let (mut flows, mut times) = (Vec::new(), Vec::new());
        while let Some((ended_at, read)) = reads.next().await {
            let flow = match read {
                Ok(flow) => flow,
                // It was purged meanwhile.
                Err(ClientError::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            page.examined += 1;
            let is_other =
                |wanted: &String| !flow.namespace.is_empty() && flow.namespace != *wanted;
            if filter.namespace.as_ref().is_some_and(is_other) {
                page.of_others += 1;
            } else if filter.fits(&flow) {
                flows.push(flow);
                times.push(ended_at);
            }
        }
        let progress = self.flow_progress(&flows).await?;
        for ((flow, progress), ended_at) in flows.into_iter().zip(progress).zip(times) {
            let is_wanted = filter.states.is_empty() || filter.states.contains(&progress.state);
            if has_ended(&progress) == filter.ended && is_wanted {
                page.flows.push(FoundFlow { flow, progress, ended_at });
            }
        }
        Ok(())
    }
}

impl FlowFilter {
    /// Whether what the flow's own record says matches.
    fn fits(&self, flow: &FlowRecord) -> bool {
        let has = |(name, value): &(String, String)| flow.tags.get(name) == Some(value);
        (self.kinds.is_empty() || self.kinds.contains(&flow.kind)) && self.tags.iter().all(has)
    }
}

/// Whether all tasks have ended, as far as is known of a large flow.
fn has_ended(progress: &FlowProgress) -> bool {
    let ends = ["completed", "failed", "cancelled"];
    progress.has_ended || (!progress.is_counted && ends.contains(&progress.state.as_str()))
}

/// Flows read at a time.
const FLOWS_PER_STEP: usize = 100;
/// Most flows that are read for one page.
const FLOWS_MAX: u64 = 2_000;
/// Ended tasks that are read at a time to find flows.
const TASKS_PER_STEP: usize = 100;
/// Most ended tasks that are read for one page.
const TASKS_MAX: u64 = 20_000;
/// Records read at the same time.
const READ_AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for text in ["flows/3/12345678901234567890", "terminal/default"] {
            let cursor: FlowListCursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
        }
        assert!("flows/3".parse::<FlowListCursor>().is_err());
    }
}
