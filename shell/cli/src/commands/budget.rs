//! `selvedge budget`: create, show, reset and delete budgets.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use selvedge::client::BudgetSpec;
use selvedge_core::id::BudgetId;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Create a budget and print its id.
    Create(Create),
    /// Show limits and usage by dimension.
    Show(Target),
    /// Start a new period now: usage is zero again, and what waited for it starts.
    Reset(Change),
    /// Delete a budget: tasks that name it are no longer limited by it.
    Delete(Change),
}

/// The limits.
#[derive(Args)]
pub(crate) struct Create {
    /// Hard limit: no task starts while so much or more is used. Those that run go on, and what
    /// they use is counted.
    #[arg(long, value_name = "DIMENSION=LIMIT", value_parser = limit)]
    hard: Vec<(String, u64)>,
    /// Soft limit: a report that passes it is answered with a warning; tasks go on starting.
    #[arg(long, value_name = "DIMENSION=LIMIT", value_parser = limit)]
    soft: Vec<(String, u64)>,
    /// Length of a period, such as `1d`; usage is reset at its end. Without it, never.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    resets_every: Option<Duration>,
    /// What it is for, as a type and an id; only recorded.
    #[arg(long, value_name = "TYPE=ID")]
    scope: Option<String>,
}

/// The budget.
#[derive(Args)]
pub(crate) struct Target {
    /// The id of the budget.
    id: BudgetId,
}

/// The budget to change.
#[derive(Args)]
pub(crate) struct Change {
    /// The id of the budget.
    id: BudgetId,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Parses `tokens=1000`; a limit is at least 1.
fn limit(text: &str) -> Result<(String, u64), String> {
    let expected = || format!("`{text}` is not of the form DIMENSION=LIMIT, such as tokens=1000");
    let (dimension, limit) = text.split_once('=').ok_or_else(expected)?;
    match limit.replace('_', "").parse() {
        Ok(0) => Err("a limit of 0 means none; leave it out".to_owned()),
        Ok(limit) if !dimension.is_empty() => Ok((dimension.to_owned(), limit)),
        Ok(_) | Err(_) => Err(expected()),
    }
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    match options {
        Options::Create(create) => self::create(context, create).await,
        Options::Show(target) => show(context, target.id).await,
        Options::Reset(change) => reset(context, &change).await,
        Options::Delete(change) => delete(context, &change).await,
    }
}

async fn create(context: &Context, create: Create) -> Result<(), Failure> {
    if create.hard.is_empty() && create.soft.is_empty() {
        return Err(Failure::usage("a budget needs a limit")
            .hint("name one with --hard DIMENSION=LIMIT or --soft DIMENSION=LIMIT"));
    }
    let mut spec = BudgetSpec::new();
    for (dimension, limit) in create.hard {
        spec = spec.hard(dimension, limit);
    }
    for (dimension, limit) in create.soft {
        spec = spec.soft(dimension, limit);
    }
    if let Some(period) = create.resets_every {
        spec = spec.resets_every(period);
    }
    if let Some(scope) = &create.scope {
        let (kind, id) = scope.split_once('=').unwrap_or((scope, ""));
        spec = spec.scope(kind, id);
    }
    let id = context.client().await?.create_budget(spec).await?;
    Ok(context.output.message(&format!("budget {id}"), json!({ "budget_id": id.to_string() }))?)
}

async fn show(context: &Context, id: BudgetId) -> Result<(), Failure> {
    let client = context.reader().await?;
    let budget = client.budget(id).await?;
    let names: BTreeSet<&String> =
        budget.hard.keys().chain(budget.soft.keys()).chain(budget.used.keys()).collect();
    let counted = |used: i64| u64::try_from(used).unwrap_or(0);
    let is_exhausted = |name: &String| {
        let used = counted(budget.used.get(name).copied().unwrap_or(0));
        budget.hard.get(name).is_some_and(|hard| used >= *hard)
    };
    let rows = names.iter().filter(|name| !BOOKKEEPING.contains(&name.as_str())).map(|name| {
        vec![
            Value::from(name.as_str()),
            Value::from(budget.used.get(*name).copied().unwrap_or(0)),
            budget.soft.get(*name).map_or(Value::Null, |limit| Value::from(*limit)),
            budget.hard.get(*name).map_or(Value::Null, |limit| Value::from(*limit)),
            Value::from(is_exhausted(name)),
        ]
    });
    let columns = ["dimension", "used", "soft", "hard", "exhausted"];
    context.output.rows(&columns, rows.collect())?;
    let every = budget.resets_every.map(|period| humantime::format_duration(period).to_string());
    let next = budget.next_reset_at.map(|at| at.0);
    let sentence = match (&every, next) {
        (Some(every), Some(next)) => {
            super::output::with_times(&format!("resets every {every}, next at {next}"))
        }
        _ => "never resets by itself".to_owned(),
    };
    context.output.note(&sentence, json!({ "resets_every": every, "next_reset_at": next }));
    Ok(())
}

/// Fields of the usage record that are no dimension.
const BOOKKEEPING: [&str; 1] = ["breached_at"];

async fn reset(context: &Context, change: &Change) -> Result<(), Failure> {
    let client = context.client_unless(change.dry_run).await?;
    let id = change.id;
    client.budget(id).await?;
    if change.dry_run {
        return would(context, "reset", id);
    }
    client.reset_budget(id).await?;
    done(context, "reset", id)
}

async fn delete(context: &Context, change: &Change) -> Result<(), Failure> {
    let client = context.client_unless(change.dry_run).await?;
    let id = change.id;
    if change.dry_run {
        client.budget(id).await?;
        return would(context, "delete", id);
    }
    client.delete_budget(id).await?;
    done(context, "deleted", id)
}

fn would(context: &Context, verb: &str, id: BudgetId) -> Result<(), Failure> {
    let object = json!({ "would": verb, "budget_id": id.to_string() });
    Ok(context.output.message(&format!("would {verb} budget {id}"), object)?)
}

fn done(context: &Context, done: &str, id: BudgetId) -> Result<(), Failure> {
    let object = json!({ "done": done, "budget_id": id.to_string() });
    Ok(context.output.message(&format!("{done} budget {id}"), object)?)
}
