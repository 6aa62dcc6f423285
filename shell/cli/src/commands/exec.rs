//! `selvedge exec`: list executions, show and signal one; cancel, replay and purge one or many.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use selvedge::client::{Client, ClientError, Execution, PAYLOAD_BYTES_MAX, Signal, SignalTicket};
use selvedge::inspect::{BulkAction, BulkStep};
use selvedge_core::call::signal::SignalEffect;
use selvedge_core::id::{ExecutionId, FlowId, InvalidId};
use selvedge_core::state::TerminalOutcome;
use serde_json::json;

use super::context::Context;
use super::exec_many::{self, Many};
use super::failure::{Exit, Failure};
use super::{exec_list, exec_show};

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// List executions by a filter: ended ones newest first. Work moves along the order of the
    /// list, so that what changes its state meanwhile may be listed twice.
    List(exec_list::Options),
    /// Show its state, payload, result, attempts, limits, stream output (frames) and tags.
    Show(Target),
    /// Cancel it, or all that --where finds, unless it has ended.
    Cancel(Cancel),
    /// Run an ended execution, or all that --where finds, again with the same payload.
    Replay(Replay),
    /// Delete an ended execution, or all that --where finds, with all records; its retention does
    /// not matter.
    Purge(Purge),
    /// Deliver a signal to a suspended execution.
    Signal(Send),
}

/// Parses the id of an execution; for the id of a flow the error says where to find its executions.
pub(crate) fn execution_id(text: &str) -> Result<ExecutionId, String> {
    text.parse().map_err(|error: InvalidId| match text.parse::<FlowId>() {
        Ok(_) => format!("{error}; `selvedge flow show` lists the executions of a flow"),
        Err(_) => error.to_string(),
    })
}

/// The execution to show.
#[derive(Args)]
pub(crate) struct Target {
    /// The execution: `{fp:N}:UUID`; N is its partition.
    #[arg(value_parser = execution_id)]
    id: ExecutionId,
}

/// The execution to change.
#[derive(Args)]
pub(crate) struct Change {
    /// The execution: `{fp:N}:UUID`; N is its partition.
    #[arg(value_parser = execution_id)]
    id: ExecutionId,
    /// Simulate it on a copy of its records in memory and print the outcome; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The execution to change, or those that a filter finds.
#[derive(Args)]
pub(crate) struct OneOrMany {
    /// The execution: `{fp:N}:UUID`.
    #[arg(value_parser = execution_id, required_unless_present = "conditions")]
    #[arg(conflicts_with = "conditions")]
    id: Option<ExecutionId>,
    #[command(flatten)]
    many: Many,
    /// Change nothing. For one execution: run the same functions on an in-memory copy, and print
    /// the outcome. With --where: print how many there are, and some of them.
    #[arg(long)]
    dry_run: bool,
}

/// The execution to purge.
#[derive(Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    which: OneOrMany,
}

/// The execution to replay, and whether what it needs is replayed too.
#[derive(Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    which: OneOrMany,
    /// First replay the upstreams that did not succeed, and theirs.
    #[arg(long, conflicts_with_all = ["dry_run", "conditions"])]
    with_upstreams: bool,
}

/// The execution to cancel, and the reason.
#[derive(Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: OneOrMany,
    /// The reason, stored with the execution.
    #[arg(long, default_value = "cancelled by an operator")]
    reason: String,
}

