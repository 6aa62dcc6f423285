//! The engine as a pure machine: it scans partitions for due work and dispatches completions.
//!
//! It has no clock, socket, thread or random source of its own. Give it one input, then take
//! effects until none is left, then sleep until the deadline or the next input:
//!
//! ```
//! use selvedge_core::engine::{Effect, Engine, EngineConfig, Input};
//! use selvedge_core::time::LocalTime;
//!
//! let mut engine = Engine::new(EngineConfig::default(), 7, LocalTime(0));
//! engine.handle(LocalTime(0), Input::Wake);
//! while let Some(effect) = engine.next_effect() {
//!     match effect {
//!         Effect::Send { ticket, slot, batch } => { /* one slot, one pipeline */ }
//!         Effect::Observe(observation) => { /* a log line, a metric, a trace event */ }
//!     }
//! }
//! let wake_at = engine.deadline();
//! ```
//!
//! Several engines may run on the same data at once: every function they call decides for itself
//! whether there is still something to do.
//!
//! The engine has three parts. Each owns its state, is told what happened and hands back events;
//! [`Engine`] carries events from one part to another, and no part calls another.
//!
//! | part | what it owns | its events |
//! | --- | --- | --- |
//! | `requests` | batches, tickets, the window, missing replies | replies are there |
//! | `scanning` | cadence, visits, pages, cursors, candidates | requests, skipped executions |
//! | `dispatch` | queued completions, dispatches under way | requests, work handed over |
//!
//! The scanners themselves are in `scanners`, one file each.

mod config;
mod dispatch;
mod filter;
mod inputs_and_effects;
mod observe;
mod reply;
mod scanners;
mod scanning;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use config::{
    AUDIT_COMMANDS, AUDIT_SHARE, AuditPace, EngineConfig, INTERVAL_FLOOR, InvalidSetting,
    LONGEST_SLEEP, SLEEP_MAX,
};
pub use filter::Filter;
pub use inputs_and_effects::{Effect, Input, InvalidPush};
pub use observe::{CancelDisposition, Observation, ReconcileAction, ScanCounts};
pub use scanners::{Age, ScannerName, ScannerSpec, Source, scanner_specs};

use dispatch::{Dispatch, TaskId};
use scanning::Scanning;

use crate::requests::{self, Priority, ReadyBatch, RequestLimits, Requests};
use crate::time::LocalTime;

/// The machine. See the module for how to drive it.
pub struct Engine {
    now: LocalTime,
    requests: Requests<Continuation>,
    scanning: Scanning,
    dispatch: Dispatch,
    effects: VecDeque<Effect>,
    draining: bool,
    drained: bool,
}

/// Which part goes on when the replies of a request are there.
enum Continuation {
    Scanning(scanning::Continuation),
    Dispatch(TaskId),
}

impl Engine {
    /// A new engine. `seed` feeds its jitter and the number of its first ticket, and nothing else;
    /// engines that follow each other in one place need different seeds.
    #[must_use]
    pub fn new(config: EngineConfig, seed: u64, now: LocalTime) -> Self {
        let config = Arc::new(config);
        Self {
            now,
            requests: Requests::new(limits(&config), seed),
            dispatch: Dispatch::new(&config),
            scanning: Scanning::new(config, seed, now),
            effects: VecDeque::new(),
            draining: false,
            drained: false,
        }
    }

