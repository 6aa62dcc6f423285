//! `selvedge flow list`: flows by a filter, page by page.

use clap::Args;
use selvedge::inspect::{FlowFilter, FlowListCursor, FoundFlow, InvalidCursor};
use serde_json::{Value, json};

use super::context::Context;
use super::exec_list::time;
use super::failure::Failure;

/// Which flows, and how many.
#[derive(Args)]
pub(crate) struct Options {
    /// Most flows to list, up to 1000; a page may hold some more.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// List the flows that have ended, those that ended last first.
    #[arg(long)]
    ended: bool,
    /// Only flows in this state: open, blocked, running, completed, failed or cancelled.
    #[arg(long)]
    state: Vec<String>,
    /// Only flows of this kind.
    #[arg(long)]
    kind: Vec<String>,
    /// Only flows with this tag.
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
    tag: Vec<(String, String)>,
    /// Go on where a list ended: the cursor that it printed.
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    from: Option<FlowListCursor>,
}

fn cursor(text: &str) -> Result<FlowListCursor, InvalidCursor> {
    text.parse()
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    let mut filter = FlowFilter::default();
    filter.ended = options.ended;
    filter.namespace = (!context.all_namespaces).then(|| context.namespace.clone());
    (filter.states, filter.kinds, filter.tags) = (options.state, options.kind, options.tag);
    let client = context.reader().await?;
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let page = client.find_flows(&filter, options.from, limit).await?;
    let columns = [
        "flow",
        "namespace",
        "kind",
        "state",
        "tasks",
        "completed",
        "failed",
        "created at",
        "ended at",
    ];
    let columns = if filter.ended { &columns[..] } else { &columns[..8] };
    context.output.rows(columns, page.flows.iter().map(row).collect())?;
    let summarised = page.flows.iter().filter(|one| !one.progress.is_counted).count();
    if summarised > 0 {
        let sentence = format!("{summarised} as of the engine's last scan cycle: they are large");
        context.output.note(&sentence, json!({ "summarised": summarised }));
    }
    if page.of_others > 0 {
        let of_others = page.of_others;
        let sentence =
            format!("{of_others} of other namespaces; --all-namespaces lists them as well");
        context.output.note(&sentence, json!({ "of_other_namespaces": of_others }));
    }
    // What is behind the cursor may hold no flow that matches.
    if let Some(next) = page.next
        && (page.is_cut
            || !client.find_flows(&filter, Some(next.clone()), 1).await?.flows.is_empty())
    {
        let why = match page.is_cut {
            true => format!("a page reads no more than the {} flows looked at", page.examined),
            false => "there are more".to_owned(),
        };
        let sentence = format!("{why}; go on with --from '{next}'");
        let object =
            json!({ "is_truncated": true, "is_cut": page.is_cut, "next": next.to_string() });
        context.output.note(&sentence, object);
    }
    Ok(())
}

fn row(one: &FoundFlow) -> Vec<Value> {
    let (flow, progress) = (&one.flow, &one.progress);
    let count = |count: Option<u64>| count.map_or(Value::Null, Value::from);
    vec![
        Value::from(flow.id.to_string()),
        Value::from(flow.namespace.clone()),
        Value::from(flow.kind.clone()),
        Value::from(progress.state.clone()),
        Value::from(flow.node_count),
        count(progress.completed),
        count(progress.failed),
        time(flow.created_at),
        time(one.ended_at),
    ]
}
