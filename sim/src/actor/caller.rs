//! Callers and signallers: they carry out the actions of a plan with the procedures of the real
//! client. After a crash a caller starts its unfinished actions again, as a service does.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::client::{Effect, Failure, Input};
use selvedge_core::command::Ticket;
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::push::Hint;
use selvedge_core::time::LocalTime;
use selvedge_lua::host::Message;

use super::ClientWait;
use super::machine::{ClientMachine, Ended};
use crate::canary;
use crate::event::{Actor, EventKind, Learned};
use crate::oracle::call::signature_of;
use crate::plan::{Action, Span};
use crate::world::World;
use crate::world::random_streams::Purpose;
use crate::world::transport::{ReplyTo, argv_of};

/// How often a caller starts an action again that failed although it may succeed later. A waiter
/// goes on waiting, with longer pauses.
const TRIES_MAX: u32 = 20;
/// The pause before that.
const PAUSE_MS: u64 = 500;
/// How long a crashed caller stays down.
const DEAD: Span = Span { from: 100, to: 5_000 };

/// A caller and its unfinished actions.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) incarnation: u32,
    open: BTreeMap<u64, OpenAction>,
    jobs: BTreeMap<u64, Job>,
    /// Whether it knows that the deployment has its partition counts.
    counts_known: bool,
    /// The lanes that it has registered.
    lanes: BTreeSet<LaneId>,
}

struct OpenAction {
    action: Action,
    tries: u32,
}

impl OpenAction {
    const fn is_wait(&self) -> bool {
        matches!(self.action, Action::Wait(_))
    }
}

/// A procedure in progress.
struct Job {
    machine: Box<dyn ClientMachine>,
    wake_ms: Option<u64>,
    /// Lanes that are registered when it succeeds.
    lanes: Vec<LaneId>,
    /// The executions whose end is pushed to it, and since when.
    listens: BTreeSet<ExecutionId>,
    listens_from_ms: u64,
    /// What a planted bug has sent before.
    sent: BTreeSet<Vec<Vec<u8>>>,
}

/// What a caller waits for, with the number of the action.
#[derive(Clone, Debug)]
pub(crate) enum CallerWait {
    /// To begin an action.
    Begin(u64),
    /// The deadline of its machine.
    Wake(u64),
    /// A push or a gap.
    Push(u64, Input),
}

impl Caller {
    /// Whether it has an action to finish. Waiting for an end is none: it may never come.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.values().any(|open| !open.is_wait())
    }

    /// Whether it knows that the deployment has its partition counts.
    pub(super) const fn knows_counts(&self) -> bool {
        self.counts_known
    }

    /// Whether it has registered a lane.
    pub(super) fn knows_lane(&self, lane: &LaneId) -> bool {
        self.lanes.contains(lane)
    }
}

impl World {
    pub(crate) fn take_step(&mut self, at: usize) {
        self.steps_left -= 1;
        let step = self.plan.steps[at].clone();
        self.later(step.by, 0, step.action);
    }

    /// Starts an action after a delay.
    pub(crate) fn later(&mut self, by: Actor, wait_ms: u64, action: Action) {
        self.clients.next_action += 1;
        let number = self.clients.next_action;
        let caller = self.clients.callers.entry(by).or_default();
        caller.open.insert(number, OpenAction { action, tries: 0 });
        if wait_ms == 0 {
            return self.begin(by, number);
        }
        let incarnation = caller.incarnation;
        let begin = ClientWait::Caller(CallerWait::Begin(number));
        self.set_timer(by, incarnation, wait_ms, begin);
    }

    /// A caller crashes; after the restart it starts its unfinished actions again.
    pub(crate) fn kill_caller(&mut self, actor: Actor) {
        self.emit(actor, EventKind::Died);
        let wait = self.random(Purpose::Faults, actor).within(DEAD);
        let caller = self.clients.callers.entry(actor).or_default();
        caller.incarnation += 1;
        caller.jobs.clear();
        (caller.counts_known, caller.lanes) = (false, BTreeSet::new());
        let (incarnation, open) = (caller.incarnation, Vec::from_iter(caller.open.keys().copied()));
        for number in open {
            let begin = ClientWait::Caller(CallerWait::Begin(number));
            self.set_timer(actor, incarnation, wait, begin);
        }
    }

