//! `selvedge quota`: create, show, reset and delete quotas.

use std::time::Duration;

use clap::{Args, Subcommand};
use selvedge::client::QuotaSpec;
use selvedge_core::id::QuotaPolicyId;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Create a quota and print its id.
    Create(Create),
    /// Show its limits and how many run.
    Show(Target),
    /// Clear its rate window: as many may start as in a new one.
    Reset(Change),
    /// Delete a quota: tasks that name it are no longer limited by it.
    Delete(Change),
}

/// The limits.
#[derive(Args)]
pub(crate) struct Create {
    /// Maximum number of starts within a window.
    #[arg(long, requires = "window", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Length of the window in whole seconds, such as `60s`.
    #[arg(long, requires = "rate", value_name = "DURATION", value_parser = humantime::parse_duration)]
    window: Option<Duration>,
    /// Maximum number that run at the same time.
    #[arg(long, required_unless_present = "rate",
        value_parser = clap::value_parser!(u64).range(1..))]
    concurrency: Option<u64>,
}

/// The quota.
#[derive(Args)]
pub(crate) struct Target {
    /// The id of the quota.
    id: QuotaPolicyId,
}

/// The quota to change.
#[derive(Args)]
pub(crate) struct Change {
    /// The id of the quota.
    id: QuotaPolicyId,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(context: &Context, options: Options) -> Result<(), Failure> {
    match options {
        Options::Create(create) => self::create(context, &create).await,
        Options::Show(target) => show(context, target.id).await,
        Options::Reset(change) => {
            let client = context.client_unless(change.dry_run).await?;
            if change.dry_run {
                client.quota(change.id).await?;
                return would(context, "reset", change.id);
            }
            client.reset_quota(change.id).await?;
            done(context, "reset", change.id)
        }
        Options::Delete(change) => {
            let client = context.client_unless(change.dry_run).await?;
            if change.dry_run {
                client.quota(change.id).await?;
                return would(context, "delete", change.id);
            }
            client.delete_quota(change.id).await?;
            done(context, "deleted", change.id)
        }
    }
}

async fn create(context: &Context, create: &Create) -> Result<(), Failure> {
    let mut spec = QuotaSpec::new();
    if let (Some(rate), Some(window)) = (create.rate, create.window) {
        spec = spec.rate(rate, window);
    }
    if let Some(most) = create.concurrency {
        spec = spec.concurrency(most);
    }
    let id = context.client().await?.create_quota(spec).await?;
    Ok(context.output.message(&format!("quota {id}"), json!({ "quota_id": id.to_string() }))?)
}

async fn show(context: &Context, id: QuotaPolicyId) -> Result<(), Failure> {
    let quota = context.reader().await?.quota(id).await?;
    let limit = |most: u64| if most == 0 { Value::Null } else { Value::from(most) };
    let window = humantime::format_duration(quota.window).to_string();
    Ok(context.output.record(vec![
        ("quota", Value::from(id.to_string())),
        ("rate", limit(quota.rate)),
        ("window", if quota.rate == 0 { Value::Null } else { Value::from(window) }),
        ("concurrency", limit(quota.concurrency)),
        ("running", Value::from(quota.running)),
    ])?)
}

fn would(context: &Context, verb: &str, id: QuotaPolicyId) -> Result<(), Failure> {
    let object = json!({ "would": verb, "quota_id": id.to_string() });
    Ok(context.output.message(&format!("would {verb} quota {id}"), object)?)
}

fn done(context: &Context, done: &str, id: QuotaPolicyId) -> Result<(), Failure> {
    let object = json!({ "done": done, "quota_id": id.to_string() });
    Ok(context.output.message(&format!("{done} quota {id}"), object)?)
}
