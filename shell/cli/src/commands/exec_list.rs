//! `selvedge exec list`: executions by a filter, page by page.

use clap::Args;
use selvedge::inspect::{ExecutionCount, FoundExecution, InvalidCursor, ListCursor};
use selvedge_core::time::ServerTime;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::where_options::Where;

/// What to list.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    of: Where,
    /// Most executions to list.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Go on where a list ended: the cursor that it printed.
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    from: Option<ListCursor>,
    /// Print only how many there are. Of more than can be looked at this is an estimate.
    #[arg(long, conflicts_with_all = ["from", "limit"])]
    count: bool,
}

/// Parses a cursor.
pub(crate) fn cursor(text: &str) -> Result<ListCursor, InvalidCursor> {
    text.parse()
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    let filter = options.of.filter(context)?;
    let client = context.reader().await?;
    if options.count {
        return count(context, client.count_executions(&filter).await?);
    }
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let page = client.find_executions(&filter, options.from, limit).await?;
    rows(context, &page.executions)?;
    let Some(next) = page.next else { return Ok(()) };
    let (shown, examined) = (page.executions.len(), page.examined);
    let why = match page.is_cut {
        true => format!("{shown} of the {examined} looked at; a page reads no more"),
        false => "there are more".to_owned(),
    };
    let sentence = format!("{why}; go on with --from '{next}'");
    let object = json!({
        "next": next.to_string(), "is_cut": page.is_cut, "examined": examined, "shown": shown,
    });
    context.output.note(&sentence, object);
    Ok(())
}

/// Prints executions as rows.
pub(crate) fn rows(context: &Context, executions: &[FoundExecution]) -> Result<(), Failure> {
    let columns =
        ["execution", "namespace", "lane", "kind", "state", "attempts", "moved at", "reason"];
    let row = |one: &FoundExecution| {
        vec![
            Value::from(one.id.to_string()),
            Value::from(one.namespace.clone()),
            Value::from(one.lane.clone()),
            Value::from(one.kind.clone()),
            one.state.map_or(Value::Null, |state| Value::from(state.as_str())),
            Value::from(one.attempts),
            time(one.moved_at),
            Value::from(one.reason.clone()),
        ]
    };
    Ok(context.output.rows(&columns, executions.iter().map(row).collect())?)
}

/// A time for output.
pub(crate) fn time(at: Option<ServerTime>) -> Value {
    at.map_or(Value::Null, |at| Value::from(at.0))
}

fn count(context: &Context, count: ExecutionCount) -> Result<(), Failure> {
    let ExecutionCount { entries, examined, matching, is_exact, .. } = count;
    let sentence = match is_exact {
        true => matching.to_string(),
        false => format!(
            "about {}: {matching} of {examined} looked at, of {entries} entries",
            count.estimate()
        ),
    };
    let object = json!({
        "count": count.estimate(), "is_exact": is_exact, "matching": matching,
        "examined": examined, "entries": entries,
    });
    Ok(context.output.message(&sentence, object)?)
}
