//! Pauses, resumes, drains and forgets lanes.

use selvedge_core::call::scheduling::{LaneStateSet, SetLaneState};
use selvedge_core::client::{ForgetLane, LaneForgotten};
use selvedge_core::id::LaneId;
use selvedge_core::lane_state::{LaneState, LaneStates};

use super::{Client, ClientError};

impl Client {
    /// The states of the lanes that are not active.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn lane_states(&self) -> Result<LaneStates, ClientError> {
        self.read_one(LaneStates::read_command()).await.map(LaneStates::read)
    }

    /// Pauses a lane: workers claim nothing from it until [`Client::resume_lane`], at the latest
    /// five seconds from now. What runs goes on, and work is still accepted. Returns the state
    /// before.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn pause_lane(&self, lane: &LaneId) -> Result<LaneState, ClientError> {
        self.set_lane_state(lane, LaneState::Paused).await
    }

    /// Drains a lane: clients submit nothing new to it, at the latest five seconds from now. What
    /// was accepted is claimed and runs to its end, replays included. Returns the state before.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn drain_lane(&self, lane: &LaneId) -> Result<LaneState, ClientError> {
        self.set_lane_state(lane, LaneState::Draining).await
    }

    /// Ends the pause or the drain of a lane. Returns the state before.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn resume_lane(&self, lane: &LaneId) -> Result<LaneState, ClientError> {
        self.set_lane_state(lane, LaneState::Active).await
    }

    async fn set_lane_state(
        &self,
        lane: &LaneId,
        state: LaneState,
    ) -> Result<LaneState, ClientError> {
        let call = SetLaneState { lane_id: lane.clone(), state };
        Ok(match self.call_with_retry(&call).await? {
            LaneStateSet::Changed(before) => before.unwrap_or(LaneState::Paused),
            LaneStateSet::Unchanged => state,
        })
    }

    /// Removes a lane from the registry if nothing is in it, ended executions included, so that
    /// engines scan it no longer. Takes ten seconds: clients may use the lane meanwhile, and then
    /// it stays. Its next use registers it again.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn forget_lane(&self, lane: &LaneId) -> Result<LaneForgotten, ClientError> {
        self.run(ForgetLane::new(lane.clone(), *self.partitions())).await
    }
}