    /// Begins an action, unless it is done already.
    fn begin(&mut self, by: Actor, number: u64) {
        let Some(action) = self.action(by, number) else { return };
        let Some((machine, lanes)) = self.machine(by, &action) else {
            return self.try_again(by, number);
        };
        if let Action::Wait(name) = &action {
            let executions = self.waited_for(name);
            self.emit(by, EventKind::Waits { waiter: number, executions });
        }
        let job = Job {
            machine,
            wake_ms: None,
            lanes,
            listens: BTreeSet::new(),
            listens_from_ms: 0,
            sent: BTreeSet::new(),
        };
        self.clients.callers.entry(by).or_default().jobs.insert(number, job);
        self.feed_caller(by, number, Input::Wake);
    }

    /// Starts an action again after a pause, but not forever.
    fn try_again(&mut self, by: Actor, number: u64) {
        let caller = self.clients.callers.entry(by).or_default();
        let incarnation = caller.incarnation;
        let Some(open) = caller.open.get_mut(&number) else { return };
        open.tries += 1;
        let pause_ms =
            if open.is_wait() { PAUSE_MS * u64::from(open.tries.min(TRIES_MAX)) } else { PAUSE_MS };
        if open.tries > TRIES_MAX && !open.is_wait() {
            caller.open.remove(&number);
            return;
        }
        let begin = ClientWait::Caller(CallerWait::Begin(number));
        self.set_timer(by, incarnation, pause_ms, begin);
    }

    pub(crate) fn caller_timer(&mut self, by: Actor, incarnation: u32, waiting: CallerWait) {
        if self.clients.callers.entry(by).or_default().incarnation != incarnation {
            return;
        }
        match waiting {
            CallerWait::Begin(number) => self.begin(by, number),
            CallerWait::Wake(number) => {
                let (now_ms, bug) = (self.now_ms, self.bug);
                let caller = self.clients.callers.entry(by).or_default();
                let is_wait = caller.open.get(&number).is_some_and(OpenAction::is_wait);
                if is_wait && canary::never_polls(bug) {
                    return;
                }
                let Some(job) = caller.jobs.get_mut(&number) else { return };
                if job.wake_ms.is_some_and(|wake_ms| wake_ms <= now_ms) {
                    job.wake_ms = None;
                    self.feed_caller(by, number, Input::Wake);
                }
            }
            CallerWait::Push(number, input) => {
                if let Some(input) = canary::change_input(self.bug, input) {
                    self.feed_caller(by, number, input);
                }
            }
        }
    }

    /// The answers to a batch of an action.
    pub(crate) fn caller_answered(
        &mut self,
        by: Actor,
        (incarnation, number, ticket): (u32, u64, Ticket),
        answers: Vec<Learned>,
    ) {
        if self.clients.callers.entry(by).or_default().incarnation != incarnation {
            return;
        }
        let answers = answers.into_iter().map(|learned| {
            canary::change_client_answer(self.bug, crate::world::delivery::answer(learned))
        });
        let answers = answers.collect();
        self.feed_caller(by, number, Input::Settled { ticket, answers });
    }

    /// Gives a machine an input, carries out its effects, and schedules its next deadline.
    fn feed_caller(&mut self, by: Actor, number: u64, input: Input) {
        let now = LocalTime(self.now_ms);
        let Some(job) = self.job(by, number) else { return };
        job.machine.handle(now, input);
        while let Some(effect) = self.job(by, number).and_then(|job| job.machine.next_effect()) {
            match effect {
                Effect::Send { ticket, slot, batch } => {
                    let bug = self.bug;
                    let Some(job) = self.job(by, number) else { return };
                    let batch = canary::change_batch(bug, batch, &mut job.sent);
                    if !self.send_for_caller(by, number, (ticket, slot), argv_of(batch)) {
                        return;
                    }
                }
                Effect::Listen(executions) => self.listen(by, number, executions),
            }
        }
        let Some(job) = self.job(by, number) else { return };
        if let Some(result) = job.machine.take_result() {
            return self.job_ended(by, number, result);
        }
        let Some(deadline) = job.machine.deadline() else { return };
        let now_ms = self.now_ms;
        let wake_ms = deadline.0.max(now_ms);
        let Some(job) = self.job(by, number) else { return };
        if job.wake_ms.is_none_or(|known| wake_ms < known || known < now_ms) {
            job.wake_ms = Some(wake_ms);
            let incarnation = self.clients.callers.entry(by).or_default().incarnation;
            let wake = ClientWait::Caller(CallerWait::Wake(number));
            self.set_timer(by, incarnation, wake_ms - now_ms, wake);
        }
    }

