//! Messages of the completion channel: any bytes.

use selvedge_core::completion::Completion;
use selvedge_core::state::TerminalOutcome;
use serde_json::Value;

use super::accepted_input;

/// Reads a message as a completion.
///
/// # Panics
/// When something is read that the message does not say, or a plain message is refused.
pub fn run(data: &[u8]) {
    // Whoever passes over other members takes numbers in them that no one else can keep.
    let said = serde_json::from_slice::<Value>(data).ok();
    match Completion::read(data) {
        Ok(completion) => is_told(completion, said.as_ref()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some(said) = said.filter(is_plain) {
        // Written anew, because a member that stands there twice is a doubt.
        let read = Completion::read(said.to_string().as_bytes());
        assert!(read.is_ok(), "{said} is refused: {read:?}");
    }
}

fn is_told(completion: Completion, said: Option<&Value>) {
    assert_ne!(completion.outcome, TerminalOutcome::None, "an end without an outcome");
    let message = serde_json::json!({
        "execution_id": completion.execution_id.as_str(),
        "flow_id": completion.flow_id.to_string(),
        "outcome": completion.outcome.to_string(),
    });
    if let Some(said) = said {
        assert_eq!(said["execution_id"], message["execution_id"], "in {said}");
        assert_eq!(said["outcome"], message["outcome"], "in {said}");
        let flow = said["flow_id"].as_str().and_then(|text| text.parse().ok());
        assert_eq!(flow, Some(completion.flow_id), "in {said}");
    }
    let again = Completion::read(message.to_string().as_bytes());
    assert_eq!(again, Ok(completion), "told again as {message}");
}

/// Whether a message tells of an end beyond doubt.
fn is_plain(said: &Value) -> bool {
    let is = |name: &str, plain: fn(&str) -> bool| said[name].as_str().is_some_and(plain);
    is("execution_id", accepted_input::is_execution_id)
        && is("flow_id", accepted_input::is_uuid)
        && is("outcome", |word| OUTCOMES.contains(&word))
}

/// How an execution can end, in the contract's words.
const OUTCOMES: [&str; 5] = ["success", "failed", "cancelled", "expired", "skipped"];
