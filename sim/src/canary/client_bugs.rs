//! Bugs between a caller and the servers. The procedures of the client are the production code.

use std::collections::BTreeSet;

use selvedge_core::client::Input;
use selvedge_core::command::{Answer, Command};
use selvedge_core::value::Value;

use super::{ClientBug, PlantedBug};
use crate::event::{arguments_of, function_of};

const fn client_bug(bug: Option<PlantedBug>) -> Option<ClientBug> {
    match bug {
        Some(PlantedBug::Client(bug)) => Some(bug),
        Some(
            PlantedBug::Lua(_)
            | PlantedBug::Engine(_)
            | PlantedBug::Worker(_)
            | PlantedBug::World(_)
            | PlantedBug::Why(_),
        )
        | None => None,
    }
}

/// What a caller sends instead of its batch. `sent` holds what the same action has sent before.
pub(crate) fn change_batch(
    bug: Option<PlantedBug>,
    mut batch: Vec<Command>,
    sent: &mut BTreeSet<Vec<Vec<u8>>>,
) -> Vec<Command> {
    match client_bug(bug) {
        Some(ClientBug::ChunkSkipped) => {
            for command in batch.iter_mut().filter(|command| is_middle_chunk(command, sent)) {
                skip_members(command);
            }
        }
        Some(ClientBug::RepeatWithAnotherId) => {
            for command in &mut batch {
                let repeats = !sent.insert(command.argv.clone());
                if repeats && function_of(&command.argv) == Some("ff_create_execution") {
                    change_id(command);
                }
            }
        }
        _ => {}
    }
    batch
}

/// What a caller gets instead of an answer.
pub(crate) fn change_client_answer(bug: Option<PlantedBug>, answer: Answer) -> Answer {
    match (client_bug(bug), answer) {
        (Some(ClientBug::RefusalIsSuccess), Answer::Applied(Value::Array(words)))
            if words.first() == Some(&Value::Int(0)) && words.len() > 1 =>
        {
            Answer::Applied(success())
        }
        (Some(ClientBug::SilenceIsSuccess), Answer::PerhapsApplied(_)) => {
            Answer::Applied(success())
        }
        (Some(ClientBug::SealingGivenUp), Answer::Applied(Value::Array(mut words))) => {
            for word in &mut words {
                if *word == Value::Bulk(b"sealing".to_vec()) {
                    *word = Value::Bulk(b"sealed".to_vec());
                }
            }
            Answer::Applied(Value::Array(words))
        }
        (Some(ClientBug::LimitNotChecked), Answer::Applied(Value::Int(0))) => {
            Answer::Applied(Value::Int(1))
        }
        (Some(ClientBug::EndImagined), Answer::Applied(Value::Array(mut words)))
            if words.first() == Some(&Value::Bulk(b"none".to_vec())) =>
        {
            words[0] = Value::Bulk(b"success".to_vec());
            Answer::Applied(Value::Array(words))
        }
        (_, answer) => answer,
    }
}

/// What a caller gets instead of a push or a gap; none if it ignores it.
pub(crate) fn change_input(bug: Option<PlantedBug>, input: Input) -> Option<Input> {
    match (client_bug(bug), &input) {
        (Some(ClientBug::PushIgnored | ClientBug::OnlyPolls), Input::Push(_))
        | (Some(ClientBug::GapIgnored | ClientBug::OnlyPolls), Input::PushGap) => None,
        _ => Some(input),
    }
}

/// Whether a waiter never reads because of the time.
pub(crate) fn never_polls(bug: Option<PlantedBug>) -> bool {
    client_bug(bug) == Some(ClientBug::NeverPolls)
}

/// Whether this is a chunk that is neither the first nor the last.
fn is_middle_chunk(command: &Command, sent: &mut BTreeSet<Vec<Vec<u8>>>) -> bool {
    if function_of(&command.argv) != Some("ff_submit_flow") {
        return false;
    }
    let seals = arguments_of(&command.argv).get(4).is_some_and(|seal| seal == b"1");
    let is_first = sent.is_empty();
    sent.insert(command.argv.clone());
    !is_first && !seals
}

/// Takes the members out of a chunk.
fn skip_members(command: &mut Command) {
    let first = command.argv.len() - arguments_of(&command.argv).len();
    command.argv.truncate(first + 5);
    command.argv[first + 3] = br#"{"members":[],"edges":[],"groups":[]}"#.to_vec();
}

/// Changes the last digit of the execution's id, wherever it is.
fn change_id(command: &mut Command) {
    let Some(id) = arguments_of(&command.argv).first().cloned() else { return };
    let id = String::from_utf8_lossy(&id).into_owned();
    let uuid = id.rsplit(':').next().unwrap_or_default().to_owned();
    let last = if uuid.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{last}", &uuid[..uuid.len().saturating_sub(1)]);
    for word in &mut command.argv {
        if let Ok(text) = String::from_utf8(word.clone()) {
            *word = text.replace(&uuid, &other).into_bytes();
        }
    }
}

/// The reply of a cancel that was applied.
fn success() -> Value {
    let word = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    Value::Array(vec![Value::Int(1), word("OK"), word("cancelled"), word("active")])
}