    fn action(&self, by: Actor, number: u64) -> Option<Action> {
        self.clients.callers.get(&by)?.open.get(&number).map(|open| open.action.clone())
    }

    fn job(&mut self, by: Actor, number: u64) -> Option<&mut Job> {
        self.clients.callers.entry(by).or_default().jobs.get_mut(&number)
    }

    /// Sends a batch. False if the caller died before.
    fn send_for_caller(
        &mut self,
        by: Actor,
        number: u64,
        (ticket, slot): (Ticket, u16),
        commands: Vec<Vec<Vec<u8>>>,
    ) -> bool {
        let Some(effects) = self.fault_effects(by, &commands) else { return false };
        let first = self.network.next_call;
        for (call, argv) in (first..).zip(&commands) {
            if let Some(signature) = signature_of(argv) {
                let argv = std::sync::Arc::new(argv.clone());
                self.emit(by, EventKind::Invoked { call, function: &signature.name, argv });
            }
        }
        let incarnation = self.clients.callers.entry(by).or_default().incarnation;
        let reply_to = ReplyTo::Caller { incarnation, action: number, ticket };
        self.send(by, slot, commands, effects, reply_to);
        true
    }

    /// Subscribes to the ends of executions. The first item is a gap, when the subscription is
    /// there.
    fn listen(&mut self, by: Actor, number: u64, executions: Vec<ExecutionId>) {
        let span = self.plan.config.link.0;
        let wait_ms = 2 * self.random(Purpose::Network, by).within(span);
        let from_ms = self.now_ms + wait_ms;
        let incarnation = self.clients.callers.entry(by).or_default().incarnation;
        let Some(job) = self.job(by, number) else { return };
        job.listens = executions.into_iter().collect();
        job.listens_from_ms = from_ms;
        let gap = ClientWait::Caller(CallerWait::Push(number, Input::PushGap));
        self.set_timer(by, incarnation, wait_ms, gap);
    }

    /// Delivers pushes to the callers that listen for them.
    pub(crate) fn push_to_callers(&mut self, messages: &[Message]) {
        if self.network.links.pushes_silent_until > self.now_ms {
            return;
        }
        for message in messages {
            let channel = String::from_utf8_lossy(&message.channel);
            let Ok(Hint::Ended(id)) = Hint::read(&channel, &message.payload) else { continue };
            let mut told = Vec::new();
            for (by, caller) in &self.clients.callers {
                let hears =
                    |job: &Job| job.listens.contains(&id) && job.listens_from_ms <= self.now_ms;
                let jobs = caller.jobs.iter().filter(|(_, job)| hears(job));
                told.extend(jobs.map(|(number, _)| (*by, caller.incarnation, *number)));
            }
            for (by, incarnation, number) in told {
                let span = self.plan.config.link.0;
                let wait_ms = self.random(Purpose::Network, by).within(span);
                let push = CallerWait::Push(number, Input::Push(Hint::Ended(id.clone())));
                self.set_timer(by, incarnation, wait_ms, ClientWait::Caller(push));
            }
        }
    }

    /// A procedure has ended. What may succeed later is tried again.
    fn job_ended(&mut self, by: Actor, number: u64, result: Result<Ended, Failure>) {
        let caller = self.clients.callers.entry(by).or_default();
        let Some(job) = caller.jobs.remove(&number) else { return };
        if result.is_ok() {
            caller.counts_known = true;
            caller.lanes.extend(job.lanes);
        }
        let waits = caller.open.get(&number).is_some_and(OpenAction::is_wait);
        if waits {
            let ended = match &result {
                Ok(Ended::Waited(ended)) => Some(ended.clone()),
                Ok(Ended::Done) | Err(_) => None,
            };
            self.emit(by, EventKind::WaitOver { waiter: number, ended });
        }
        let action = result.is_ok().then(|| self.action(by, number)).flatten();
        if let Some((claim, executions)) = action.and_then(|action| self.claim_of(&action)) {
            self.emit(by, EventKind::Succeeded { claim, executions });
        }
        let again = match &result {
            Ok(_) => false,
            Err(Failure::Unavailable(_)) => true,
            // It may not have been created yet.
            Err(Failure::NotFound { .. }) => waits,
            Err(
                Failure::Refused(_)
                | Failure::OtherContent { .. }
                | Failure::LaneDraining { .. }
                | Failure::OtherCounts { .. }
                | Failure::Unreadable(_),
            ) => false,
        };
        if again {
            return self.try_again(by, number);
        }
        self.clients.callers.entry(by).or_default().open.remove(&number);
    }
}
