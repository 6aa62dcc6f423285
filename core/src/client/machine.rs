//! [`Machine`]: runs one procedure.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::window::{Jitter, RetryWindow};
use super::{Failure, Procedure, Replies, Step};
use crate::command::{Answer, Command, Reply, Ticket};
use crate::error::{Applied, ServerError};
use crate::id::ExecutionId;
use crate::push::Hint;
use crate::requests::{Event, Priority, RequestLimits, Requests};
use crate::time::LocalTime;
use crate::value::Value;

/// Times that hold for all procedures of a client.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long an idempotent call is repeated while it is not answered.
    pub retry_for: Duration,
    /// How long a batch may stay unanswered.
    pub call_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { retry_for: Duration::from_secs(15), call_timeout: Duration::from_secs(6) }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin, or the deadline has come. Being woken early changes nothing.
    Wake,
    /// The answers to a batch, in order.
    Settled {
        /// Which batch.
        ticket: Ticket,
        /// One answer for each command.
        answers: Vec<Answer>,
    },
    /// A push.
    Push(Hint),
    /// Pushes may have been missed. Also the first input after [`Effect::Listen`], when the
    /// subscription is there.
    PushGap,
}

/// What is to be done.
#[derive(Debug)]
#[must_use]
pub enum Effect {
    /// Send a batch as one pipeline, and report the answers.
    Send {
        /// Names the batch.
        ticket: Ticket,
        /// The hash slot of all its commands.
        slot: u16,
        /// The commands.
        batch: Vec<Command>,
    },
    /// From now on report pushes about the end of these executions, and gaps.
    Listen(Vec<ExecutionId>),
}

/// A step whose commands are repeated until all are answered.
struct Sent {
    commands: Vec<Command>,
    replies: Vec<Option<Value>>,
    in_doubt: bool,
    window: RetryWindow,
}

enum State {
    New,
    /// Commands are in flight: the open ones of a step.
    Sending(Sent),
    /// Commands are in flight that are sent once.
    SendingOnce,
    /// A pause before the open commands of a step are repeated.
    Repeating(Sent, LocalTime),
    /// A pause that the procedure wanted.
    Pausing(LocalTime),
    /// Waiting for a push, at most until this time.
    Waiting {
        until: LocalTime,
        coalesce: Duration,
    },
    Done,
}

/// Runs one procedure: give it one input, take effects until none is left, then the next input.
pub struct Machine<P: Procedure> {
    procedure: P,
    settings: Settings,
    requests: Requests<()>,
    jitter: Jitter,
    state: State,
    /// For steps that the procedure repeats itself.
    window: Option<RetryWindow>,
    /// Whether a push or gap came since the last wait ended: what was read since then may be old.
    woken: bool,
    effects: VecDeque<Effect>,
    result: Option<Result<P::Output, Failure>>,
}

impl<P: Procedure> Machine<P> {
    /// A machine that begins with the first [`Input::Wake`]. Two machines with the same seed and
    /// inputs have the same effects.
    pub fn new(procedure: P, settings: Settings, seed: u64) -> Self {
        let limits = RequestLimits {
            window: WINDOW,
            window_per_slot: WINDOW_PER_SLOT,
            timeout: settings.call_timeout,
        };
        Self {
            procedure,
            settings,
            requests: Requests::new(limits, seed),
            jitter: Jitter::new(seed),
            state: State::New,
            window: None,
            woken: false,
            effects: VecDeque::new(),
            result: None,
        }
    }

    /// Feeds one thing that happened. `now` never runs backwards.
    pub fn handle(&mut self, now: LocalTime, input: Input) {
        match input {
            Input::Wake => self.wake(now),
            Input::Settled { ticket, answers } => {
                let events = self.requests.settle(ticket, answers);
                self.on_events(now, events);
            }
            Input::Push(hint) => {
                if self.procedure.pushed(&hint) {
                    self.on_push(now);
                }
            }
            Input::PushGap => {
                self.procedure.missed_pushes();
                self.on_push(now);
            }
        }
        self.send(now);
    }

