//! Lists executions, flows and the tasks of a flow, page by page. Each page costs a bounded number
//! of bounded reads.

use selvedge_core::command::Command;
use selvedge_core::id::{ExecutionId, FlowId, LaneId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::reply::{fields, text};
use selvedge_core::state::PublicState;
use selvedge_core::value::Value;

use super::invalid_input::InvalidInput;
use super::{Client, ClientError};

/// Where a list of executions continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutionCursor {
    partition: u16,
    offset: u64,
}

/// Where a list of flows continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCursor {
    partition: u16,
    scan: u64,
}

impl std::fmt::Display for FlowCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.partition, self.scan)
    }
}

impl FlowCursor {
    /// The cursor that was written as this text.
    #[cfg(feature = "inspect")]
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (partition, scan) = text.split_once('/')?;
        Some(Self { partition: partition.parse().ok()?, scan: scan.parse().ok()? })
    }
}

/// Where a list of the tasks of a flow continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCursor(u64);

/// An execution in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedExecution {
    /// Its id.
    pub id: ExecutionId,
    /// Its kind.
    pub kind: String,
    /// Its state; `None` when its record was deleted.
    pub state: Option<PublicState>,
}

impl Client {
    /// Executions in one index of a lane: [`LaneIndex::Eligible`] for waiting ones,
    /// [`LaneIndex::Active`] for running, [`LaneIndex::Terminal`] for ended. Returns at least
    /// `limit` (1 to 1,000) unless the end is reached. Start with the default cursor; `None` is
    /// the end.
    ///
    /// # Errors
    /// [`ClientError::InvalidInput`] for another limit; otherwise when the store does not answer.
    pub async fn executions(
        &self,
        lane: &LaneId,
        index: LaneIndex,
        from: ExecutionCursor,
        limit: u32,
    ) -> Result<(Vec<ExecutionId>, Option<ExecutionCursor>), ClientError> {
        let limit = u64::from(check_limit(limit, PAGE_MAX)?);
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut found, mut at) = (Vec::new(), from);
        while at.partition < self.partitions().flow.get() && found.len() < wanted {
            let last = at.partition.saturating_add(PARTITIONS_PER_ROUND_TRIP);
            let partitions = at.partition..last.min(self.partitions().flow.get());
            let reads = partitions
                .clone()
                .map(|index_of| {
                    let offset = if index_of == at.partition { at.offset } else { 0 };
                    let key = Key::index(Partition::flow(index_of)).lane(lane, index);
                    let (first, last) = (offset.to_string(), (offset + limit - 1).to_string());
                    Command::read("ZRANGE", &key, &[first.as_bytes(), last.as_bytes()])
                })
                .collect();
            let replies = self.read(reads).await?;
            for (partition, reply) in partitions.zip(replies) {
                let offset = if partition == at.partition { at.offset } else { 0 };
                let page = fields(reply);
                let count = u64::try_from(page.len()).unwrap_or(u64::MAX);
                found.extend(page.iter().filter_map(|id| id.parse::<ExecutionId>().ok()));
                if count == limit {
                    at = ExecutionCursor { partition, offset: offset + count };
                    return Ok((found, Some(at)));
                }
                at = ExecutionCursor { partition: partition + 1, offset: 0 };
                if found.len() >= wanted {
                    break;
                }
            }
        }
        let more = at.partition < self.partitions().flow.get();
        Ok((found, more.then_some(at)))
    }

    /// Flows of the deployment, about `limit` (1 to 1,000) per page. Start with the default
    /// cursor; `None` is the end. As with `SCAN`, a flow may be returned twice.
    ///
    /// # Errors
    /// [`ClientError::InvalidInput`] for another limit; otherwise when the store does not answer.
    pub async fn flows(
        &self,
        from: FlowCursor,
        limit: u32,
    ) -> Result<(Vec<FlowId>, Option<FlowCursor>), ClientError> {
        let limit = check_limit(limit, PAGE_MAX)?;
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut found, mut at) = (Vec::new(), from);
        while at.partition < self.partitions().flow.get() && found.len() < wanted {
            let key = Key::index(Partition::flow(at.partition)).flow_index();
            let (next, members) = self.scan(&key, at.scan, limit).await?;
            found.extend(members.iter().filter_map(|id| id.parse::<FlowId>().ok()));
            at = match next {
                0 => FlowCursor { partition: at.partition + 1, scan: 0 },
                scan => FlowCursor { scan, ..at },
            };
        }
        let more = at.partition < self.partitions().flow.get();
        Ok((found, more.then_some(at)))
    }

    /// Tasks of a flow with their states, about `limit` (1 to 1,000) per page. Start with the
    /// default cursor; `None` is the end. As with `SCAN`, a task may be returned twice.
    ///
    /// # Errors
    /// [`ClientError::InvalidInput`] for another limit; otherwise when the store does not answer.
    pub async fn flow_members(
        &self,
        flow: FlowId,
        from: MemberCursor,
        limit: u32,
    ) -> Result<(Vec<ListedExecution>, Option<MemberCursor>), ClientError> {
        let key = Key::flow(self.partitions().of_flow(flow), flow).members();
        let (next, members) = self.scan(&key, from.0, check_limit(limit, PAGE_MAX)?).await?;
        let ids: Vec<ExecutionId> = members.iter().filter_map(|id| id.parse().ok()).collect();
        let listed = self.states(ids).await?;
        Ok((listed, (next != 0).then_some(MemberCursor(next))))
    }

    /// The kinds and states of these executions. One round trip.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn states(&self, ids: Vec<ExecutionId>) -> Result<Vec<ListedExecution>, ClientError> {
        let names: [&[u8]; 2] = [b"execution_kind", b"public_state"];
        let reads = ids
            .iter()
            .map(|id| Command::read("HMGET", &Key::execution(id).core(), &names))
            .collect();
        let replies = self.read(reads).await?;
        let listed = ids.into_iter().zip(replies).map(|(id, reply)| {
            let mut record = fields(reply).into_iter();
            let kind = record.next().unwrap_or_default();
            let state = record.next().and_then(|word| word.parse().ok());
            ListedExecution { id, kind, state }
        });
        Ok(listed.collect())
    }

    async fn scan(
        &self,
        key: &Key,
        cursor: u64,
        count: u32,
    ) -> Result<(u64, Vec<String>), ClientError> {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        let rest: [&[u8]; 3] = [cursor.as_bytes(), b"COUNT", count.as_bytes()];
        let Value::Array(parts) = self.read_one(Command::read("SSCAN", key, &rest)).await? else {
            return Ok((0, Vec::new()));
        };
        let mut parts = parts.into_iter();
        let next = parts.next().map(text).unwrap_or_default();
        let members = parts.next().map(fields).unwrap_or_default();
        Ok((next.parse().unwrap_or(0), members))
    }
}

