//! The engine and the store in one process: no server, no sockets, real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use selvedge_core::call::Function;
use selvedge_core::completion::{CHANNEL, Completion};
use selvedge_core::engine::{Answer, Effect, Engine, EngineConfig, Input, Observation};
use selvedge_core::error::CallError;
use selvedge_core::time::{EngineTime, ServerTime};
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};
use selvedge_lua::library;

/// An in-process store with an engine that looks after it.
pub struct Embedded {
    host: Host,
    engine: Engine,
    began: Instant,
    /// What the engine observed since somebody last looked.
    facts: Vec<Observation>,
}

impl Embedded {
    /// An empty store with the library loaded, and an engine at its start.
    ///
    /// # Errors
    /// What the store says when it refuses the library.
    #[expect(clippy::disallowed_methods, reason = "the shell owns the clock")]
    pub fn start(config: EngineConfig, seed: u64) -> Result<Self, String> {
        let mut host = Host::new(HostConfig::default());
        if let Value::Error(text) = host.call(&["FUNCTION", "LOAD", library::SOURCE]) {
            return Err(text);
        }
        let engine = Engine::new(config, seed, EngineTime(0));
        let mut store = Self { host, engine, began: Instant::now(), facts: Vec::new() };
        store.tick();
        Ok(store)
    }

    /// Calls a function of the library, as any client would.
    ///
    /// # Errors
    /// The function's refusal, or what went wrong.
    pub fn call<F: Function>(&mut self, call: &F) -> Result<F::Reply, CallError> {
        let reply = F::parse(self.command(&call.command()));
        self.tick();
        reply
    }

    /// Carries out a plain command.
    pub fn command(&mut self, argv: &[impl AsRef<[u8]>]) -> Value {
        self.host.set_now_us(wall_clock_us());
        self.host.call(argv)
    }

    /// The store's clock.
    #[must_use]
    pub fn now(&self) -> ServerTime {
        ServerTime(i64::try_from(wall_clock_us() / 1_000).unwrap_or(i64::MAX))
    }

    /// How long the engine may be left alone.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        let now = self.engine_time();
        let wake = self.engine.deadline().unwrap_or(EngineTime(now.0 + 1_000));
        Duration::from_millis(wake.0.saturating_sub(now.0))
    }

    /// What the engine observed since the last time.
    pub fn take_facts(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.facts)
    }

    /// Lets the engine do whatever is due.
    pub fn tick(&mut self) {
        self.hand_over_completions();
        self.engine.handle(self.engine_time(), Input::Wake);
        loop {
            let mut answered = Vec::new();
            while let Some(effect) = self.engine.next_effect() {
                match effect {
                    Effect::Observe(fact) => self.facts.push(fact),
                    Effect::Send { ticket, batch, .. } => {
                        let answers = batch
                            .iter()
                            .map(|command| Answer::Applied(self.command(&command.argv)))
                            .collect();
                        answered.push((ticket, answers));
                    }
                }
            }
            if answered.is_empty() {
                return;
            }
            for (ticket, answers) in answered {
                self.engine.handle(self.engine_time(), Input::Settled { ticket, answers });
            }
            self.hand_over_completions();
        }
    }

    fn hand_over_completions(&mut self) {
        for message in self.host.take_published() {
            if message.channel != CHANNEL.as_bytes() {
                continue;
            }
            // What is no completion is nobody's loss: the reconciler finds the same work.
            if let Ok(ended) = Completion::read(&message.payload) {
                self.engine.handle(self.engine_time(), Input::Completed(ended));
            }
        }
    }

    fn engine_time(&self) -> EngineTime {
        EngineTime(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

#[expect(clippy::disallowed_methods, reason = "the shell owns the clock")]
fn wall_clock_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
