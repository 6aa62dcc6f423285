//! What an operator wants done with a lane: one hash of the deployment, which workers and clients
//! read now and then. The usual path of a task never reads it.
//!
//! | state | workers | clients |
//! | --- | --- | --- |
//! | active | claim | submit |
//! | paused | claim nothing; what runs goes on | submit |
//! | draining | claim | submit nothing new |

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use crate::command::Command;
use crate::id::LaneId;
use crate::key::Key;
use crate::reply::text_hash;
use crate::time::ServerTime;
use crate::value::Value;

wire_enum! {
    /// What an operator wants done with a lane.
    pub enum LaneState {
        /// Work is accepted and claimed. Nothing is stored.
        Active = "active",
        /// Work is accepted and not claimed.
        Paused = "paused",
        /// Work is claimed and no new work is accepted.
        Draining = "draining",
    }
}

/// The states of the lanes that are not active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneStates(BTreeMap<LaneId, (LaneState, ServerTime)>);

impl LaneStates {
    /// How long a worker or a client may go on by what it read last.
    pub const FRESH_FOR: Duration = Duration::from_secs(5);

    /// The command that reads them.
    #[must_use]
    pub fn read_command() -> Command {
        Command::read("HGETALL", &Key::LaneStates, &[])
    }

    /// Reads the reply. A state that this program does not know holds work back: that can be
    /// corrected, and work that was started cannot.
    #[must_use]
    pub fn read(reply: Value) -> Self {
        let entries = text_hash(reply).into_iter().filter_map(|(lane, text)| {
            let lane = lane.parse().ok()?;
            Some((lane, read_state(&text)))
        });
        Self(entries.collect())
    }

    /// The state of a lane, and since when it is in it unless it is active.
    #[must_use]
    pub fn of(&self, lane: &LaneId) -> (LaneState, Option<ServerTime>) {
        self.0.get(lane).map_or((LaneState::Active, None), |(state, since)| (*state, Some(*since)))
    }

    /// Whether nothing is to be claimed from a lane.
    #[must_use]
    pub fn is_paused(&self, lane: &LaneId) -> bool {
        self.of(lane).0 == LaneState::Paused
    }

    /// The lanes that are not active.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneId> {
        self.0.keys()
    }
}

/// A stored state: its word, and since when.
fn read_state(text: &str) -> (LaneState, ServerTime) {
    let (word, since) = text.split_once(' ').unwrap_or((text, ""));
    let state = word.parse().unwrap_or(LaneState::Paused);
    (state, ServerTime(since.parse().unwrap_or(0)))
}

/// The state in a reply that holds one; none if the lane is active.
#[must_use]
pub fn stored_state(reply: &Value) -> Option<LaneState> {
    let stored: String = crate::reply::text(reply.clone());
    (!stored.is_empty()).then(|| read_state(&stored).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_not_known_holds_work_back() {
        let words = ["a", "draining 12", "b", "paused 7", "c", "disabled 3", "d", ""];
        let words = words.iter().map(|word| Value::Bulk(word.as_bytes().to_vec())).collect();
        let states = LaneStates::read(Value::Array(words));
        let of = |lane: &str| states.of(&lane.parse().unwrap());
        assert_eq!(of("a"), (LaneState::Draining, Some(ServerTime(12))));
        assert_eq!(of("b"), (LaneState::Paused, Some(ServerTime(7))));
        assert_eq!(of("c"), (LaneState::Paused, Some(ServerTime(3))));
        assert_eq!(of("d").0, LaneState::Paused);
        assert_eq!(of("e"), (LaneState::Active, None));
    }
}
