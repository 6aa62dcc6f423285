//! `selvedge why ID`: what an execution waits for, who acts next, and by when.

use clap::Args;
use selvedge_core::explain::{DueBy, UnblockedBy, Wait};
use selvedge_core::id::ExecutionId;
use selvedge_core::time::ServerTime;
use serde_json::{Value, json};

use super::context::Context;
use super::exec::execution_id;
use super::failure::Failure;
use super::output::{escape_control, with_times};

/// The execution.
#[derive(Args)]
pub(crate) struct Options {
    /// The execution: `{fp:N}:UUID`.
    #[arg(value_parser = execution_id)]
    id: ExecutionId,
}

pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let client = context.reader().await?;
    // The engines may run elsewhere; assume that they have the settings of this environment.
    context.execution(&client, &options.id).await?;
    let why = client.explain(&options.id, &context.settings.engine).await?;
    let now = client.store().server_time().await?;
    if context.output.json {
        let waits = |all: &[Wait]| all.iter().map(as_json).collect::<Vec<_>>();
        let object = json!({
            "execution_id": why.execution_id.to_string(),
            "headline": why.headline,
            "waits": waits(&why.waits),
            "limits": waits(&why.limits),
        });
        return Ok(context.output.message("", object)?);
    }
    let mut text = format!("{}: {}", why.execution_id, escape_control(&why.headline));
    for (title, all) in [("waits for", &why.waits), ("in any case", &why.limits)] {
        for wait in all {
            text.push_str(&format!(
                "\n  {title}: {} ({})",
                escape_control(&wait.on),
                escape_control(&unblocked_by(&wait.unblocked_by))
            ));
            match wait.by {
                DueBy::Time(at) => text.push_str(&format!(", {}", until(now, at))),
                DueBy::Overdue(at) => text.push_str(&format!(
                    ", overdue since {}: does an engine run? `selvedge serve` is one",
                    at.0
                )),
                DueBy::Unknown => {}
            }
        }
    }
    Ok(context.output.message(&with_times(&text), Value::Null)?)
}

fn unblocked_by(unblocked_by: &UnblockedBy) -> String {
    match unblocked_by {
        UnblockedBy::Worker(who) | UnblockedBy::Signaller(who) => who.clone(),
        UnblockedBy::Scanner(scanner) => format!("an engine's {scanner}"),
        UnblockedBy::Upstream(id) => format!("see `selvedge why '{id}'`"),
        UnblockedBy::Submitter => "whoever submits the flow, by submitting it again".to_owned(),
        UnblockedBy::Operator => "an operator".to_owned(),
        UnblockedBy::Nobody => "nothing repairs it automatically: run `selvedge fsck`".to_owned(),
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

fn as_json(wait: &Wait) -> Value {
    let (unblocked_by, who) = kind(&wait.unblocked_by);
    let (by, overdue) = match wait.by {
        DueBy::Time(at) => (Value::from(at.0), false),
        DueBy::Overdue(at) => (Value::from(at.0), true),
        DueBy::Unknown => (Value::Null, false),
    };
    json!({ "on": wait.on, "unblocked_by": unblocked_by, "who": who, "by_ms": by, "overdue": overdue })
}

/// A time of the server's clock, relative to now.
fn until(now: ServerTime, at: ServerTime) -> String {
    let ms = u64::try_from(at.0.saturating_sub(now.0)).unwrap_or_default();
    let rounded = std::time::Duration::from_millis(ms.div_ceil(100) * 100);
    format!("within {}", humantime::format_duration(rounded))
}
