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
mod wire;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

pub use config::{EngineConfig, Filter, INTERVAL_FLOOR, InvalidSetting};
pub use driver::PAGES_MAX;
pub use flight::BATCH_MAX;
pub use observe::{Disposition, Observation, ReconcileAction, Tally};
pub use scan::ScannerName;
pub use step::{Fate, Notes, Reply, Step, Then, Verdict};
pub use wire::{Answer, Command, Effect, Input, Ticket};

use cadence::Cadence;
use dispatch::{DEPTH_MAX, Debt, Dispatch};
use driver::{Order, Strip};
use flight::{Asked, Flight, Route};
use scan::SCANNERS;
use scans::Scans;

use crate::call::Function;
use crate::call::library::{Pages, ScanPartition};
use crate::error::{CallError, Class, ServerError};
use crate::id::LaneId;
use crate::partition::Partition;
use crate::time::{EngineTime, ServerTime};

/// How soon the reconciler looks after what dispatch handed over.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(500);

/// Whose step a question belongs to.
#[derive(Clone, Copy, Debug)]
enum Crew {
    Strip(u64),
    Dispatch(u64),
}

/// What happens with the answers to a question.
enum Next {
    /// They are pages that a visit asked for.
    Pages(Partition, Vec<Order>),
    /// They are what a step waits for.
    Step(Crew, Label, Then),
}

/// What a verdict will be filed under; dispatch has no label.
type Label = Option<alloc::string::String>;

struct Question {
    replies: Vec<Option<Reply>>,
    missing: usize,
    next: Next,
}

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
    /// Commands asked for while one input is handled, by slot; batched when it is done.
    staged: BTreeMap<u16, Vec<Asked>>,
    /// Where in `staged` a read stands, so that it is not asked for twice.
    staged_reads: BTreeMap<Vec<Vec<u8>>, (u16, usize)>,
    no_notes: Notes,
    effects: VecDeque<Effect>,
    draining: bool,
    drained: bool,
}

