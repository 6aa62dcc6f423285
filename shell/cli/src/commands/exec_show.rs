//! `selvedge exec show`: everything about one execution.

use std::time::Duration;

use selvedge::client::{Backoff, Client, ExecutionPolicy};
use selvedge::inspect::{Attempt, ExecutionDetails};
use selvedge_core::id::ExecutionId;
use selvedge_core::time::ServerTime;
use serde_json::{Value, json};

use super::context::Context;
use super::exec::state_of;
use super::failure::Failure;
use super::output::{escape_control, with_times};

pub(crate) async fn run(
    context: &Context,
    client: &Client,
    id: &ExecutionId,
) -> Result<(), Failure> {
    let execution = context.execution(client, id).await?;
    let details = client.details(&execution).await?;
    let state = state_of(&execution);
    let text = |text: String| if text.is_empty() { Value::Null } else { Value::from(text) };
    // The record says `none` when nothing blocks it; then the field is left out.
    let blocked_by = Some(execution.blocking_reason).filter(|word| word != "none");
    let tags: Vec<String> =
        execution.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let lane = execution.lane.as_ref().map_or(Value::Null, |lane| Value::from(lane.as_str()));
    let json = context.output.json;
    let own = details.policy.as_ref().and_then(|policy| policy.stream_policy.as_ref());
    // The engines may run elsewhere; assume that they have the settings of this environment.
    let kept_ms = own.and_then(|kept| kept.retention_ttl_ms);
    let kept_ms = kept_ms.unwrap_or_else(|| context.settings.engine.retention_ms());
    let purged_at =
        execution.completed_at.map(|at| ServerTime(at.0.saturating_add_unsigned(kept_ms)));
    let mut fields = vec![
        ("id", Value::from(execution.id.to_string())),
        ("namespace", text(execution.namespace)),
        ("kind", Value::from(execution.kind)),
        ("lane", lane),
        ("state", Value::from(state)),
        ("outcome", execution.outcome.map_or(Value::Null, |word| Value::from(word.as_str()))),
        ("reason", text(execution.reason)),
        ("blocked by", text(blocked_by.unwrap_or_default())),
        ("blocked because", text(execution.blocking_detail)),
        ("flow", execution.flow.map_or(Value::Null, |flow| Value::from(flow.to_string()))),
        ("attempt", execution.attempt.map_or(Value::Null, |index| Value::from(index.0))),
        ("worker", execution.worker.map_or(Value::Null, |name| Value::from(name.to_string()))),
        ("lease expires at", time(execution.lease_expires_at)),
        ("priority", Value::from(execution.priority)),
        ("retries", Value::from(execution.retries)),
        ("reclaims", Value::from(execution.reclaims)),
        ("replays", Value::from(execution.replays)),
        ("progress percent", execution.progress_percent.map_or(Value::Null, Value::from)),
        ("progress", text(execution.progress_message)),
        ("created at", time(execution.created_at)),
        ("started at", time(execution.started_at)),
        ("completed at", time(execution.completed_at)),
        ("retention", span(Some(kept_ms))),
        ("purged at", time(purged_at)),
        ("tags", Value::from(tags)),
    ];
    fields.extend(policy_fields(details.policy.as_ref()));
    fields.push(("payload", data(&details.payload, json)));
    fields.push(("payload bytes", Value::from(details.payload.len())));
    if let Some(result) = &details.result {
        fields.push(("result", data(result, json)));
        fields.push(("result bytes", Value::from(result.len())));
    }
    fields.push(("frames", Value::from(details.frame_count)));
    if json {
        fields.push(("attempts", details.attempts.iter().map(attempt_object).collect()));
        fields.push(("output", details.last_frames.iter().map(frame_object).collect()));
    }
    context.output.record(fields)?;
    if !json {
        print_lists(context, &details)?;
    }
    Ok(())
}

