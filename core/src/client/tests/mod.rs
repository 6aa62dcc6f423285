//! Tests of the procedures, reply by reply.

mod control;
mod lanes;
mod register;
mod repeat;
mod submit;
mod wait;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Effect, Failure, Input, Machine, Procedure, Settings};
use crate::command::{Answer, Command, Ticket};
use crate::error::ServerError;
use crate::id::ExecutionId;
use crate::time::LocalTime;
use crate::value::Value;

/// A machine with what it has sent and nobody has answered.
struct Run<P: Procedure> {
    machine: Machine<P>,
    now: LocalTime,
    open: VecDeque<(Ticket, Vec<Command>)>,
    listens: Vec<ExecutionId>,
}

impl<P: Procedure> Run<P> {
    fn begin(procedure: P) -> Self {
        let machine = Machine::new(procedure, Settings::default(), 1);
        let (open, listens) = (VecDeque::new(), Vec::new());
        let mut run = Self { machine, now: LocalTime(1_000), open, listens };
        run.feed(Input::Wake);
        run
    }

    fn feed(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        while let Some(effect) = self.machine.next_effect() {
            match effect {
                Effect::Send { ticket, batch, slot } => {
                    assert!(batch.iter().all(|command| command.slot == slot), "one slot");
                    self.open.push_back((ticket, batch));
                }
                Effect::Listen(ids) => self.listens = ids,
            }
        }
    }

    /// Answers the oldest open batch.
    fn settle(&mut self, answers: Vec<Answer>) {
        let (ticket, batch) = self.open.pop_front().expect("a batch in flight");
        assert_eq!(batch.len(), answers.len(), "{batch:?}");
        self.feed(Input::Settled { ticket, answers });
    }

    fn reply(&mut self, values: impl IntoIterator<Item = Value>) {
        self.settle(values.into_iter().map(Answer::Applied).collect());
    }

    /// No reply comes for the oldest open batch.
    fn silence(&mut self) {
        let count = self.open.front().map_or(0, |(_, batch)| batch.len());
        let silent = Answer::PerhapsApplied(ServerError::silence("cut"));
        self.settle(core::iter::repeat_n(silent, count).collect());
    }

    /// Advances the clock to the deadline.
    fn wake(&mut self) {
        self.now = self.machine.deadline().expect("something is due").max(self.now);
        self.feed(Input::Wake);
    }

    /// The commands of the oldest open batch: function or command, and its last word.
    fn asks(&self) -> Vec<String> {
        let batch = self.open.front().map(|(_, batch)| batch.as_slice()).unwrap_or_default();
        batch.iter().map(name).collect()
    }

    fn result(&mut self) -> Option<Result<P::Output, Failure>> {
        self.machine.take_result()
    }
}

fn name(command: &Command) -> String {
    let at = usize::from(command.argv.first().is_some_and(|verb| verb == b"FCALL"));
    let word = command.argv.get(at).cloned().unwrap_or_default();
    String::from_utf8_lossy(&word).trim_start_matches("ff_").to_string()
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn fields(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|text| bulk(text)).collect())
}

/// The reply of a function that did something.
fn ok(words: &[&str]) -> Value {
    let words = words.iter().map(|word| bulk(word));
    Value::Array([Value::Int(1), bulk("OK")].into_iter().chain(words).collect())
}

/// The reply of a function that refused.
fn refused(words: &[&str]) -> Value {
    let words = words.iter().map(|word| bulk(word));
    Value::Array([Value::Int(0)].into_iter().chain(words).collect())
}

fn execution(last: u8) -> ExecutionId {
    let mut bytes = [7; 16];
    bytes[15] = last;
    ExecutionId::new(0, uuid::Uuid::from_bytes(bytes))
}
