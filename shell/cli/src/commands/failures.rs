//! `selvedge failures`: failed executions, grouped by reason.

use clap::Args;
use selvedge::inspect::FailureGroup;
use serde_json::{Value, json};

use super::context::Context;
use super::exec_list::time;
use super::failure::Failure;
use super::where_options::Where;

/// What to group.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    of: Where,
    /// Most groups to show.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let filter = options.of.filter(context)?;
    let client = context.reader().await?;
    let failures = client.failures(&filter).await?;
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let columns =
        ["count", "state", "category", "reason", "kinds", "newest", "newest at", "oldest at"];
    let row = |group: &FailureGroup| {
        vec![
            Value::from(group.count),
            Value::from(group.state.as_str()),
            Value::from(group.category.clone()),
            Value::from(group.reason.clone()),
            Value::from(group.kinds.clone()),
            Value::from(group.newest.to_string()),
            time(group.newest_at),
            time(group.oldest_at),
        ]
    };
    let shown = failures.groups.iter().take(limit);
    context.output.rows(&columns, shown.map(row).collect())?;
    let hidden = failures.groups.len().saturating_sub(limit);
    if hidden > 0 {
        let sentence = format!("{hidden} more groups; raise --limit to see them");
        context.output.note(&sentence, json!({ "groups_not_shown": hidden }));
    }
    if failures.is_sample {
        let (examined, entries) = (failures.examined, failures.entries);
        let sentence =
            format!("a sample: the newest {examined} of {entries} ended executions were looked at");
        let object = json!({ "is_sample": true, "examined": examined, "entries": entries });
        context.output.note(&sentence, object);
    }
    Ok(())
}