    /// Feeds one thing that happened. `now` never runs backwards; if it does, the latest time so
    /// far counts. Being woken early changes nothing.
    pub fn handle(&mut self, now: LocalTime, input: Input) {
        self.now = self.now.max(now);
        let now = self.now;
        match input {
            Input::Wake => {}
            Input::Settled { ticket, answers } => {
                let events = self.requests.settle(ticket, answers);
                self.on_requests(events);
            }
            Input::Completed(completion) => {
                let events = self.dispatch.completion_pushed(now, completion);
                self.on_dispatch(events);
            }
            Input::Held(partition) => self.scanning.execution_held(now, partition),
            Input::Freed(quota) => self.scanning.slot_freed(now, quota),
            Input::Due(partition, wait) => self.scanning.due_soon(now, partition, wait),
            Input::PushGap => {
                self.scanning.pushes_missed(now);
                self.dispatch.pushes_missed();
            }
            Input::LibraryLoaded => self.scanning.library_loaded(now),
            Input::Lanes(lanes) => self.scanning.set_lanes(now, lanes),
            Input::Drain => self.drain(),
        }
        while let Some(events) = self.requests.expire_next(now) {
            self.on_requests(events);
        }
        let events = self.scanning.start_visits(now);
        self.on_scanning(events);
        let events = self.dispatch.start(now);
        self.on_dispatch(events);
        self.send();
    }

    /// Takes the next effect. Commands of one ticket are to be carried out in their order.
    #[must_use]
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to feed [`Input::Wake`]. May change after every [`Self::handle`].
    #[must_use]
    pub fn deadline(&self) -> Option<LocalTime> {
        [self.scanning.deadline(), self.requests.deadline()].into_iter().flatten().min()
    }

    /// Whether nothing is in flight and nothing will be, after a drain.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.drained
    }

    /// How many batches are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.open_tickets()
    }

    fn on_requests(&mut self, events: Vec<requests::Event<Continuation>>) {
        for event in events {
            match event {
                requests::Event::Replied(Continuation::Scanning(continuation), replies) => {
                    let events = self.scanning.resume(self.now, continuation, replies);
                    self.on_scanning(events);
                }
                requests::Event::Replied(Continuation::Dispatch(task), replies) => {
                    let events = self.dispatch.resume(self.now, task, replies);
                    self.on_dispatch(events);
                }
                requests::Event::AnswerIgnored(ticket) => {
                    self.observe(Observation::AnswerIgnored(ticket));
                }
                requests::Event::TicketExpired(ticket) => {
                    self.observe(Observation::BatchTimedOut(ticket));
                }
            }
        }
    }

    fn on_scanning(&mut self, events: Vec<scanning::Event>) {
        for event in events {
            match event {
                scanning::Event::Request(commands, priority, continuation) => {
                    let continuation = Continuation::Scanning(continuation);
                    self.requests.add(commands, priority, continuation);
                }
                scanning::Event::Skipped(execution, sent) => {
                    let events = self.dispatch.execution_skipped(self.now, sent, execution);
                    self.on_dispatch(events);
                }
                scanning::Event::Observe(observation) => self.observe(observation),
            }
        }
    }

    fn on_dispatch(&mut self, events: Vec<dispatch::Event>) {
        for event in events {
            match event {
                dispatch::Event::Request(commands, task) => {
                    self.requests.add(commands, Priority::Due, Continuation::Dispatch(task));
                }
                dispatch::Event::HandedOver(partition) => {
                    self.scanning.dispatch_handed_over(self.now, partition);
                }
                dispatch::Event::Observe(observation) => self.observe(observation),
            }
        }
    }

    fn observe(&mut self, observation: Observation) {
        self.effects.push_back(Effect::Observe(observation));
    }

    fn send(&mut self) {
        if self.draining {
            self.requests.cancel_unsent();
        } else {
            let send = |ReadyBatch { ticket, slot, commands }| Effect::Send {
                ticket,
                slot,
                batch: commands,
            };
            self.effects.extend(self.requests.send(self.now).into_iter().map(send));
        }
        if self.draining && !self.drained && self.requests.is_empty() {
            self.drained = true;
            self.observe(Observation::Drained);
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        self.scanning.drain();
        self.dispatch.drain();
    }
}

const fn limits(config: &EngineConfig) -> RequestLimits {
    RequestLimits {
        window: config.window,
        window_per_slot: config.window_per_slot,
        timeout: config.batch_timeout,
    }
}

// The steps of candidates are boxed closures; the engine must be free to move between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Engine>();
};
