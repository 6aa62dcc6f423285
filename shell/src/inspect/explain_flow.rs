//! Explains what a flow waits for as a whole.

use std::collections::BTreeSet;

use selvedge_core::engine::EngineConfig;
use selvedge_core::explain::{self, Causes};
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::state::PublicState;

use crate::client::{Client, ClientError, FlowRecord, MemberCursor};

/// What a flow waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlowExplanation {
    /// The flow's own record.
    pub flow: FlowRecord,
    /// Its executions by what they wait for.
    pub causes: Causes,
    /// How many executions were not looked at: a flow may have more than are read.
    pub unread: u64,
}

impl Client {
    /// Explains what a flow waits for: its executions that do not move, by reason, worst first. At
    /// most 20,000 executions are listed, 500 in two round trips, and at most 5,000 of those that
    /// have not ended are explained, a hundred in at most six round trips; those that wait for
    /// other executions come last.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when the flow does not exist; otherwise when the store does not
    /// answer.
    pub async fn explain_flow(
        &self,
        id: FlowId,
        config: &EngineConfig,
    ) -> Result<FlowExplanation, ClientError> {
        let flow = self.flow(id).await?;
        let (mut ended, mut seen) = (0, BTreeSet::new());
        let mut open: BTreeSet<(bool, ExecutionId)> = BTreeSet::new();
        let mut cursor = Some(MemberCursor::default());
        while let Some(from) = cursor
            && seen.len() < LISTED_MAX
        {
            let (page, next) = self.flow_members(id, from, MEMBERS_PER_PAGE).await?;
            for member in page {
                if !seen.insert(member.id.clone()) {
                    continue;
                }
                match member.state {
                    // One without a record has ended and was purged.
                    None => ended += 1,
                    Some(state) if state.is_end() => ended += 1,
                    Some(state) => {
                        open.insert((state == PublicState::WaitingChildren, member.id));
                    }
                }
            }
            cursor = next;
        }
        let listed = u64::try_from(seen.len()).unwrap_or(u64::MAX);
        let unlisted = cursor.map_or(0, |_| flow.node_count.saturating_sub(listed));
        let unexplained = open.len().saturating_sub(EXPLAINED_MAX);
        let open: Vec<ExecutionId> =
            open.into_iter().take(EXPLAINED_MAX).map(|(_, id)| id).collect();
        let mut causes = explain::causes(self.explain_many(&open, config).await?);
        causes.ended += ended;
        let unread = unlisted + u64::try_from(unexplained).unwrap_or(u64::MAX);
        Ok(FlowExplanation { flow, causes, unread })
    }
}

/// Executions listed in one read.
const MEMBERS_PER_PAGE: u32 = 500;
/// Most executions of a flow that are listed.
const LISTED_MAX: usize = 20_000;
/// Most executions of a flow that are explained.
const EXPLAINED_MAX: usize = 5_000;
