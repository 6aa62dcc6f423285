//! Bugs between a worker's machine and its driver. The machine is the production code.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::command::{Answer, Command, Ticket};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_core::worker::{CancelReason, Effect, HandlerOutcome, Input, PANIC};

use super::WorkerBug;
use crate::event::{arguments_of, function_of, keys_of};

/// Changes what the machine sends and what it is told.
#[derive(Default)]
pub(crate) struct WorkerShim {
    /// Commands in flight.
    sent: BTreeMap<Ticket, Vec<SentCommand>>,
    /// Executions whose handlers panicked.
    panicked: BTreeSet<Vec<u8>>,
    /// How many permits are leaked.
    leaked: usize,
    /// Where a claim failed, and when.
    failed: Option<(Vec<u8>, u64)>,
    now_ms: u64,
    draining: bool,
}

/// A command, and the answer that it gets instead of the real one.
struct SentCommand {
    argv: Vec<Vec<u8>>,
    answer: Option<Answer>,
}

impl WorkerShim {
    /// What the machine gets instead of an input, and another input for later.
    pub(crate) fn input(
        &mut self,
        bug: WorkerBug,
        capacity: usize,
        input: Input,
    ) -> (Option<Input>, Option<Input>) {
        let ignored = match (bug, &input) {
            (WorkerBug::ReadyIgnored, Input::Ready(..))
            | (WorkerBug::LostIgnored, Input::Lost(_))
            | (WorkerBug::GapIgnored, Input::PushGap)
            | (WorkerBug::CapacityIgnored, Input::Capacity(_)) => true,
            (WorkerBug::PanicNotReported, Input::Ended { outcome, .. }) => {
                matches!(outcome, HandlerOutcome::Panicked(_))
            }
            _ => false,
        };
        if ignored {
            return (None, None);
        }
        self.draining |= matches!(input, Input::Drain);
        match input {
            Input::Settled { ticket, answers } => {
                let (before, sent) = (self.leaked, self.sent.remove(&ticket).unwrap_or_default());
                let answers = answers.into_iter().zip(sent);
                let answers = answers.map(|(answer, sent)| self.answer(bug, answer, sent));
                let answers = answers.collect();
                let left = capacity.saturating_sub(self.leaked);
                let fewer = (self.leaked > before).then_some(Input::Capacity(left));
                (Some(Input::Settled { ticket, answers }), fewer)
            }
            Input::Capacity(capacity) => {
                (Some(Input::Capacity(capacity.saturating_sub(self.leaked))), None)
            }
            input @ (Input::Wake
            | Input::Ready(..)
            | Input::Lost(_)
            | Input::LaneChanged(_)
            | Input::PushGap
            | Input::Ended { .. }
            | Input::HandlerRequested { .. }
            | Input::Drain) => (Some(input), None),
        }
    }

    /// What is carried out instead of an effect; none if nothing is.
    pub(crate) fn effect(
        &mut self,
        bug: WorkerBug,
        now_ms: u64,
        partitions: u64,
        effect: Effect,
    ) -> Option<Effect> {
        self.now_ms = now_ms;
        match effect {
            Effect::Cancel { reason, .. }
                if bug == WorkerBug::CancellationForgotten && reason != CancelReason::Draining =>
            {
                None
            }
            Effect::Send { ticket, slot, mut batch } => {
                let last = format!("{{fp:{}}}", partitions.saturating_sub(1));
                let mut sent = Vec::with_capacity(batch.len());
                for command in &mut batch {
                    let argv = command.argv.clone();
                    let answer = self.command(bug, &last, command);
                    sent.push(SentCommand { argv, answer });
                }
                self.sent.insert(ticket, sent);
                Some(Effect::Send { ticket, slot, batch })
            }
            Effect::Start { .. }
            | Effect::Cancel { .. }
            | Effect::Abort { .. }
            | Effect::Answer { .. }
            | Effect::Observe(_) => Some(effect),
        }
    }

    /// Changes a command, or replaces it by one without an effect, whose answer is then given.
    fn command(&mut self, bug: WorkerBug, last: &str, command: &mut Command) -> Option<Answer> {
        let name = function_of(&command.argv).unwrap_or_default().to_owned();
        let of_last = String::from_utf8_lossy(first_key(&command.argv)).contains(last);
        let arguments = arguments_of(&command.argv);
        let about = arguments.first().cloned().unwrap_or_default();
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other bugs change no command")]
        let answer = match bug {
            WorkerBug::RenewalNeverSent if name == "ff_renew_lease" => renewed(),
            WorkerBug::RefusedAdmissionNotBlocked if name.starts_with("ff_block") => {
                done(&["blocked"])
            }
            WorkerBug::DrainForgetsReports if self.draining && is_report(&name) => reported(&name),
            WorkerBug::LastPartitionSkipped if is_claim(&name) && of_last => done(&["empty"]),
            WorkerBug::OneFailureStopsAll if is_claim(&name) && self.stops(&command.argv) => {
                Answer::NotApplied(ServerError::never_sent("left alone".to_owned()))
            }
            WorkerBug::PanicKeepsSlot if is_report(&name) => {
                if arguments.iter().any(|word| word == PANIC.as_bytes()) {
                    self.panicked.insert(about);
                }
                return None;
            }
            WorkerBug::PanicKeepsSlot if name == "ff_release_admission" => {
                if !arguments.iter().any(|word| self.panicked.contains(word)) {
                    return None;
                }
                done(&["released"])
            }
            WorkerBug::ReportUnderWrongFence if is_report(&name) => {
                change_epoch(command);
                return None;
            }
            _ => return None,
        };
        command.argv = vec![b"TIME".to_vec()];
        Some(answer)
    }

