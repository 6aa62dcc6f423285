//! How far flows are, counted from their tasks: the summaries in their records are those of the
//! engine's last scan cycle.

use selvedge_core::command::Command;
use selvedge_core::key::Key;
use selvedge_core::state::{MemberCounts, PublicState};

use crate::client::{Client, ClientError, FlowRecord, fields};

/// How far a flow is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowProgress {
    /// Its state: `open`, `blocked`, `running`, `completed`, `failed` or `cancelled`.
    pub state: String,
    /// How many of its tasks have completed; unknown if neither counted nor summarised.
    pub completed: Option<u64>,
    /// How many of its tasks have failed.
    pub failed: Option<u64>,
    /// Whether all of its tasks have ended.
    pub has_ended: bool,
    /// Whether the tasks were counted now; else this is the engine's last summary.
    pub is_counted: bool,
}

impl Client {
    /// How far these flows are, in the same order. Counts the tasks of flows of at most 1,000
    /// tasks, until 20,000 tasks are counted; the others have the engine's last summary.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn flow_progress(
        &self,
        flows: &[FlowRecord],
    ) -> Result<Vec<FlowProgress>, ClientError> {
        let (mut all, mut left) = (Vec::with_capacity(flows.len()), TASKS_IN_ALL);
        for flow in flows {
            let is_small = flow.node_count <= TASKS_PER_FLOW && flow.node_count <= left;
            all.push(match is_small {
                true => {
                    left -= flow.node_count;
                    self.count(flow).await?
                }
                false => summarised(flow),
            });
        }
        Ok(all)
    }

    async fn count(&self, flow: &FlowRecord) -> Result<FlowProgress, ClientError> {
        let key = Key::flow(self.partitions().of_flow(flow.id), flow.id).members();
        let most = TASKS_PER_FLOW.to_string();
        // Of a set that is larger than its flow's record says, no more than this are taken.
        let members = Command::read("SRANDMEMBER", &key, &[most.as_bytes()]);
        let members = fields(self.read_one(members).await?);
        let ids = members.iter().filter_map(|id| id.parse().ok()).collect();
        let listed = self.states(ids).await?;
        let states = listed.iter().map(|one| one.state.map_or("", |state| state.as_str()));
        let states: Vec<&str> = states.collect();
        let mut counts = MemberCounts::default();
        states.iter().for_each(|state| counts.add(state));
        counts.restore_purged(&flow.summary);
        let of = |word: &str| states.iter().filter(|state| **state == word).count() as u64;
        let is_end =
            |state: &&str| state.is_empty() || state.parse().is_ok_and(PublicState::is_end);
        Ok(FlowProgress {
            state: counts.state(&flow.state).as_str().to_owned(),
            completed: Some(of("completed")),
            failed: Some(of("failed")),
            has_ended: !states.is_empty() && states.iter().all(is_end),
            is_counted: true,
        })
    }
}

fn summarised(flow: &FlowRecord) -> FlowProgress {
    let count = |name: &str| flow.summary.get(name).and_then(|count| count.parse().ok());
    FlowProgress {
        state: flow.public_state().to_owned(),
        completed: count("members_completed"),
        failed: count("members_failed"),
        has_ended: false,
        is_counted: false,
    }
}

/// Most tasks of a flow whose tasks are counted.
const TASKS_PER_FLOW: u64 = 1_000;
/// Most tasks that are counted for one list.
const TASKS_IN_ALL: u64 = 20_000;
