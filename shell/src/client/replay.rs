//! Replays executions, with the upstreams that they need, and flows from their failed tasks on.

use std::collections::{BTreeSet, VecDeque};

use selvedge_core::client::{Replay, ReplayNeeds};
use selvedge_core::command::Command;
use selvedge_core::id::{EdgeId, ExecutionId, FlowId};
use selvedge_core::key::Key;
use selvedge_core::state::PublicState;

pub use selvedge_core::client::ReplayNeed;

use super::list::MemberCursor;
use super::{Client, ClientError, fields, text};

impl Client {
    /// Runs an ended execution again, with the same payload. It first waits for dependencies that
    /// were replayed as well.
    ///
    /// # Errors
    /// [`ClientError::NeedsUpstreams`] when it would wait for an upstream that has failed and does
    /// not run again; when it does not exist or has not ended, its replays are used up, its flow
    /// was cancelled, or the store does not answer.
    pub async fn replay(&self, id: &ExecutionId) -> Result<(), ClientError> {
        let needs = self.replay_needs(id).await?;
        if !needs.is_empty() {
            return Err(ClientError::NeedsUpstreams { id: id.clone(), needs });
        }
        self.run(Replay::new(id.clone())).await
    }

    /// The upstreams that have to be replayed with an execution: without their success it cannot
    /// run.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn replay_needs(&self, id: &ExecutionId) -> Result<Vec<ReplayNeed>, ClientError> {
        self.run(ReplayNeeds::new(id.clone())).await
    }

    /// Replays an execution and every upstream that it needs, and what those need.
    /// Returns all of them, upstreams first.
    ///
    /// # Errors
    /// [`ClientError::NeedsUpstreams`] when the record of one of them is gone; otherwise as
    /// [`Client::replay`]. Those behind the one that failed are replayed then.
    pub async fn replay_with_upstreams(
        &self,
        id: &ExecutionId,
    ) -> Result<Vec<ExecutionId>, ClientError> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::from([id.clone()]));
        let mut todo = vec![(id.clone(), false)];
        while let Some((id, is_expanded)) = todo.pop() {
            if is_expanded {
                order.push(id);
                continue;
            }
            let needs = self.replay_needs(&id).await?;
            if needs.iter().any(|need| need.outcome.is_empty()) {
                return Err(ClientError::NeedsUpstreams { id, needs });
            }
            todo.push((id, true));
            for need in needs {
                if seen.insert(need.upstream.clone()) {
                    todo.push((need.upstream, false));
                }
            }
        }
        self.replay_last_first(&order).await?;
        Ok(order)
    }

    /// Replays a list that begins with upstreams from its end on: an upstream that is replayed may
    /// end again at once, and a child that is replayed after that would wait for a further replay.
    async fn replay_last_first(&self, order: &[ExecutionId]) -> Result<(), ClientError> {
        for id in order.iter().rev() {
            self.run(Replay::new(id.clone())).await?;
        }
        Ok(())
    }

    /// Goes on with a flow from the tasks that failed or timed out: replays them, and then the
    /// tasks that were skipped because of them. Returns all of them, upstreams first;
    /// none if no task failed.
    ///
    /// # Errors
    /// As for [`Client::replay`]. Those behind the one that failed are replayed then.
    pub async fn replay_flow(&self, id: FlowId) -> Result<Vec<ExecutionId>, ClientError> {
        let mut skipped = BTreeSet::new();
        let mut replayed = Vec::new();
        let mut cursor = MemberCursor::default();
        loop {
            let (page, next) = self.flow_members(id, cursor, PAGE).await?;
            for task in page {
                if matches!(task.state, Some(PublicState::Failed | PublicState::Expired)) {
                    replayed.push(task.id);
                } else if task.state == Some(PublicState::Skipped) {
                    skipped.insert(task.id);
                }
            }
            let Some(next) = next else { break };
            cursor = next;
        }
        replayed.sort();
        replayed.dedup();
        let mut queue: VecDeque<ExecutionId> = replayed.iter().cloned().collect();
        while let Some(upstream) = queue.pop_front() {
            for child in self.children_of(id, &upstream).await? {
                if !skipped.contains(&child) {
                    continue;
                }
                // It is looked at again when the next of its upstreams is listed.
                let needs = self.replay_needs(&child).await?;
                if needs.iter().all(|need| replayed.contains(&need.upstream)) {
                    skipped.remove(&child);
                    replayed.push(child.clone());
                    queue.push_back(child);
                }
            }
        }
        self.replay_last_first(&replayed).await?;
        Ok(replayed)
    }

    async fn children_of(
        &self,
        flow: FlowId,
        upstream: &ExecutionId,
    ) -> Result<Vec<ExecutionId>, ClientError> {
        let keys = Key::flow(self.partitions().of_flow(flow), flow);
        let edges = self.read_one(Command::read("SMEMBERS", &keys.out_of(upstream), &[])).await?;
        let edges = fields(edges).into_iter().filter_map(|edge| edge.parse::<EdgeId>().ok());
        let read = |edge| Command::read("HGET", &keys.edge(edge), &[b"downstream_execution_id"]);
        let children = self.read(edges.map(read).collect()).await?;
        Ok(children.into_iter().filter_map(|child| text(child).parse().ok()).collect())
    }
}

/// Tasks listed in one round trip.
const PAGE: u32 = 500;
