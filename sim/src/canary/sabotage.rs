//! Bugs between an engine and the world: the engine itself stays as production runs it.

use selvedge_core::engine::Answer;
use selvedge_core::value::Value;

use super::{EngineBug, Plant};
use crate::event::function_of;

/// Whether an engine's call is never sent.
pub(crate) fn deafen(plant: Option<Plant>, argv: &[Vec<u8>]) -> bool {
    match plant {
        Some(Plant::Engine(EngineBug::NeverCalls(function))) => {
            function_of(argv).and_then(|name| name.strip_prefix("ff_")) == Some(function)
        }
        _ => false,
    }
}

/// What an engine hears instead of what was answered.
pub(crate) fn spoil(plant: Option<Plant>, answer: Answer) -> Answer {
    match (plant, answer) {
        (Some(Plant::Engine(EngineBug::SilenceIsConsent)), Answer::PerhapsApplied(_)) => {
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
