//! [`Neighbour`]: another engine, whose tickets must not be taken for the engine's own.

use selvedge_core::command::Ticket;
use selvedge_core::engine::{Effect, Engine, EngineConfig, Input};
use selvedge_core::time::LocalTime;

/// Another engine, which gets no answers: only its tickets matter.
pub(super) struct Neighbour {
    engine: Engine,
    now: LocalTime,
}

impl Neighbour {
    pub(super) fn new(config: EngineConfig, seed: u64, now: LocalTime) -> Self {
        Self { engine: Engine::new(config, seed, now), now }
    }

    /// The ticket of the next batch that it sends.
    pub(super) fn next_ticket(&mut self) -> Option<Ticket> {
        for _ in 0..WAKES_MAX {
            while let Some(effect) = self.engine.next_effect() {
                if let Effect::Send { ticket, .. } = effect {
                    return Some(ticket);
                }
            }
            self.now = self.engine.deadline()?;
            self.engine.handle(self.now, Input::Wake);
        }
        None
    }
}

/// Until an unanswered batch expires and the next one is sent.
const WAKES_MAX: usize = 1_000;