/// The signal to deliver.
#[derive(Args)]
pub(crate) struct Send {
    #[command(flatten)]
    change: Change,
    /// Name of the signal.
    name: String,
    /// Payload of the signal.
    #[arg(long, conflicts_with = "payload_file")]
    payload: Option<String>,
    /// File with the payload; `-` reads standard input.
    #[arg(long)]
    payload_file: Option<PathBuf>,
    /// Ticket of the waitpoint, as `Context::suspend` returned it: `EXECUTION/WAITPOINT/TOKEN`.
    /// Without it the token is read from the store.
    #[arg(long, env = "SELVEDGE_SIGNAL_TICKET", hide_env_values = true)]
    ticket: Option<String>,
    /// Idempotency key: a second signal with the same key has no effect.
    #[arg(long)]
    idempotency_key: Option<String>,
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    match options {
        Options::List(list) => exec_list::run(context, list).await,
        Options::Show(target) => {
            let client = context.reader().await?;
            exec_show::run(context, &client, &target.id).await
        }
        Options::Cancel(Cancel { which, reason }) => match which.id {
            Some(id) => cancel(context, &id, &reason, which.dry_run).await,
            None => {
                let action = BulkAction::Cancel(reason);
                exec_many::run(context, which.many, action, which.dry_run).await
            }
        },
        Options::Replay(Replay { which, with_upstreams }) => match which.id {
            Some(id) => replay(context, &id, which.dry_run, with_upstreams).await,
            None => exec_many::run(context, which.many, BulkAction::Replay, which.dry_run).await,
        },
        Options::Purge(Purge { which }) => match which.id {
            Some(id) => purge(context, &id, which.dry_run).await,
            None => exec_many::run(context, which.many, BulkAction::Purge, which.dry_run).await,
        },
        Options::Signal(send) => {
            let client = context.client_unless(send.change.dry_run).await?;
            signal(context, &client, send).await
        }
    }
}

async fn cancel(
    context: &Context,
    id: &ExecutionId,
    reason: &str,
    dry_run: bool,
) -> Result<(), Failure> {
    let client = context.client_unless(dry_run).await?;
    let execution = context.execution(&client, id).await?;
    if execution.outcome == Some(TerminalOutcome::Cancelled) {
        let what = format!("{id} was cancelled before: nothing to do");
        return Err(Failure::new(Exit::Refused, what));
    }
    if dry_run {
        let tried = client.dry_run(id).await?.cancel(id, reason).await;
        return would(context, "cancel", &execution, tried);
    }
    client.cancel(id, reason).await?;
    done(context, "cancelled", id)
}

async fn replay(
    context: &Context,
    id: &ExecutionId,
    dry_run: bool,
    with_upstreams: bool,
) -> Result<(), Failure> {
    let client = context.client_unless(dry_run).await?;
    let execution = context.execution(&client, id).await?;
    if with_upstreams {
        for replayed in client.replay_with_upstreams(id).await? {
            done(context, "replayed", &replayed)?;
        }
        return Ok(());
    }
    if dry_run {
        let tried = client.dry_run(id).await?.replay(id).await;
        return would(context, "replay", &execution, tried);
    }
    client.replay(id).await.map_err(|error| replay_failure(id, error))?;
    done(context, "replayed", id)
}

async fn purge(context: &Context, id: &ExecutionId, dry_run: bool) -> Result<(), Failure> {
    let client = context.client_unless(dry_run).await?;
    let execution = context.execution(&client, id).await?;
    let state = state_of(&execution);
    let refused = |reason: &str| {
        Failure::new(Exit::Refused, format!("{id}, which is {state}, cannot be purged: {reason}"))
    };
    let lane = execution.lane.as_ref().ok_or_else(|| refused("its record names no lane"))?;
    if execution.outcome.is_none() {
        return Err(refused("it has not ended"));
    }
    if dry_run {
        return would(context, "purge", &execution, Ok(()));
    }
    match client.purge(id, lane).await {
        BulkStep::Done => done(context, "purged", id),
        BulkStep::Refused(reason) => Err(refused(&reason)),
        BulkStep::Failed(error) => Err(Failure::new(Exit::Error, error)),
    }
}

/// Names the way out if what it needs can be replayed with it.
fn replay_failure(id: &ExecutionId, error: ClientError) -> Failure {
    let helps = matches!(&error, ClientError::NeedsUpstreams { needs, .. }
        if needs.iter().all(|need| !need.outcome.is_empty()));
    let failure = Failure::from(error);
    if !helps {
        return failure;
    }
    failure.hint(format!("`selvedge exec replay '{id}' --with-upstreams` replays them first"))
}

