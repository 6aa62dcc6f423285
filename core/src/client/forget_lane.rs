//! Removes a lane from the registry, so that engines scan it no longer.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Procedure, Replies, Step};
use crate::call::scheduling::SetLaneState;
use crate::command::Command;
use crate::id::LaneId;
use crate::key::{Key, LaneIndex};
use crate::lane_state::{LaneState, LaneStates};
use crate::partition::{Partition, PartitionCounts};
use crate::value::Value;

/// Removes a lane from the registry if nothing is in it, in no partition and no state. Clients go
/// on by a registration for [`LaneStates::FRESH_FOR`]: so the procedure waits, looks again, and
/// registers the lane again if something came.
pub struct ForgetLane {
    lane: LaneId,
    counts: PartitionCounts,
    stage: Stage,
}

/// What became of a lane that was to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneForgotten {
    /// It is not in the registry any more.
    Forgotten,
    /// So many executions are in it, ended ones included; it stays.
    InUse(u64),
    /// It was registered again meanwhile: an engine is configured with it, or it was used.
    Returned,
}

enum Stage {
    /// The sizes of its indexes are being read.
    Counting,
    /// It is being removed.
    Removing,
    /// The sizes are being read again, and whether it is listed.
    CountingAgain,
    /// It is being registered again.
    Restoring(u64),
}

impl ForgetLane {
    /// Removes this lane from the registry of a deployment with these counts.
    #[must_use]
    pub const fn new(lane: LaneId, counts: PartitionCounts) -> Self {
        Self { lane, counts, stage: Stage::Counting }
    }

    fn count(&self) -> Vec<Command> {
        let indexes = LaneIndex::ALL.iter();
        let keys = indexes.flat_map(|index| {
            (0..self.counts.flow.get())
                .map(|at| Key::index(Partition::flow(at)).lane(&self.lane, *index))
        });
        keys.map(|key| Command::read("ZCARD", &key, &[])).collect()
    }

    fn listed(&self, name: &str) -> Command {
        let member = [self.lane.as_str().as_bytes()];
        match name {
            "SISMEMBER" => Command::read(name, &Key::Lanes, &member),
            _ => Command::write(name, &Key::Lanes, &member),
        }
    }
}

impl Procedure for ForgetLane {
    type Output = LaneForgotten;

    fn begin(&mut self) -> Step<LaneForgotten> {
        self.stage = Stage::Counting;
        Step::Send(self.count())
    }

    fn replied(&mut self, replies: Replies) -> Step<LaneForgotten> {
        let mut values = replies.into_values();
        match self.stage {
            Stage::Counting => match sum(&values) {
                0 => {
                    self.stage = Stage::Removing;
                    let active =
                        SetLaneState { lane_id: self.lane.clone(), state: LaneState::Active };
                    Step::Send(vec![self.listed("SREM"), Command::call(&active)])
                }
                found => Step::Done(Ok(LaneForgotten::InUse(found))),
            },
            Stage::Removing => Step::Wait { poll_within: SETTLE, coalesce: SETTLE },
            Stage::CountingAgain => {
                let is_listed = values.pop() == Some(Value::Int(1));
                match (sum(&values), is_listed) {
                    (0, false) => Step::Done(Ok(LaneForgotten::Forgotten)),
                    (0, true) => Step::Done(Ok(LaneForgotten::Returned)),
                    (found, _) => {
                        self.stage = Stage::Restoring(found);
                        Step::Send(vec![self.listed("SADD")])
                    }
                }
            }
            Stage::Restoring(found) => Step::Done(Ok(LaneForgotten::InUse(found))),
        }
    }

    fn resumed(&mut self) -> Step<LaneForgotten> {
        self.stage = Stage::CountingAgain;
        let mut commands = self.count();
        commands.push(self.listed("SISMEMBER"));
        Step::Send(commands)
    }
}

fn sum(replies: &[Value]) -> u64 {
    let size = |reply: &Value| {
        if let Value::Int(size) = reply { u64::try_from(*size).unwrap_or(0) } else { 0 }
    };
    replies.iter().map(size).sum()
}

/// Until then every client has registered the lane again before it uses it, and what was sent
/// before was carried out.
const SETTLE: Duration = Duration::from_secs(LaneStates::FRESH_FOR.as_secs() * 2);
