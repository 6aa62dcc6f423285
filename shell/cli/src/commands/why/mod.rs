//! `selvedge why`: what an execution, a flow or a whole namespace waits for, who acts next, and by
//! when.

mod as_json;
mod as_text;

use std::time::Duration;

use clap::{ArgGroup, Args};
use selvedge::inspect::Scope;
use selvedge_core::id::{ExecutionId, FlowId, InvalidId};
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;

/// What to explain.
#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).args(["of", "all"]))]
pub(crate) struct Options {
    /// The execution, `{fp:N}:UUID`, or the flow, a UUID.
    #[arg(value_name = "EXECUTION|FLOW", value_parser = target)]
    of: Option<Target>,
    /// Explain everything in the namespace that has not moved for a while, worst first.
    #[arg(long)]
    all: bool,
    /// With --all: what has not moved for so long.
    #[arg(long, value_name = "DURATION", default_value = "1m", requires = "all",
        value_parser = humantime::parse_duration)]
    older_than: Duration,
    /// Maximum number of executions to show, or of reasons for a flow.
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

#[derive(Clone)]
enum Target {
    Execution(ExecutionId),
    Flow(FlowId),
}

/// Parses the id of an execution or of a flow.
fn target(text: &str) -> Result<Target, String> {
    let flow = || text.parse().map(Target::Flow).ok();
    text.parse()
        .map(Target::Execution)
        .or_else(|error: InvalidId| flow().ok_or_else(|| format!("{error}, and not one of a flow")))
}

pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match &options.of {
        Some(Target::Execution(id)) => execution(context, id).await,
        Some(Target::Flow(id)) => flow(context, *id, options).await,
        None => all(context, options).await,
    }
}

async fn execution(context: &Context, id: &ExecutionId) -> Result<(), Failure> {
    let client = context.reader().await?;
    // The engines may run elsewhere; assume that they have the settings of this environment.
    let why = client.explain(id, &context.settings.engine).await?;
    context.check_namespace("execution", id, &why.namespace)?;
    if context.output.json {
        return Ok(context.output.message("", as_json::explanation(&why))?);
    }
    let lines = [as_text::explanation(&why, ""), as_text::foot(why.at, why.engines)];
    Ok(context.output.message(&lines.concat(), Value::Null)?)
}

async fn flow(context: &Context, id: FlowId, options: &Options) -> Result<(), Failure> {
    let client = context.reader().await?;
    context.check_flow(&client, id).await?;
    let mut why = client.explain_flow(id, &context.settings.engine).await?;
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let more = why.causes.causes.len().saturating_sub(limit);
    why.causes.causes.truncate(limit);
    if context.output.json {
        return Ok(context.output.message("", as_json::flow(&why, more))?);
    }
    let mut text = as_text::flow(&why);
    if more > 0 {
        text.push_str(&format!("\n  … and {more} more reasons; raise --limit to see them"));
    }
    if why.unread > 0 {
        text.push_str(&format!("\n  {} tasks were not looked at: the flow is large", why.unread));
    }
    Ok(context.output.message(&text, Value::Null)?)
}

async fn all(context: &Context, options: &Options) -> Result<(), Failure> {
    let client = context.reader().await?;
    let scope = Scope {
        older_than: options.older_than,
        all_namespaces: context.all_namespaces,
        limit: usize::try_from(options.limit).unwrap_or(usize::MAX),
    };
    let stalled = client.stalled(scope, &context.settings.engine).await?;
    for why in &stalled.explanations {
        let urgency = format!("{}: ", as_text::urgency(why.urgency()));
        let text = as_text::explanation(why, &urgency);
        context.output.message(&text, as_json::explanation(why))?;
    }
    let age = humantime::format_duration(options.older_than);
    match stalled.explanations.last() {
        Some(last) if !context.output.json => {
            context
                .output
                .message(as_text::foot(last.at, last.engines).trim_start(), Value::Null)?;
        }
        Some(_) => {}
        None => {
            let sentence = format!("everything has moved within the last {age}");
            context.output.note(&sentence, json!({ "stalled": 0 }));
        }
    }
    if stalled.more > 0 {
        let more = stalled.more;
        let sentence = format!("{more} more have not moved for {age}; raise --limit to see them");
        context.output.note(&sentence, json!({ "more": more }));
    }
    if stalled.unread > 0 {
        let unread = stalled.unread;
        let sentence = format!("{unread} more have not been looked at: there are too many");
        context.output.note(&sentence, json!({ "unread": unread }));
    }
    Ok(())
}