impl Engine {
    /// A new engine; `seed` feeds its jitter, and nothing else.
    #[must_use]
    pub fn new(config: EngineConfig, seed: u64, now: EngineTime) -> Self {
        let cadence = Cadence::new(&config, seed, now);
        let scans = Scans::new(&cadence, now);
        Self {
            now,
            lanes: config.lanes.clone(),
            flight: Flight::new(config.window, config.window_per_slot, config.ticket_timeout),
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
            Input::PushGap => self.hurry_all(ScannerName::DependencyReconciler),
            Input::LibraryLoaded => {
                for &name in ScannerName::ALL {
                    self.hurry_all(name);
                }
            }
            Input::Lanes(lanes) => self.adopt(lanes),
            Input::Drain => self.drain(),
        }
        while let Some(ticket) = self.flight.overdue(self.now) {
            self.observe(Observation::TicketExpired(ticket));
            self.settle(ticket, Vec::new());
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

    /// Files the answers of a batch, and goes on with every question that is now complete.
    fn settle(&mut self, ticket: Ticket, answers: Vec<Answer>) {
        let Some(routes) = self.flight.land(ticket) else {
            self.observe(Observation::AnswerIgnored(ticket));
            return;
        };
        let mut answers = answers.into_iter();
        let mut complete = Vec::new();
        for routes in routes {
            let reply = match answers.next() {
                Some(answer) => answer.into_result(),
                None => Err(ServerError::silence("no answer came in time")),
            };
            for route in routes {
                if self.fill(route, reply.clone()) {
                    complete.push(route.question);
                }
            }
        }
        for question in complete {
            self.answer(question);
        }
    }

    /// Files one answer; says whether it was the last that its question waited for.
    fn fill(&mut self, route: Route, reply: Reply) -> bool {
        let Some(question) = self.questions.get_mut(&route.question) else { return false };
        let Some(place) = question.replies.get_mut(route.place) else { return false };
        if place.replace(reply).is_some() {
            return false;
        }
        question.missing -= 1;
        question.missing == 0
    }

    fn answer(&mut self, id: u64) {
        let Some(question) = self.questions.remove(&id) else { return };
        let replies: Vec<Reply> = question
            .replies
            .into_iter()
            .map(|reply| reply.unwrap_or_else(|| Err(ServerError::silence("not answered"))))
            .collect();
        match question.next {
            Next::Pages(partition, orders) => self.unfold(partition, orders, replies),
            Next::Step(crew, label, then) => {
                let step = then(self.notes(crew), replies);
                self.advance(crew, label, step);
            }
        }
    }

    /// Asks for commands; they leave when the input has been handled.
    fn ask(&mut self, commands: Vec<Command>, next: Next) {
        let question = self.id();
        let missing = commands.len();
        for (place, command) in commands.into_iter().enumerate() {
            self.stage(Route { question, place }, command);
        }
        self.questions.insert(question, Question { replies: vec![None; missing], missing, next });
    }

    fn stage(&mut self, route: Route, command: Command) {
        let staged = self.staged.entry(command.slot).or_default();
        if command.reads {
            let place = (command.slot, staged.len());
            let (slot, at) = *self.staged_reads.entry(command.argv.clone()).or_insert(place);
            if slot == command.slot
                && let Some(asked) = staged.get_mut(at)
            {
                asked.routes.push(route);
                return;
            }
        }
        staged.push(Asked { routes: vec![route], command });
    }

    fn send(&mut self) {
        self.staged_reads.clear();
        for (slot, asked) in core::mem::take(&mut self.staged) {
            self.flight.queue(slot, asked);
        }
        if self.draining {
            // What was never sent is surely not applied, and the next engine will find it.
            for route in self.flight.cancel_waiting() {
                self.questions.remove(&route.question);
            }
        }
        while let Some(departure) = self.flight.depart(self.now) {
            let flight::Departure { ticket, slot, batch } = departure;
            self.effects.push_back(Effect::Send { ticket, slot, batch });
        }
        if self.draining && !self.drained && self.flight.is_empty() {
            self.drained = true;
            self.observe(Observation::Drained);
        }
    }

    /// What a scanner's candidates tell each other; dispatch has nothing to tell.
    fn notes(&mut self, crew: Crew) -> &mut Notes {
        match crew {
            Crew::Strip(id) => match self.strips.get(&id) {
                Some(strip) => self.scans.notes(strip.order.scanner),
                None => &mut self.no_notes,
            },
            Crew::Dispatch(_) => &mut self.no_notes,
        }
    }

    /// Takes a step, and the next, until one has to wait or is done.
    fn advance(&mut self, crew: Crew, label: Label, mut step: Step) {
        loop {
            match step {
                Step::Ask(commands, then) if commands.is_empty() => {
                    step = then(self.notes(crew), Vec::new());
                }
                // Draining ends a scan inside a partition too; the work stays where it was.
                Step::Ask(..) if self.draining => {
                    let stopped = ServerError::never_sent("the engine is stopping");
                    return self.conclude(crew, label, Verdict::error(stopped.into()));
                }
                Step::Ask(commands, then) => {
                    return self.ask(commands, Next::Step(crew, label, then));
                }
                Step::Done(verdict) => return self.conclude(crew, label, verdict),
            }
        }
    }

    fn conclude(&mut self, crew: Crew, label: Label, mut verdict: Verdict) {
        for fact in core::mem::take(&mut verdict.facts) {
            self.observe(fact);
        }
        self.report_trouble(&verdict);
        match crew {
            Crew::Strip(strip) => self.file(strip, label.unwrap_or_default(), verdict),
            Crew::Dispatch(item) => self.close_debt(item, verdict),
        }
    }

    /// Tells of a store that lacks the library or refuses us.
    fn report_trouble(&mut self, verdict: &Verdict) {
        if let Fate::NotNow(error) = &verdict.fate {
            self.report_class(error.clone());
        }
    }

    fn report_class(&mut self, error: ServerError) {
        match error.class {
            Class::Library => self.observe(Observation::LibraryMissing { text: error.text }),
            Class::Denied => self.observe(Observation::Denied { text: error.text }),
            Class::Silence | Class::NotNow | Class::Redirect | Class::Broken => {}
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Starts a visit to every partition whose time has come.
    fn visit_what_is_due(&mut self) {
        while let Some((partition, scanners)) = self.cadence.next_visit(self.now) {
            let mut orders = Vec::new();
            for scanner in scanners {
                let of_scanner =
                    driver::orders(scanner, partition, &self.lanes, self.scans.places(partition));
                self.scans.begin(scanner, partition, of_scanner.len(), self.now);
                // Without a lane there is nothing to read, and the scan is over.
                self.end_scan_if_done(scanner, partition);
                orders.extend(of_scanner);
            }
            self.read_pages(partition, orders);
        }
    }

    fn read_pages(&mut self, partition: Partition, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        let requests = orders.iter().map(|order| order.request.clone()).collect();
        let call = ScanPartition { requests };
        self.ask(vec![Command::call(&call)], Next::Pages(partition, orders));
    }

    /// Turns the pages of a visit into candidates at work.
    fn unfold(&mut self, partition: Partition, orders: Vec<Order>, replies: Vec<Reply>) {
        let pages = match replies.into_iter().next() {
            Some(Ok(value)) => ScanPartition::parse(value),
            Some(Err(error)) => Err(CallError::Server(error)),
            None => Err(ServerError::silence("not answered").into()),
        };
        match pages {
            Ok(Pages { now, pages }) if pages.len() == orders.len() => {
                self.cadence.answered(partition);
                for (order, page) in orders.into_iter().zip(pages) {
                    match page {
                        Ok(page) => self.work_on(partition, order, now, page),
                        Err(error) => self.give_up(partition, &order, error),
                    }
                }
            }
            Ok(_) => {
                let odd = ServerError::from_reply("as many pages as requests were expected");
                self.give_up_all(partition, &orders, odd);
            }
            Err(CallError::Server(error)) => self.give_up_all(partition, &orders, error),
            Err(other @ (CallError::Refused(_) | CallError::Broken(_))) => {
                let text = alloc::string::ToString::to_string(&other);
                self.give_up_all(partition, &orders, ServerError::from_reply(text));
            }
        }
    }

    fn work_on(
        &mut self,
        partition: Partition,
        order: Order,
        now: ServerTime,
        page: crate::call::library::Page,
    ) {
        let scene = scan::Scene { config: self.config.clone(), partition, now };
        let scanner = order.scanner;
        self.scans.saw(scanner, partition, &order, now, &page);
        let id = self.id();
        let (index, lane) = (order.request.index.clone(), order.lane.clone());
        let (strip, fresh) = Strip::new(order, partition, page, now);
        let idle = strip.live == 0;
        self.strips.insert(id, strip);
        if idle {
            return self.turn_page(id);
        }
        for (member, score) in fresh {
            let candidate =
                scan::Candidate { member, score, index: index.clone(), lane: lane.clone() };
            let label = candidate.label();
            let step = if self.scans.should_skip(scanner, &label) {
                Verdict::skipped().into()
            } else {
                driver::walk(scanner, scene.clone(), candidate)
            };
            self.advance(Crew::Strip(id), Some(label), step);
        }
    }

    fn give_up_all(&mut self, partition: Partition, orders: &[Order], error: ServerError) {
        let mut scanners: Vec<usize> = orders.iter().map(|order| order.scanner).collect();
        scanners.dedup();
        self.report_class(error.clone());
        self.observe(Observation::PartitionFailed { partition, error });
        for order in orders {
            self.scans.lost(order.scanner, partition);
        }
        self.cadence.refused(partition);
        for scanner in scanners {
            self.end_scan_if_done(scanner, partition);
        }
    }

    fn give_up(&mut self, partition: Partition, order: &Order, error: ServerError) {
        self.observe(Observation::PartitionFailed { partition, error });
        self.scans.lost(order.scanner, partition);
        self.end_scan_if_done(order.scanner, partition);
    }

    /// Files a candidate's verdict; the last one of a page turns it.
    fn file(&mut self, id: u64, label: alloc::string::String, verdict: Verdict) {
        let Some(strip) = self.strips.get_mut(&id) else { return };
        strip.settle(&verdict);
        let (scanner, partition) = (strip.order.scanner, strip.partition);
        let page_done = strip.live == 0;
        for fact in self.scans.count(scanner, partition, label, &verdict) {
            self.observe(fact);
        }
        for execution in verdict.ended {
            self.owe(Debt { execution, depth: 1 });
        }
        if page_done {
            self.turn_page(id);
        }
    }

    fn turn_page(&mut self, id: u64) {
        let Some(strip) = self.strips.remove(&id) else { return };
        let (partition, next) = (strip.partition, strip.next_place());
        let more = strip.leaves_due(next);
        let mut order = strip.order;
        order.pages += 1;
        match next {
            Some(place) if order.pages < order.pages_max && !self.draining => {
                order.request.from = place;
                self.read_pages(partition, vec![order]);
            }
            // Out of pages for now: remember the place. At the end: start over next time.
            place => {
                let scanner = order.scanner;
                self.scans.remember(partition, order.place_key(), place);
                self.scans.strip_done(scanner, partition, more);
                self.end_scan_if_done(scanner, partition);
            }
        }
    }

    fn end_scan_if_done(&mut self, scanner: usize, partition: Partition) {
        let Some(done) = self.scans.take_if_done(scanner, partition) else { return };
        let name = SCANNERS[scanner].spec().name;
        self.cadence.finished(self.now, partition, scanner, done.ending);
        if !done.tally.is_empty() {
            self.observe(Observation::ScanDone { scanner: name, partition, tally: done.tally });
        }
        for fact in self.scans.cycle_after(scanner, partition, &done, self.now, &self.cadence) {
            self.observe(fact);
        }
    }

    /// Takes on the edges of an execution that ended.
    fn owe(&mut self, debt: Debt) {
        if debt.depth > DEPTH_MAX {
            self.observe(Observation::DepthReached { execution: debt.execution.clone() });
            return self.hand_over(&debt, "the cascade is too deep");
        }
        if self.draining {
            return;
        }
        if let Err(debt) = self.dispatch.push(debt) {
            self.hand_over(&debt, "too many completions at once");
        }
    }

    fn close_debt(&mut self, item: u64, verdict: Verdict) {
        let Some(debt) = self.dispatch.finish(item) else { return };
        let failed = match verdict.fate {
            Fate::NotNow(_) => Some("the store cannot be reached"),
            Fate::Perhaps(_) => Some("the store did not answer"),
            Fate::Failed(_) | Fate::Poison(_) | Fate::Refused(_) => {
                Some("the edges cannot be resolved")
            }
            Fate::Processed(_) | Fate::Nothing | Fate::Skipped => None,
        };
        for execution in verdict.ended {
            self.owe(Debt { execution, depth: debt.depth + 1 });
        }
        if let Some(reason) = failed {
            self.hand_over(&debt, reason);
        }
    }

    fn hand_over(&mut self, debt: &Debt, reason: &'static str) {
        let execution = debt.execution.clone();
        let partition = execution.partition();
        self.observe(Observation::HandedOver { execution, reason });
        if let Some(scanner) = scan::position(ScannerName::DependencyReconciler) {
            let soon = self.now.after(HAND_OVER_PAUSE);
            self.cadence.hurry(soon, partition, scanner);
        }
    }

    /// Brings every partition's turn of a scanner forward to now.
    fn hurry_all(&mut self, name: ScannerName) {
        let Some(scanner) = scan::position(name) else { return };
        let partitions: Vec<Partition> = self.cadence.partitions_of(scanner).collect();
        for partition in partitions {
            self.cadence.hurry(self.now, partition, scanner);
        }
    }

    fn adopt(&mut self, lanes: Vec<LaneId>) {
        let mut all = self.config.lanes.clone();
        all.extend(lanes);
        all.sort();
        all.dedup();
        self.lanes = all;
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
