//! Bugs between an engine and the servers. The engine itself is the production code.

use selvedge_core::command::Answer;
use selvedge_core::value::Value;

use super::{EngineBug, PlantedBug};
use crate::event::function_of;

/// Whether a call of an engine is dropped.
pub(crate) fn drops_call(bug: Option<PlantedBug>, argv: &[Vec<u8>]) -> bool {
    match bug {
        Some(PlantedBug::Engine(EngineBug::NeverCalls(function))) => {
            // With that for many, whose name begins with it.
            let name = function_of(argv).and_then(|name| name.strip_prefix("ff_"));
            name.is_some_and(|name| name.starts_with(function))
        }
        _ => false,
    }
}

/// What an engine gets instead of the real answer.
pub(crate) fn change_answer(bug: Option<PlantedBug>, answer: Answer) -> Answer {
    match (bug, answer) {
        (Some(PlantedBug::Engine(EngineBug::UnknownIsSuccess)), Answer::PerhapsApplied(_)) => {
            let word = |text: &str| Value::Bulk(text.as_bytes().to_vec());
            Answer::Applied(Value::Array(vec![
                Value::Int(1),
                word("OK"),
                word("cancelled"),
                word("active"),
            ]))
        }
        (_, answer) => answer,
    }
}