/// Checks the size of a page.
pub(super) fn check_limit(limit: u32, most: u32) -> Result<u32, InvalidInput> {
    (1..=most).contains(&limit).then_some(limit).ok_or(InvalidInput::PageLimit { limit, most })
}

/// Most entries of one page.
const PAGE_MAX: u32 = 1_000;
/// Partitions read in one round trip.
const PARTITIONS_PER_ROUND_TRIP: u16 = 32;

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;
    use selvedge_core::id::AttemptIndex;

    #[tokio::test]
    async fn a_page_size_out_of_range_is_refused_and_not_changed() {
        let client = Client::connect("memory://").await.expect("memory:// needs no server");
        let lane = "default".parse().expect("a lane");
        let flow = FlowId::from(uuid::Uuid::nil());
        let execution = ExecutionId::new(0, uuid::Uuid::nil());
        for limit in [0, PAGE_MAX + 1] {
            let (index, start) = (LaneIndex::Eligible, ExecutionCursor::default());
            let refused = [
                client.executions(&lane, index, start, limit).await.err(),
                client.flows(FlowCursor::default(), limit).await.err(),
                client.flow_members(flow, MemberCursor::default(), limit).await.err(),
            ];
            for error in refused {
                let text = error.expect("out of range").to_string();
                assert_eq!(text, format!("limit must be from 1 to 1000, got {limit}"));
            }
        }
        assert!(client.flows(FlowCursor::default(), PAGE_MAX).await.is_ok());
        for limit in [0, 10_001] {
            let refused = client.frames(&execution, AttemptIndex(0), None, limit).await;
            assert!(matches!(refused, Err(ClientError::InvalidInput(_))), "{refused:?}");
        }
    }
}