    /// Whether a claim failed elsewhere not long ago.
    fn stops(&self, argv: &[Vec<u8>]) -> bool {
        self.failed.as_ref().is_some_and(|(key, at_ms)| {
            key != first_key(argv) && self.now_ms < at_ms + LEFT_ALONE_MS
        })
    }

    /// What the machine gets instead of an answer.
    fn answer(&mut self, bug: WorkerBug, answer: Answer, sent: SentCommand) -> Answer {
        if let Some(planted) = sent.answer {
            return planted;
        }
        let name = function_of(&sent.argv).unwrap_or_default();
        let failed =
            !matches!(answer, Answer::Applied(ref value) if !matches!(value, Value::Error(_)));
        let refused = matches!(&answer, Answer::Applied(Value::Array(words))
            if words.first() == Some(&Value::Int(0)));
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other bugs change no answer")]
        match bug {
            WorkerBug::ClaimNotAskedAgain if is_claim(name) && failed => {
                Answer::NotApplied(ServerError::never_sent("given up".to_owned()))
            }
            WorkerBug::RenewalFailureIsSuccess
                if name == "ff_renew_lease" && (failed || refused) =>
            {
                renewed()
            }
            WorkerBug::SilentReportIsSuccess if is_report(name) && failed => reported(name),
            WorkerBug::UnclaimedSlotKept
                if sent.argv.first().is_some_and(|verb| verb == b"HMGET")
                    && String::from_utf8_lossy(first_key(&sent.argv)).starts_with("ff:exec:") =>
            {
                Answer::Applied(Value::Array(vec![word("active"), word("not_applicable")]))
            }
            WorkerBug::UsageIgnored if first_key(&sent.argv).ends_with(b":usage") => {
                Answer::Applied(Value::Array(Vec::new()))
            }
            WorkerBug::PermitLeaked if is_claim(name) && failed => {
                self.leaked += 1;
                answer
            }
            WorkerBug::OneFailureStopsAll if is_claim(name) && failed => {
                self.failed = Some((first_key(&sent.argv).to_vec(), self.now_ms));
                answer
            }
            _ => answer,
        }
    }
}

fn is_claim(function: &str) -> bool {
    matches!(function, "ff_claim_next" | "ff_claim_many")
}

fn is_report(function: &str) -> bool {
    matches!(
        function,
        "ff_complete_execution" | "ff_fail_execution" | "ff_delay_execution" | "ff_end_and_claim"
    )
}

fn first_key(argv: &[Vec<u8>]) -> &[u8] {
    let key = if function_of(argv).is_some() { keys_of(argv).first() } else { argv.get(1) };
    key.map(Vec::as_slice).unwrap_or_default()
}

/// Changes the epoch among the arguments of a report: the number after the lease id.
fn change_epoch(command: &mut Command) {
    let first = command.argv.len() - arguments_of(&command.argv).len();
    let is_id = |word: &[u8]| word.len() == 36 && word.iter().filter(|b| **b == b'-').count() == 4;
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let at = (first + 1..command.argv.len())
        .find(|at| is_number(&command.argv[*at]) && is_id(&command.argv[*at - 1]));
    if let Some(at) = at {
        command.argv[at] = b"999".to_vec();
    }
}

fn reported(function: &str) -> Answer {
    match function {
        "ff_fail_execution" => done(&["terminal_failed"]),
        "ff_delay_execution" => done(&["0"]),
        "ff_end_and_claim" => done(&["completed", "", "empty"]),
        _ => done(&["completed"]),
    }
}

/// A lease that never ends.
fn renewed() -> Answer {
    done(&["9999999999999"])
}

fn done(words: &[&str]) -> Answer {
    let mut reply = vec![Value::Int(1), word("OK")];
    reply.extend(words.iter().map(|text| word(text)));
    Answer::Applied(Value::Array(reply))
}

fn word(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// How long all partitions are left alone after a failed claim.
const LEFT_ALONE_MS: u64 = 60_000;