    /// Takes the next effect.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to feed [`Input::Wake`]. May change after every `handle`.
    #[must_use]
    pub fn deadline(&self) -> Option<LocalTime> {
        let state = match &self.state {
            State::Repeating(_, at) | State::Pausing(at) | State::Waiting { until: at, .. } => {
                Some(*at)
            }
            State::New | State::Sending(_) | State::SendingOnce | State::Done => None,
        };
        [state, self.requests.deadline()].into_iter().flatten().min()
    }

    /// The result, once. `None` before the end.
    pub fn take_result(&mut self) -> Option<Result<P::Output, Failure>> {
        self.result.take()
    }

    /// The procedure, to look at it.
    #[must_use]
    pub const fn procedure(&self) -> &P {
        &self.procedure
    }

    fn wake(&mut self, now: LocalTime) {
        while let Some(events) = self.requests.expire_next(now) {
            self.on_events(now, events);
        }
        match core::mem::replace(&mut self.state, State::Done) {
            State::New => {
                let step = self.procedure.begin();
                self.follow(now, step);
            }
            State::Repeating(sent, at) if at <= now => self.send_open(sent),
            State::Pausing(at) if at <= now => self.resume(now),
            State::Waiting { until, .. } if until <= now => {
                self.woken = false;
                self.resume(now);
            }
            early @ (State::Repeating(..)
            | State::Pausing(_)
            | State::Waiting { .. }
            | State::Sending(_)
            | State::SendingOnce
            | State::Done) => self.state = early,
        }
    }

    fn on_push(&mut self, now: LocalTime) {
        self.woken = true;
        let State::Waiting { until, coalesce } = &mut self.state else { return };
        *until = (*until).min(now.after(*coalesce));
        if *until <= now {
            self.woken = false;
            self.resume(now);
        }
    }

    fn resume(&mut self, now: LocalTime) {
        let step = self.procedure.resumed();
        self.follow(now, step);
    }

    fn on_events(&mut self, now: LocalTime, events: Vec<Event<()>>) {
        for event in events {
            match event {
                Event::Replied((), replies) => self.on_replies(now, replies),
                // The request of an expired ticket was answered with silence.
                Event::AnswerIgnored(_) | Event::TicketExpired(_) => {}
            }
        }
    }

    fn on_replies(&mut self, now: LocalTime, replies: Vec<Reply>) {
        match core::mem::replace(&mut self.state, State::Done) {
            State::Sending(sent) => self.on_sent_replies(now, sent, replies),
            State::SendingOnce => {
                let step = self.procedure.answered(replies);
                self.follow(now, step);
            }
            other @ (State::New
            | State::Repeating(..)
            | State::Pausing(_)
            | State::Waiting { .. }
            | State::Done) => self.state = other,
        }
    }

    /// Keeps the replies of a step, and repeats the commands that were not answered.
    fn on_sent_replies(&mut self, now: LocalTime, mut sent: Sent, replies: Vec<Reply>) {
        let mut failed: Option<ServerError> = None;
        let all = sent.replies.iter_mut().zip(&sent.commands);
        let open = all.filter(|(reply, _)| reply.is_none());
        for ((place, command), reply) in open.zip(replies) {
            match reply {
                Ok(value) => *place = Some(value),
                Err(error) => {
                    let error = with_key(error, command);
                    sent.in_doubt |= error.applied == Applied::Perhaps;
                    failed = Some(worse(failed, error));
                }
            }
        }
        let Some(error) = failed else {
            let values: Vec<Value> =
                sent.replies.into_iter().map(|reply| reply.unwrap_or(Value::Nil)).collect();
            let replies = Replies { values: values.into_iter(), in_doubt: sent.in_doubt };
            let step = self.procedure.replied(replies);
            return self.follow(now, step);
        };
        match sent.window.retry_at(now, &error, &mut self.jitter) {
            Some(at) => self.state = State::Repeating(sent, at),
            None => self.finish(Err(Failure::Unavailable(error))),
        }
    }

