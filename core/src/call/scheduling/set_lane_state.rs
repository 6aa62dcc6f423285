use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::LaneId;
use crate::key::Key;
use crate::lane_state::LaneState;
use crate::value::Value;

/// Sets what workers and clients do with a lane.
#[derive(Clone, Debug)]
pub struct SetLaneState {
    /// The lane.
    pub lane_id: LaneId,
    /// Its new state.
    pub state: LaneState,
}

/// Whether the lane has another state now than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStateSet {
    /// It had this one; none if that could not be read.
    Changed(Option<LaneState>),
    /// It had the same.
    Unchanged,
}

impl Function for SetLaneState {
    const NAME: &'static str = "ff_set_lane_state";
    const KEYS: &'static [&'static str] = &["lane_states"];
    const ARGS: &'static [&'static str] = &["lane_id", "state"];

    type Reply = LaneStateSet;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::LaneStates]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.lane_id, self.state.as_str()]
    }

    fn read(envelope: Envelope) -> Result<LaneStateSet, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        let before = fields.text()?;
        match word.as_str() {
            "changed" => Ok(LaneStateSet::Changed(before.parse().ok())),
            "unchanged" => Ok(LaneStateSet::Unchanged),
            _ => Err(broken("what became of the state", Value::Bulk(word.into_bytes()))),
        }
    }
}
