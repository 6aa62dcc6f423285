//! The engine as one pure machine: cadence, scanners, dispatch, backoff, cascade.
//!
//! It has no clock, socket, thread or random source of its own. Give it one input, then take
//! effects until none is left, then sleep until the deadline or the next input:
//!
//! ```
//! use selvedge_core::engine::{Effect, Engine, EngineConfig, Input};
//! use selvedge_core::time::EngineTime;
//!
//! let mut engine = Engine::new(EngineConfig::default(), 7, EngineTime(0));
//! engine.handle(EngineTime(0), Input::Wake);
//! while let Some(effect) = engine.next_effect() {
//!     match effect {
//!         Effect::Send { ticket, slot, batch } => { /* one slot, one pipeline */ }
//!         Effect::Observe(fact) => { /* a log line, a metric, a trace event */ }
//!     }
//! }
//! let wake_at = engine.deadline();
//! ```
//!
//! Several engines may run on the same data at once: every function they call decides for itself
//! whether there is still something to do.

mod ask;
mod cadence;
mod config;
pub mod dispatch;
mod driver;
mod flight;
mod observe;
pub mod scan;
mod scans;
mod step;
mod texts;
pub mod tracker;
mod visit;
mod wire;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use config::{EngineConfig, Filter, INTERVAL_FLOOR, InvalidSetting};
pub use driver::PAGES_MAX;
pub use flight::BATCH_MAX;
pub use observe::{Disposition, Observation, ReconcileAction, Tally};
pub use scan::ScannerName;
pub use step::{Fate, Notes, Reply, Step, Then, Verdict};
pub use wire::{Answer, Command, Effect, Input, InvalidPush, Ticket};

use ask::{Crew, Question};
use cadence::Cadence;
use dispatch::{Debt, Dispatch};
use driver::Strip;
use flight::{Asked, Flight, Pile};
use scans::Scans;

use crate::id::LaneId;
use crate::time::{EngineTime, ServerTime};

/// The machine. See the module for how to drive it.
pub struct Engine {
    config: Arc<EngineConfig>,
    now: EngineTime,
    lanes: Vec<LaneId>,
    cadence: Cadence,
    flight: Flight,
    dispatch: Dispatch,
    scans: Scans,
    strips: BTreeMap<u64, Strip>,
    questions: BTreeMap<u64, Question>,
    next_id: u64,
    /// Commands asked for while one input is handled, by slot and haste; batched when
    /// it is done.
    staged: BTreeMap<Pile, Vec<Asked>>,
    /// Where in `staged` a read stands, so that it is not asked for twice.
    staged_reads: BTreeMap<Vec<Vec<u8>>, (Pile, usize)>,
    no_notes: Notes,
    effects: VecDeque<Effect>,
    draining: bool,
    drained: bool,
}

impl Engine {
    /// A new engine. `seed` feeds its jitter and the number of its first ticket, and nothing else;
    /// engines that follow each other in one place need different ones.
    #[must_use]
    pub fn new(config: EngineConfig, seed: u64, now: EngineTime) -> Self {
        let cadence = Cadence::new(&config, seed, now);
        let scans = Scans::new(&cadence, now);
        Self {
            now,
            lanes: config.lanes.clone(),
            flight: Flight::new(config.window, config.window_per_slot, config.ticket_timeout, seed),
            dispatch: Dispatch::new(config.dispatch_concurrency, config.dispatch_queue),
            cadence,
            scans,
            strips: BTreeMap::new(),
            questions: BTreeMap::new(),
            next_id: 0,
            staged: BTreeMap::new(),
            staged_reads: BTreeMap::new(),
            no_notes: Notes::default(),
            effects: VecDeque::new(),
            draining: false,
            drained: false,
            config: Arc::new(config),
        }
    }

    /// Feeds one thing that happened. `now` never runs backwards; if it does, the latest time so
    /// far counts. Being woken early changes nothing.
    pub fn handle(&mut self, now: EngineTime, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Wake => {}
            Input::Settled { ticket, answers } => self.settle(ticket, answers),
            Input::Completed(ended) => {
                self.dispatch.look_again(&ended.execution_id);
                self.owe(Debt { execution: ended.execution_id, depth: 0 });
            }
            Input::Held(partition) => self.look_for_held(partition),
            Input::Freed(quota) => self.offer_slot(quota),
            Input::PushGap => self.catch_up(ScannerName::DependencyReconciler),
            Input::LibraryLoaded => {
                for &name in ScannerName::ALL {
                    self.hurry_all(name);
                }
            }
            Input::Lanes(lanes) => self.adopt(lanes),
            Input::Drain => self.drain(),
        }
        while let Some(ticket) = self.flight.overdue(self.now) {
            self.expire(ticket);
        }
        if !self.draining {
            self.visit_what_is_due();
            while let Some((item, debt)) = self.dispatch.start() {
                let scene = scan::Scene {
                    config: self.config.clone(),
                    partition: debt.execution.partition(),
                    now: ServerTime(0),
                };
                let step = dispatch::resolve(&scene, debt.execution);
                self.advance(Crew::Dispatch(item), None, step);
            }
        }
        self.send();
    }

    /// Takes the next effect. Commands of one ticket are to be carried out in their order.
    #[must_use]
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to feed [`Input::Wake`]. May change after every [`Self::handle`].
    #[must_use]
    pub fn deadline(&self) -> Option<EngineTime> {
        let visit = if self.draining { None } else { self.cadence.deadline() };
        [visit, self.flight.deadline()].into_iter().flatten().min()
    }

    /// Whether nothing is in flight and nothing will be, after a drain.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.drained
    }

    /// How many batches are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.open_tickets()
    }

    fn observe(&mut self, fact: Observation) {
        self.effects.push_back(Effect::Observe(fact));
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn drain(&mut self) {
        self.draining = true;
        drop(self.dispatch.forget_queue());
    }
}

// Steps are boxed closures that travel with the engine; it must be free to move between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Engine>();
};