    /// Takes steps until one has to wait for something.
    fn follow(&mut self, now: LocalTime, step: Step<P::Output>) {
        let mut next = Some(step);
        while let Some(step) = next.take() {
            match step {
                Step::Send(commands) if commands.is_empty() => {
                    let replies = Replies { values: Vec::new().into_iter(), in_doubt: false };
                    next = Some(self.procedure.replied(replies));
                }
                Step::Send(commands) => {
                    let replies = vec![None; commands.len()];
                    let window = RetryWindow::new(now, self.settings.retry_for);
                    self.send_open(Sent { commands, replies, in_doubt: false, window });
                }
                Step::SendOnce(commands) if commands.is_empty() => {
                    next = Some(self.procedure.answered(Vec::new()));
                }
                Step::SendOnce(commands) => {
                    self.requests.add(commands, Priority::Due, ());
                    self.state = State::SendingOnce;
                }
                Step::Pause(error) => self.pause(now, error),
                Step::Listen(executions) => {
                    self.effects.push_back(Effect::Listen(executions));
                    next = Some(self.procedure.resumed());
                }
                Step::Wait { poll_within, coalesce } => {
                    let most = if self.woken { coalesce } else { poll_within };
                    let until = now.after(most);
                    if until <= now {
                        self.woken = false;
                        next = Some(self.procedure.resumed());
                    } else {
                        self.state = State::Waiting { until, coalesce };
                    }
                }
                Step::Done(result) => self.finish(result),
            }
        }
    }

    /// Sends the commands of a step that have no reply yet.
    fn send_open(&mut self, sent: Sent) {
        let open = sent.commands.iter().zip(&sent.replies).filter(|(_, reply)| reply.is_none());
        let commands = open.map(|(command, _)| command.clone()).collect();
        self.requests.add(commands, Priority::Due, ());
        self.state = State::Sending(sent);
    }

    fn pause(&mut self, now: LocalTime, error: ServerError) {
        let retry_for = self.settings.retry_for;
        let window = self.window.get_or_insert_with(|| RetryWindow::new(now, retry_for));
        match window.retry_at(now, &error, &mut self.jitter) {
            Some(at) => self.state = State::Pausing(at),
            None => self.finish(Err(Failure::Unavailable(error))),
        }
    }

    fn finish(&mut self, result: Result<P::Output, Failure>) {
        self.state = State::Done;
        self.result = Some(result);
    }

    fn send(&mut self, now: LocalTime) {
        for ready in self.requests.send(now) {
            let (ticket, slot, batch) = (ready.ticket, ready.slot, ready.commands);
            self.effects.push_back(Effect::Send { ticket, slot, batch });
        }
    }
}

/// An error about the type of a key, with the key: the server does not name it. Functions do.
fn with_key(error: ServerError, command: &Command) -> ServerError {
    let is_function = command.argv.first().is_some_and(|name| name.starts_with(b"FCALL"));
    let key = command.argv.get(1).map(|key| String::from_utf8_lossy(key));
    match key {
        Some(key) if error.text == WRONG_TYPE && !is_function => {
            ServerError { text: format!("{WRONG_TYPE}: {key}"), ..error }
        }
        _ => error,
    }
}

/// What a server says about a key of another type.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The error that decides whether a step is repeated: one that does not pass, if there is one.
fn worse(before: Option<ServerError>, error: ServerError) -> ServerError {
    use crate::retry::{Idempotency, Retry};
    match before {
        Some(before) if before.retry(Idempotency::Idempotent) != Retry::AfterPause => before,
        Some(_) | None => error,
    }
}

/// Most batches in flight. A procedure is at most one step ahead, and a step is bounded.
const WINDOW: usize = 64;
/// Most batches in flight to one hash slot.
const WINDOW_PER_SLOT: usize = 8;
