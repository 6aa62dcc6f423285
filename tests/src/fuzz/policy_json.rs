//! Policies: what is read is in the document, and a written policy reads the same again.

use std::sync::LazyLock;

use selvedge_core::policy::ExecutionPolicy;
use serde_json::Value;

use super::accepted_input;

/// Reads a document as a policy.
///
/// # Panics
/// When something is read that the document does not say, or does not survive being written, or
/// when a plain document is refused.
pub fn run(data: &[u8]) {
    // Nothing at all says nothing, and passed over is what nobody else can keep.
    let document = serde_json::from_slice::<Value>(data).ok();
    match ExecutionPolicy::read(data) {
        Ok(policy) => {
            let written = policy.to_json();
            let again = ExecutionPolicy::read(written.as_bytes());
            assert_eq!(again.as_ref(), Ok(&policy), "written as {written}");
            let read: Value = serde_json::from_str(&written).expect("JSON was written");
            if let Some(document) = &document {
                assert!(says(document, &read, &FORM), "{document} is read as {read}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some(document) = document.filter(|document| fits(document, &FORM)) {
        // Written anew, because a member that stands there twice is a doubt.
        let read = ExecutionPolicy::read(document.to_string().as_bytes());
        assert!(read.is_ok(), "{document} is refused: {read:?}");
    }
}

/// Whether what was read is all that a document says in this form. Members that it has not are
/// defaults.
fn says(document: &Value, read: &Value, form: &Value) -> bool {
    match (document, read) {
        (Value::Object(document), Value::Object(read)) => document.iter().all(|(name, said)| {
            let form = &form[name];
            match read.get(name) {
                Some(read) => says(said, read, form) || said.is_null(),
                // Who gives nothing gives what is left out; what nobody knows is passed over, and
                // so is what belongs to another choice.
                None => said.is_null() || form.is_null() || read.contains_key("type"),
            }
        }),
        (Value::Array(said), Value::Array(read)) => {
            let all = || said.iter().zip(read).all(|(said, read)| says(said, read, &form[0]));
            said.len() == read.len() && all()
        }
        // A whole number is fraction enough for a factor.
        (Value::Number(said), Value::Number(read)) if read.is_f64() => {
            said.as_f64() == read.as_f64()
        }
        // An id has several spellings, of which one is written.
        (Value::String(said), Value::String(read)) => {
            said == read || said.parse::<uuid::Uuid>().is_ok_and(|id| id.to_string() == *read)
        }
        _ => document == read,
    }
}

/// Whether a document has this form beyond doubt. Members that the form has not may be anything.
fn fits(document: &Value, form: &Value) -> bool {
    match (document, form) {
        (Value::Object(document), Value::Object(form)) => form.iter().all(|(name, form)| {
            let must = form.as_str().is_some_and(|form| form.contains('|'));
            document.get(name).map_or(!must, |part| fits(part, form))
        }),
        (Value::Array(elements), Value::Array(form)) => {
            elements.iter().all(|element| fits(element, &form[0]))
        }
        (Value::Null, Value::String(form)) => form.ends_with('?'),
        (_, Value::String(form)) => match form.trim_end_matches('?') {
            "i64" => document.is_i64(),
            "u64" => document.is_u64(),
            "u32" => document.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
            "number" => document.is_number(),
            "bool" => document.is_boolean(),
            "text" => document.is_string(),
            "uuid" => document.as_str().is_some_and(accepted_input::is_uuid),
            words => document.as_str().is_some_and(|said| words.split('|').any(|one| one == said)),
        },
        _ => false,
    }
}

/// What stands where in a policy: `?` may be null, and what has a choice of words must be there.
static FORM: LazyLock<Value> = LazyLock::new(|| {
    serde_json::json!({
        "priority": "i64",
        "delay_until": "i64?",
        "retry_policy": {
            "max_retries": "u32",
            "backoff": {
                "type": "exponential|fixed",
                "initial_delay_ms": "u64",
                "max_delay_ms": "u64",
                "multiplier": "number",
                "jitter": "bool",
                "delay_ms": "u64",
            },
            "retryable_categories": ["text"],
        },
        "timeout_policy": {
            "attempt_timeout_ms": "u64?",
            "execution_deadline_ms": "u64?",
            "max_reclaim_count": "u32",
        },
        "max_reclaim_count": "u32",
        "suspension_policy": { "default_timeout_ms": "u64?", "timeout_behavior": "text" },
        "fallback_policy": {
            "tiers": [{ "provider": "text", "model": "text", "timeout_ms": "u64?" }],
        },
        "max_replay_count": "u32",
        "budget_ids": ["uuid"],
        "quota_policy_id": "uuid?",
        "routing_requirements": {
            "required_capabilities": ["text"],
            "preferred_locality": "text?",
            "isolation_level": "text?",
        },
        "dedup_window_ms": "u64?",
        "stream_policy": {
            "durability_mode": "text",
            "retention_maxlen": "u64",
            "retention_ttl_ms": "u64?",
        },
        "max_signals_per_execution": "u32",
    })
});
