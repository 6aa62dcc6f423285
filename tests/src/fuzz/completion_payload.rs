//! Any message may come over the completion channel.

use selvedge_core::completion::Completion;
use selvedge_core::state::TerminalOutcome;

/// Reads a message as a completion.
///
/// # Panics
/// When something is read that the message does not say.
pub fn run(data: &[u8]) {
    let completion = match Completion::read(data) {
        Ok(completion) => completion,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_ne!(completion.outcome, TerminalOutcome::None, "an end without an outcome");
    let message = serde_json::json!({
        "execution_id": completion.execution_id.as_str(),
        "flow_id": completion.flow_id.to_string(),
        "outcome": completion.outcome.to_string(),
    });
    let again = Completion::read(message.to_string().as_bytes());
    assert_eq!(again, Ok(completion), "told again as {message}");
}
