//! Which lanes an operator has paused: read now and then, and at once after a push or a gap in the
//! pushes. Nothing is claimed from a paused lane; what was claimed goes on.

use alloc::vec::Vec;

use super::claiming::{Claiming, Event};
use super::io::{Alarm, Continuation, Io};
use super::observe::Observation;
use crate::command::Reply;
use crate::id::LaneId;
use crate::lane_state::LaneStates;
use crate::value::Value;

/// What is known of the states of lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownStates {
    states: LaneStates,
    /// Whether they are being read, and whether to read them again then: something changed.
    reading: bool,
    again: bool,
}

impl KnownStates {
    pub(super) fn new(states: LaneStates) -> Self {
        Self { states, reading: false, again: false }
    }

    /// Whether nothing is to be claimed from a lane.
    pub(super) fn is_paused(&self, lane: &LaneId) -> bool {
        self.states.is_paused(lane)
    }
}

impl Claiming {
    /// Reads the states of all lanes.
    pub(super) fn read_lane_states(&mut self, io: &mut Io) {
        if self.draining {
            return;
        }
        io.set(Alarm::LaneStates, io.now.after(LaneStates::FRESH_FOR));
        if self.lane_states.reading {
            self.lane_states.again = true;
            return;
        }
        self.lane_states.reading = true;
        let read = alloc::vec![LaneStates::read_command()];
        io.request(read, Continuation::LaneStates);
    }

    /// The states are there. Without them those that were read before count. Returns the slots of
    /// admitted executions that are not claimed now.
    pub(super) fn on_lane_states(&mut self, io: &mut Io, reply: Option<Reply>) -> Vec<Event> {
        self.lane_states.reading = false;
        if let Some(Ok(reply @ Value::Array(_))) = reply {
            let states = LaneStates::read(reply);
            for lane in &self.config.lanes {
                let is_paused = states.is_paused(lane);
                if is_paused != self.lane_states.is_paused(lane) {
                    io.observe(Observation::LanePaused { lane: lane.clone(), is_paused });
                }
            }
            self.lane_states.states = states;
        }
        if core::mem::take(&mut self.lane_states.again) {
            self.read_lane_states(io);
        }
        self.give_up_paused()
    }

    /// Gives up the admitted executions of paused lanes: others may need their slots.
    pub(super) fn give_up_paused(&mut self) -> Vec<Event> {
        let mut given_up = Vec::new();
        let states = &self.lane_states;
        self.admitted.retain(|admitted| {
            let keeps = !states.is_paused(&admitted.lane);
            if !keeps && let Some(quota) = admitted.quota {
                given_up.push(Event::QuotaSlotUnneeded(admitted.execution_id.clone(), quota));
            }
            keeps
        });
        given_up
    }
}
