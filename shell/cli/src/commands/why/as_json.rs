//! Explanations as JSON.

use selvedge::inspect::{Cause, DueBy, Engines, Explanation, FlowExplanation, UnblockedBy, Wait};
use selvedge_core::time::ServerTime;
use serde_json::{Value, json};

pub(super) fn explanation(why: &Explanation) -> Value {
    let waits = |all: &[Wait]| all.iter().map(|one| wait(one, why.at)).collect::<Vec<_>>();
    let skipped_for = why.skipped_for.iter().map(|cause| {
        json!({
            "execution_id": cause.execution_id.to_string(),
            "outcome": cause.outcome.map(|outcome| outcome.as_str()),
            "reason": cause.reason,
        })
    });
    json!({
        "execution_id": why.execution_id.to_string(),
        "namespace": why.namespace,
        "state": why.state.map(|state| state.public.as_str()),
        "urgency": why.urgency().as_str(),
        "moved_at": why.moved_at.map(|at| at.0),
        "at": why.at.0,
        "headline": why.headline,
        "waits": waits(&why.waits),
        "limits": waits(&why.limits),
        "skipped_for": skipped_for.collect::<Vec<_>>(),
        "engines": engines(why.engines),
    })
}

pub(super) fn flow(why: &FlowExplanation, more: usize) -> Value {
    json!({
        "flow_id": why.flow.id.to_string(),
        "namespace": why.flow.namespace,
        "causes": why.causes.causes.iter().map(cause).collect::<Vec<_>>(),
        "causes_omitted": more,
        "wait_for_others": why.causes.dependent,
        "running": why.causes.running,
        "ended": why.causes.ended,
        "unread": why.unread,
    })
}

fn cause(cause: &Cause) -> Value {
    let (due_at, overdue_ms) = due(cause.first, cause.example.at);
    json!({
        "urgency": cause.urgency.as_str(),
        "reason": cause.reason.as_str(),
        "count": cause.count,
        "due_at": due_at,
        "overdue_ms": overdue_ms,
        "example": explanation(&cause.example),
    })
}

fn engines(engines: Engines) -> Value {
    match engines {
        Engines::Alive(alive) => json!({ "alive": alive }),
        Engines::GoneSince(at) => json!({ "alive": 0, "gone_since": at.0 }),
        Engines::Never => json!({ "alive": 0 }),
    }
}

fn wait(wait: &Wait, now: ServerTime) -> Value {
    let (unblocked_by, who) = kind(&wait.unblocked_by);
    let (due_at, overdue_ms) = due(wait.by, now);
    let limit = wait.limit.as_ref().map(|limit| {
        json!({
            "id": limit.id,
            "dimension": limit.dimension,
            "used": limit.used,
            "limit": limit.limit,
            "frees_at": limit.frees_at.map(|at| at.0),
        })
    });
    json!({
        "reason": wait.reason.as_str(),
        "on": wait.on,
        "now": wait.now,
        "unblocked_by": unblocked_by,
        "who": who,
        "due_at": due_at,
        "overdue_ms": overdue_ms,
        "limit": limit,
    })
}

/// When something is due, and for how long it has been.
fn due(by: DueBy, now: ServerTime) -> (Option<i64>, Option<i64>) {
    match by {
        DueBy::Time(at) => (Some(at.0), None),
        DueBy::Overdue(at) => (Some(at.0), Some(now.0.saturating_sub(at.0))),
        DueBy::Unknown => (None, None),
    }
}

fn kind(unblocked_by: &UnblockedBy) -> (&'static str, Value) {
    match unblocked_by {
        UnblockedBy::Worker(who) => ("worker", Value::from(who.as_str())),
        UnblockedBy::Signaller(who) => ("signaller", Value::from(who.as_str())),
        UnblockedBy::Scanner(scanner) => ("scanner", Value::from(scanner.as_str())),
        UnblockedBy::Upstream(id) => ("upstream", Value::from(id.to_string())),
        UnblockedBy::Submitter => ("submitter", Value::Null),
        UnblockedBy::Operator => ("operator", Value::Null),
        UnblockedBy::Nobody => ("nobody", Value::Null),
    }
}
