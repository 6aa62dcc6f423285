//! The message that announces the end of a flow member. A push is a hint: scanning finds the same.

use alloc::string::String;

use serde::Deserialize;
use thiserror::Error;

use crate::id::{ExecutionId, FlowId};
use crate::state::TerminalOutcome;
use crate::strict_json::Object;

/// Channel on which completions are published.
pub const CHANNEL: &str = "ff:dag:completions";

/// One member of a flow has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The member.
    pub execution_id: ExecutionId,
    /// Its flow.
    pub flow_id: FlowId,
    /// How it ended; never [`TerminalOutcome::None`].
    pub outcome: TerminalOutcome,
}

/// A message that is no completion; it is dropped, the reconciler finds the work anyway.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid completion message: {reason}")]
#[non_exhaustive]
pub struct InvalidCompletion {
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Deserialize)]
struct Message {
    execution_id: String,
    flow_id: String,
    outcome: String,
}

impl Completion {
    /// Reads a message of the channel. Further members are ignored.
    ///
    /// # Errors
    /// When the message is no JSON object with the three members, or one of them is no id or
    /// no terminal outcome.
    pub fn read(message: &[u8]) -> Result<Self, InvalidCompletion> {
        let Object(message): Object<Message> = serde_json::from_slice(message).map_err(invalid)?;
        let outcome: TerminalOutcome = message.outcome.parse().map_err(invalid)?;
        if outcome == TerminalOutcome::None {
            return Err(invalid("`none` is no outcome of something that ended"));
        }
        Ok(Self {
            execution_id: message.execution_id.parse().map_err(invalid)?,
            flow_id: message.flow_id.parse().map_err(invalid)?,
            outcome,
        })
    }
}

fn invalid(reason: impl core::fmt::Display) -> InvalidCompletion {
    InvalidCompletion { reason: alloc::string::ToString::to_string(&reason) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_come_in_any_order() {
        let read = Completion::read(
            br#"{"outcome":"skipped","flow_id":"123e4567-e89b-12d3-a456-426614174000",
                 "more":1,"execution_id":"{fp:7}:550e8400-e29b-41d4-a716-446655440000"}"#,
        )
        .unwrap();
        assert_eq!(read.outcome, TerminalOutcome::Skipped);
        assert_eq!(read.execution_id.partition().index, 7);
    }

    #[test]
    fn a_list_of_the_three_is_no_message() {
        let error = Completion::read(
            br#"["{fp:7}:550e8400-e29b-41d4-a716-446655440000",
                 "123e4567-e89b-12d3-a456-426614174000","success"]"#,
        )
        .unwrap_err();
        assert!(error.reason.contains("invalid type: sequence"), "{error}");
    }

    #[test]
    fn an_empty_or_open_outcome_is_refused() {
        for outcome in ["", "none", "completed"] {
            let text = alloc::format!(
                r#"{{"execution_id":"{{fp:7}}:550e8400-e29b-41d4-a716-446655440000","flow_id":"123e4567-e89b-12d3-a456-426614174000","outcome":"{outcome}"}}"#
            );
            assert!(Completion::read(text.as_bytes()).is_err(), "{outcome}");
        }
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_reader(bytes: alloc::vec::Vec<u8>) {
            let _ = Completion::read(&bytes);
        }
    }
}