async fn signal(context: &Context, client: &Client, send: Send) -> Result<(), Failure> {
    let id = &send.change.id;
    match context.execution(client, id).await {
        // A signal says itself that there is no such execution.
        Err(failure) if failure.exit != Exit::NotFound => return Err(failure),
        Ok(_) | Err(_) => {}
    }
    let ticket = match &send.ticket {
        Some(text) => {
            let ticket = text.parse::<SignalTicket>().map_err(Failure::usage)?;
            if ticket.execution_id != *id {
                let holder = &ticket.execution_id;
                return Err(Failure::usage(format!("the ticket is for {holder}, not for {id}")));
            }
            ticket
        }
        None => client.ticket(id).await?.ok_or_else(|| {
            Failure::new(Exit::Refused, format!("{id} is not suspended: it waits for no signal"))
                .hint(format!("`selvedge why '{id}'` tells what it waits for"))
        })?,
    };
    let payload = payload(&send)?;
    let name = &send.name;
    let mut signal = Signal::new(name).payload(payload).source("operator", "selvedge");
    if let Some(key) = &send.idempotency_key {
        signal = signal.idempotency_key(key);
    }
    let effect = match send.change.dry_run {
        false => client.signal(&ticket, signal).await?,
        true => {
            let stage = client.dry_run_signal(&ticket, &signal).await?;
            stage.signal(&ticket, signal).await.map_err(|error| would_not("signal", id, error))?
        }
    };
    let Some(does) = does(effect) else {
        let sentence = format!("nothing waited for it: {id} waits for no signal {name} now");
        return Err(Failure::new(Exit::Refused, sentence)
            .hint(format!("`selvedge why '{id}'` tells what it waits for")));
    };
    let effect = effect.map_or_else(|| "duplicate".to_owned(), |effect| effect.to_string());
    if send.change.dry_run {
        let object = json!({
            "would": "signal", "execution_id": id.to_string(), "signal": name, "effect": effect,
        });
        return Ok(context
            .output
            .message(&format!("would signal {name} to {id}: {does}"), object)?);
    }
    let object = json!({ "execution_id": id.to_string(), "signal": name, "effect": effect });
    Ok(context.output.message(&format!("signal {name} to {id}: {does}"), object)?)
}

/// What the signal did, for people; `None` when nothing waited for it.
fn does(effect: Option<SignalEffect>) -> Option<&'static str> {
    match effect {
        None => Some("duplicate, recorded before"),
        Some(SignalEffect::ResumeConditionSatisfied) => Some("resumed"),
        Some(SignalEffect::AppendedToWaitpoint) => Some("recorded, more signals are needed"),
        Some(SignalEffect::AppendedToWaitpointDuplicate) => {
            Some("duplicate, more signals are needed")
        }
        Some(SignalEffect::BufferedForPendingWaitpoint) => {
            Some("buffered until the suspension begins")
        }
        Some(_) => None,
    }
}

fn payload(send: &Send) -> Result<Vec<u8>, Failure> {
    let Some(path) = &send.payload_file else {
        return Ok(send.payload.clone().unwrap_or_default().into_bytes());
    };
    super::file::read(path, PAYLOAD_BYTES_MAX)
}

fn would_not(verb: &str, id: &ExecutionId, error: ClientError) -> Failure {
    Failure::from(error).because(format_args!("would not {verb} {id}"))
}

/// Prints what would be done, or why it would be refused.
fn would(
    context: &Context,
    verb: &str,
    execution: &Execution,
    tried: Result<(), ClientError>,
) -> Result<(), Failure> {
    let (id, state) = (&execution.id, state_of(execution));
    tried.map_err(|error| would_not(verb, id, error))?;
    let object = json!({ "would": verb, "execution_id": id.to_string(), "state": state });
    Ok(context.output.message(&format!("would {verb} {id}, which is {state}"), object)?)
}

/// Its public state; `unknown` and what the record holds, if this version does not know it.
pub(super) fn state_of(execution: &Execution) -> String {
    let unknown = || {
        let stored = execution.record.get("public_state").map_or("", String::as_str);
        format!("unknown: `{}`", super::output::escape_control(stored))
    };
    execution.state.map_or_else(unknown, |state| state.to_string())
}

fn done(context: &Context, done: &str, id: &ExecutionId) -> Result<(), Failure> {
    let object = json!({ "done": done, "execution_id": id.to_string() });
    Ok(context.output.message(&format!("{done} {id}"), object)?)
}
