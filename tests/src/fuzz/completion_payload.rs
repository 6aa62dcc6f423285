//! Any message may come over the completion channel.

use selvedge_core::completion::Completion;
use selvedge_core::state::TerminalOutcome;
use serde_json::Value;

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
    // Whoever passes over other members takes numbers in them that no one else can keep.
    if let Ok(said) = serde_json::from_slice::<Value>(data) {
        assert_eq!(said["execution_id"], message["execution_id"], "in {said}");
        assert_eq!(said["outcome"], message["outcome"], "in {said}");
        let flow = said["flow_id"].as_str().and_then(|text| text.parse().ok());
        assert_eq!(flow, Some(completion.flow_id), "in {said}");
    }
    let again = Completion::read(message.to_string().as_bytes());
    assert_eq!(again, Ok(completion), "told again as {message}");
}
