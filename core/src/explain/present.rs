//! What is known about the present besides the records: who runs.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::engine::EngineConfig;
use crate::id::Namespace;
use crate::lane_state::LaneStates;
use crate::time::ServerTime;

/// Who runs, and how engines are configured.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The configuration of the engines, with the partition counts of the deployment.
    pub config: &'a EngineConfig,
    /// Whether an engine runs.
    pub engines: Engines,
    /// The states of the lanes.
    pub lanes: &'a LaneStates,
    /// The workers that are alive, by namespace.
    pub workers: &'a BTreeMap<Namespace, Vec<WorkerOffer>>,
}

/// Whether an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// This many do.
    Alive(usize),
    /// None does; the last one was seen at this time of the server's clock.
    GoneSince(ServerTime),
    /// None does, and none was seen lately.
    Never,
}

/// What a worker says that it can run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerOffer {
    /// Its lanes.
    pub lanes: BTreeSet<String>,
    /// Its capabilities, joined.
    pub capabilities: String,
    /// The kinds that it handles; none if it does not say.
    pub kinds: Option<BTreeSet<String>>,
}

impl Engines {
    /// Whether one runs.
    #[must_use]
    pub const fn are_alive(self) -> bool {
        matches!(self, Self::Alive(1..))
    }
}
