//! `selvedge flow`: submit, show, list and cancel flows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use selvedge::client::{Client, ClientError, Flow, FlowOutcome, SubmittedFlow, TerminalOutcome};
use selvedge::flow_file::{self, Format};
use selvedge::inspect::{FlowGraph, Join, Node};
use selvedge_core::error::Code;
use selvedge_core::id::FlowId;
use serde_json::{Value, json};

use super::context::Context;
use super::exec_show::data;
use super::failure::{Exit, Failure};
use super::output::escape_control;
use super::{file, flow_list, tree};

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Submit a flow from a TOML or JSON file; `--help` describes its fields.
    #[command(after_long_help = flow_file::REFERENCE)]
    Submit(Submit),
    /// Show a flow as a tree of its tasks.
    Show(Show),
    /// List the flows that have not ended, or with --ended those that have, as they are now; of
    /// flows beyond 1,000 tasks the counts are those of the engine's last scan cycle.
    List(flow_list::Options),
    /// Cancel a flow and all its tasks.
    Cancel(Cancel),
    /// Replay the tasks that failed or timed out, and those that were skipped because of them.
    Replay(Replay),
}

/// The file, and whether to wait.
#[derive(Args)]
pub(crate) struct Submit {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// Wait until the flow has ended; exit code 1 if a task failed or expired.
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait, such as `90s` or `2h`.
    #[arg(long, requires = "wait", value_parser = some_time)]
    timeout: Option<Duration>,
    /// Check the file, and submit nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The flow, and how to draw it.
#[derive(Args)]
pub(crate) struct Show {
    /// The flow.
    id: FlowId,
    /// Redraw it on every change until it has ended.
    #[arg(long, conflicts_with = "mermaid")]
    watch: bool,
    /// Print a Mermaid diagram.
    #[arg(long, conflicts_with = "json")]
    mermaid: bool,
    /// Maximum number of tasks to show.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// The flow to cancel, and the reason.
#[derive(Args)]
pub(crate) struct Cancel {
    /// The flow.
    id: FlowId,
    /// The reason, stored with the flow.
    #[arg(long, default_value = "cancelled by an operator")]
    reason: String,
    /// Print what would be cancelled, and cancel nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The flow to go on with.
#[derive(Args)]
pub(crate) struct Replay {
    /// The flow.
    id: FlowId,
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    match options {
        Options::Submit(submit) => self::submit(context, &submit).await,
        Options::Show(show) => self::show(context, &show).await,
        Options::List(list) => flow_list::run(context, list).await,
        Options::Cancel(cancel) => self::cancel(context, &cancel).await,
        Options::Replay(replay) => self::replay(context, &replay).await,
    }
}

async fn replay(context: &Context, replay: &Replay) -> Result<(), Failure> {
    let client = context.client().await?;
    client.flow(replay.id).await?;
    let replayed = client.replay_flow(replay.id).await?;
    if replayed.is_empty() {
        let what = format!("no task of flow {} failed or timed out: nothing to replay", replay.id);
        return Err(Failure::new(Exit::Refused, what));
    }
    for id in replayed {
        let object = json!({ "execution_id": id.to_string(), "done": "replayed" });
        context.output.message(&format!("replayed {id}"), object)?;
    }
    Ok(())
}

async fn submit(context: &Context, submit: &Submit) -> Result<(), Failure> {
    let flow = read(&submit.file)?;
    if submit.dry_run {
        let names: Vec<&str> = flow.names().collect();
        let listed: Vec<String> = names.iter().map(|name| escape_control(name)).collect();
        let sentence = format!("a flow of {}: {}", tasks_of(names.len()), listed.join(", "));
        return Ok(context.output.message(&sentence, json!({ "tasks": names }))?);
    }
    let client = context.client().await?;
    let submitted = client.submit(flow).await?;
    let tasks: serde_json::Map<String, Value> = submitted
        .executions
        .iter()
        .map(|(name, id)| (name.clone(), Value::from(id.to_string())))
        .collect();
    let before = if submitted.before { " was submitted before; nothing was changed" } else { "" };
    let sentence = format!("flow {} with {}{before}", submitted.id, tasks_of(tasks.len()));
    let object = json!({
        "flow_id": submitted.id.to_string(),
        "submitted_before": submitted.before,
        "tasks": tasks,
    });
    context.output.message(&sentence, object)?;
    if submit.wait {
        wait(context, &client, &submitted, submit.timeout).await?;
    }
    Ok(())
}

/// Parses a duration above zero.
fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("it is zero; leave it out to wait for ever".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

fn tasks_of(count: usize) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") }
}

async fn wait(
    context: &Context,
    client: &Client,
    submitted: &SubmittedFlow,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    let id = submitted.id;
    let ended = match timeout {
        Some(limit) => client.wait_flow_within(id, limit).await,
        None => client.wait_flow(id).await,
    };
    let ended = ended.map_err(|error| {
        let timed_out = matches!(error, ClientError::TimedOut(_));
        let failure = Failure::from(error);
        if timed_out {
            failure.hint(format!("the flow goes on; `selvedge flow show {id}` shows how far it is"))
        } else {
            failure
        }
    })?;
    let outcomes: serde_json::Map<String, Value> = ended
        .tasks
        .iter()
        .map(|(id, outcome)| (id.to_string(), Value::from(outcome.as_str())))
        .collect();
    let graph = client.flow_graph(id, 1_000).await?;
    let results = results(client, submitted, &ended).await?;
    let mut text = tree::tree(&graph);
    for (name, result) in &results {
        let shown = data(result, false);
        let shown = escape_control(shown.as_str().unwrap_or_default());
        text.push_str(&format!("\n  {}: {shown}", escape_control(name)));
    }
    let left_out = ended.tasks.len().saturating_sub(RESULTS_MAX);
    if left_out > 0 {
        text.push_str(&format!("\n  the results of {left_out} more tasks: `selvedge exec show`"));
    }
    let results: serde_json::Map<String, Value> =
        results.into_iter().map(|(name, result)| (name.to_owned(), data(&result, true))).collect();
    let object = json!({
        "flow_id": id.to_string(),
        "outcomes": outcomes,
        "results": results,
        "results_left_out": left_out,
    });
    context.output.message(&text, object)?;
    if ended.is_success() {
        return Ok(());
    }
    Err(Failure::new(Exit::Error, format!("flow {id} ended with failed or expired tasks")))
}

/// The results of the first tasks that have one, by task name.
async fn results<'a>(
    client: &Client,
    submitted: &'a SubmittedFlow,
    ended: &FlowOutcome,
) -> Result<Vec<(&'a str, Vec<u8>)>, Failure> {
    let mut results = Vec::new();
    for (name, id) in submitted.executions.iter().take(RESULTS_MAX) {
        if ended.tasks.get(id) == Some(&TerminalOutcome::Success)
            && let Some(result) = client.result(id).await?
        {
            results.push((name.as_str(), result));
        }
    }
    Ok(results)
}

fn read(path: &Path) -> Result<Flow, Failure> {
    let text = file::read_text(path, flow_file::FILE_BYTES_MAX)?;
    flow_file::parse(&text, Format::of(path, &text)).map_err(|error| file::wrong(path, &error))
}

async fn show(context: &Context, show: &Show) -> Result<(), Failure> {
    let client = context.reader().await?;
    context.check_flow(&client, show.id).await?;
    let mut drawn = String::new();
    loop {
        let graph = client.flow_graph(show.id, show.limit).await?;
        if show.mermaid {
            return Ok(context.output.message(&tree::mermaid(&graph), Value::Null)?);
        }
        let drawing = tree::tree(&graph);
        if drawing != drawn {
            if show.watch && !context.output.json {
                // Clears the terminal; anstream leaves it out where there is none.
                anstream::print!("\x1b[2J\x1b[H");
            }
            context.output.message(&drawing, as_json(&graph))?;
            drawn = drawing;
        }
        if !show.watch || has_ended(&client, &graph).await? {
            return Ok(());
        }
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// Whether nothing will change any more. When not all tasks are drawn, the store is asked.
async fn has_ended(client: &Client, graph: &FlowGraph) -> Result<bool, Failure> {
    let drawn = graph.nodes.values().all(Node::has_ended);
    if !drawn || !graph.is_truncated {
        return Ok(drawn);
    }
    match client.wait_flow_within(graph.flow.id, READ_EVERY).await {
        Ok(_) => Ok(true),
        Err(ClientError::TimedOut(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// How many upstreams must succeed; `null` without any.
fn join(node: &Node) -> Value {
    let of = (node.upstreams.len() as u64).saturating_add(node.upstreams_omitted);
    match node.join {
        _ if of == 0 => Value::Null,
        Join::All => json!({ "kind": "all", "needed": of, "of": of }),
        Join::Any => json!({ "kind": "any", "needed": 1, "of": of }),
        Join::Quorum(k) => json!({ "kind": "quorum", "needed": k, "of": of }),
        _ => json!({ "kind": "unknown", "needed": Value::Null, "of": of }),
    }
}

fn as_json(graph: &FlowGraph) -> Value {
    let tasks: Vec<Value> = graph
        .nodes
        .iter()
        .map(|(id, node)| {
            let upstreams: Vec<String> = node.upstreams.iter().map(ToString::to_string).collect();
            json!({
                "execution_id": id.to_string(),
                "name": node.name,
                "kind": node.kind,
                "state": node.state,
                "lane": node.lane,
                "join": join(node),
                "created_at": node.times[0].map(|at| at.0),
                "started_at": node.times[1].map(|at| at.0),
                "completed_at": node.times[2].map(|at| at.0),
                "tags": node.tags,
                "after": upstreams,
                "upstreams_omitted": node.upstreams_omitted,
            })
        })
        .collect();
    json!({
        "flow_id": graph.flow.id.to_string(),
        "namespace": graph.flow.namespace,
        "kind": graph.flow.kind,
        "state": graph.state(),
        "created_at": graph.flow.created_at.map(|at| at.0),
        "tags": graph.flow.tags,
        "is_truncated": graph.is_truncated,
        "omitted": graph.omitted(),
        "tasks": tasks,
    })
}

async fn cancel(context: &Context, cancel: &Cancel) -> Result<(), Failure> {
    let client = context.client_unless(cancel.dry_run).await?;
    let id = cancel.id;
    context.check_flow(&client, id).await?;
    if cancel.dry_run {
        let graph = client.flow_graph(id, 10_000).await?;
        if graph.flow.state != "open" {
            let sentence = format!("would not cancel flow {id}: it is {}", graph.flow.state);
            return Err(Failure::new(Exit::Refused, sentence));
        }
        let open = graph.nodes.values().filter(|node| !node.has_ended());
        let (open, of) = (open.count(), graph.flow.node_count);
        let (omitted, so_far) = (graph.omitted(), graph.nodes.len());
        let first = if omitted > 0 { format!(" (of the first {so_far})") } else { String::new() };
        let sentence = format!("would cancel {open}{first} of {of} tasks of flow {id}");
        let object = json!({
            "would": "cancel",
            "flow_id": id.to_string(),
            "open": open,
            "of": of,
            "omitted": omitted,
        });
        return Ok(context.output.message(&sentence, object)?);
    }
    let done = match client.cancel_flow(id, &cancel.reason).await {
        Err(ClientError::Refused(refusal)) if refusal.code == Code::FlowAlreadyTerminal => {
            let sentence = format!("flow {id} is {}: nothing to do", client.flow(id).await?.state);
            return Err(Failure::new(Exit::Refused, sentence));
        }
        done => done?,
    };
    let sentence = format!(
        "cancelled flow {id}: {} tasks cancelled, {} had ended, {} are left to the engine",
        done.cancelled, done.ended_before, done.left_to_engine
    );
    let object = json!({
        "flow_id": id.to_string(),
        "cancelled": done.cancelled,
        "ended_before": done.ended_before,
        "left_to_engine": done.left_to_engine,
    });
    Ok(context.output.message(&sentence, object)?)
}

/// Most tasks whose results are shown after a wait.
const RESULTS_MAX: usize = 100;
/// How long to wait for the end of a flow that is only drawn in part.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How often a watched flow is read.
const WATCH_PAUSE: Duration = Duration::from_millis(500);