/// Bytes as text, shortened for people; `null` for programs if they are no text.
pub(super) fn data(bytes: &[u8], whole: bool) -> Value {
    match std::str::from_utf8(bytes) {
        _ if bytes.is_empty() => Value::Null,
        Ok(text) if whole => Value::from(text),
        Err(_) if whole => Value::Null,
        Ok(text) if text.chars().count() <= SHOWN_MAX => Value::from(text),
        Ok(text) => Value::from(format!("{}…", text.chars().take(SHOWN_MAX).collect::<String>())),
        Err(_) => Value::from("(not text)"),
    }
}

fn time(at: Option<ServerTime>) -> Value {
    at.map_or(Value::Null, |at| Value::from(at.0))
}

fn span(ms: Option<u64>) -> Value {
    let text = |ms| humantime::format_duration(Duration::from_millis(ms)).to_string();
    ms.map_or(Value::Null, |ms| Value::from(text(ms)))
}

/// What its policy limits.
fn policy_fields(policy: Option<&ExecutionPolicy>) -> Vec<(&'static str, Value)> {
    let Some(policy) = policy else { return vec![("policy", Value::from("unreadable"))] };
    let timeouts = policy.timeout_policy.as_ref();
    let retry = policy.retry_policy.as_ref();
    let needs = policy.routing_requirements.as_ref().map(|needs| &needs.required_capabilities);
    let budgets: Vec<String> = policy.budget_ids.iter().map(ToString::to_string).collect();
    let backoff = |backoff: &Backoff| match serde_json::to_value(backoff) {
        Ok(value) => value,
        Err(_) => Value::Null,
    };
    vec![
        ("attempt timeout", span(timeouts.and_then(|limits| limits.attempt_timeout_ms))),
        ("deadline", span(timeouts.and_then(|limits| limits.execution_deadline_ms))),
        ("most retries", retry.map_or(Value::from(0), |retry| Value::from(retry.max_retries))),
        ("backoff", retry.map_or(Value::Null, |retry| backoff(&retry.backoff))),
        ("most reclaims", Value::from(policy.max_reclaim_count)),
        ("most replays", Value::from(policy.max_replay_count)),
        ("needs", needs.map_or(Value::Null, |all| Value::from_iter(all.iter().cloned()))),
        ("budgets", if budgets.is_empty() { Value::Null } else { Value::from(budgets) }),
        ("quota", policy.quota_policy_id.map_or(Value::Null, |id| Value::from(id.to_string()))),
    ]
}

fn attempt_object(attempt: &Attempt) -> Value {
    json!({
        "attempt": attempt.index.0,
        "state": attempt.state,
        "worker": attempt.worker,
        "started_at": attempt.started_at.map(|at| at.0),
        "ended_at": attempt.ended_at.map(|at| at.0),
        "reason": attempt.reason,
    })
}

fn frame_object((kind, payload): &(String, Vec<u8>)) -> Value {
    json!({ "type": kind, "payload": data(payload, true), "bytes": payload.len() })
}

/// The attempts and the last frames, one a line.
fn print_lists(context: &Context, details: &ExecutionDetails) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for attempt in &details.attempts {
        let at = |at: Option<ServerTime>| at.map_or_else(|| "…".to_owned(), |at| at.0.to_string());
        let span = format!("from {} to {}", at(attempt.started_at), at(attempt.ended_at));
        let (state, worker) = (escape_control(&attempt.state), escape_control(&attempt.worker));
        let mut line = format!("attempt {}  {state} {span} by {worker}", attempt.index);
        if !attempt.reason.is_empty() {
            line.push_str(&format!(": {}", escape_control(&attempt.reason)));
        }
        lines.push(with_times(&line));
    }
    for (kind, payload) in &details.last_frames {
        let text = data(payload, false);
        let text = escape_control(text.as_str().unwrap_or_default());
        lines.push(format!("output  {} {text}", escape_control(kind)));
    }
    if lines.is_empty() {
        return Ok(());
    }
    Ok(context.output.message(&lines.join("\n"), Value::Null)?)
}

/// Most characters of a payload or result that are shown to people.
const SHOWN_MAX: usize = 400;
