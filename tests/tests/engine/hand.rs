//! One engine driven by hand, for stories about what happens between a batch and its answers.

use std::collections::VecDeque;

use selvedge_core::engine::{
    Answer, Command, Effect, Engine, EngineConfig, Input, Observation, Ticket,
};
use selvedge_core::time::EngineTime;
use selvedge_lua::host::Host;
use selvedge_tests::rig::Rig;

/// One engine by hand: batches wait until the test answers them.
pub(crate) struct Hand {
    pub(crate) engine: Engine,
    pub(crate) rig: Rig,
    pub(crate) open: VecDeque<(Ticket, u16, Vec<Command>)>,
    pub(crate) facts: Vec<Observation>,
}

impl Hand {
    pub(crate) fn new(config: EngineConfig, rig: Rig) -> Self {
        let engine = Engine::new(config, 1, EngineTime(0));
        Self { engine, rig, open: VecDeque::new(), facts: Vec::new() }
    }

    /// Feeds one input; answers how many batches it led to.
    pub(crate) fn feed(&mut self, at_ms: u64, input: Input) -> usize {
        self.engine.handle(EngineTime(at_ms), input);
        let before = self.open.len();
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Send { ticket, slot, batch } => self.open.push_back((ticket, slot, batch)),
                Effect::Observe(fact) => self.facts.push(fact),
            }
        }
        self.open.len() - before
    }

    /// Has the oldest batch carried out; its answers are not delivered yet.
    pub(crate) fn carry_out(&mut self) -> Option<Input> {
        let (ticket, _, batch) = self.open.pop_front()?;
        let host: &mut Host = &mut self.rig.host;
        let answers = batch.iter().map(|c| Answer::Applied(host.call(&c.argv))).collect();
        Some(Input::Settled { ticket, answers })
    }

    /// Answers everything until the engine rests; says how many batches that took.
    pub(crate) fn rest(&mut self, at_ms: u64) -> usize {
        let mut batches = 0;
        while let Some(settled) = self.carry_out() {
            batches += 1;
            self.feed(at_ms, settled);
        }
        batches
    }
}
