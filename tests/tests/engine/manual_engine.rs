//! An engine that the test drives step by step, to control what happens between a batch and its
//! answers.

use std::collections::VecDeque;

use selvedge_core::command::{Answer, Command, Ticket};
use selvedge_core::engine::{Effect, Engine, EngineConfig, Input, Observation};
use selvedge_core::time::LocalTime;
use selvedge_lua::host::Host;
use selvedge_tests::harness::Harness;

/// An engine whose batches wait until the test answers them.
pub(crate) struct ManualEngine {
    pub(crate) engine: Engine,
    pub(crate) harness: Harness,
    pub(crate) open: VecDeque<(Ticket, u16, Vec<Command>)>,
    pub(crate) facts: Vec<Observation>,
}

impl ManualEngine {
    pub(crate) fn new(config: EngineConfig, harness: Harness) -> Self {
        let engine = Engine::new(config, 1, LocalTime(0));
        Self { engine, harness, open: VecDeque::new(), facts: Vec::new() }
    }

    /// Feeds one input; returns how many batches it led to.
    pub(crate) fn feed(&mut self, at_ms: u64, input: Input) -> usize {
        self.engine.handle(LocalTime(at_ms), input);
        let before = self.open.len();
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Send { ticket, slot, batch } => self.open.push_back((ticket, slot, batch)),
                Effect::Observe(fact) => self.facts.push(fact),
            }
        }
        self.open.len() - before
    }

    /// Carries out the oldest batch; returns its answers, which are not delivered.
    pub(crate) fn carry_out(&mut self) -> Option<Input> {
        let (ticket, _, batch) = self.open.pop_front()?;
        let host: &mut Host = &mut self.harness.host;
        let answers = batch.iter().map(|c| Answer::Applied(host.call(&c.argv))).collect();
        Some(Input::Settled { ticket, answers })
    }

    /// Answers every batch until none is left; returns how many there were.
    pub(crate) fn rest(&mut self, at_ms: u64) -> usize {
        let mut batches = 0;
        while let Some(settled) = self.carry_out() {
            batches += 1;
            self.feed(at_ms, settled);
        }
        batches
    }
}
