//! `selvedge secret`: the keys that sign waitpoint tokens. Secrets themselves are never printed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use selvedge::client::ClientError;
use selvedge::deployment;
use selvedge::secret::{self, SecretError};
use serde_json::{Value, json};

use super::context::Context;
use super::failure::{Exit, Failure};
use super::file;

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Install a new secret on every partition. Tokens signed with the previous one stay valid for
    /// --grace.
    Rotate(Rotate),
    /// List the ids of the secrets of every partition.
    List,
}

/// The new secret, and the grace period of the previous one.
#[derive(Args)]
pub(crate) struct Rotate {
    /// File with the new secret in hex digits; a random one by default.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// How long tokens signed with the previous secret stay valid, such as `24h`.
    #[arg(long, default_value = "24h", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match options {
        Options::Rotate(options) => rotate(context, options).await,
        Options::List => list(context).await,
    }
}

async fn rotate(context: &Context, options: &Rotate) -> Result<(), Failure> {
    let secret = match &options.secret_file {
        Some(path) => {
            let text = file::read_text(path, SECRET_FILE_BYTES_MAX)?;
            secret::parse(&text).map_err(Failure::usage)?
        }
        None => secret::generate(),
    };
    if options.grace > GRACE_MAX {
        return Err(Failure::usage("--grace is too long; ten years are enough for any token"));
    }
    let client = context.client_unless(options.dry_run).await?;
    let grace = humantime::format_duration(options.grace);
    if options.dry_run {
        let partitions = client.partitions().flow.get();
        let sentence = format!(
            "would let a new key sign on {partitions} partitions; tokens of a former key, if there \
             is one, would verify for {grace}"
        );
        return Ok(context
            .output
            .message(&sentence, json!({ "would": "rotate", "partitions": partitions }))?);
    }
    // The first program stores the partition counts; they tell which partitions need a secret.
    deployment::fix_counts(client.store(), *client.partitions())
        .await
        .map_err(ClientError::from)?;
    let done = secret::rotate(client.store(), *client.partitions(), &secret, options.grace).await?;
    let former = match done.replaced {
        0 => "there was no key before".to_owned(),
        _ => format!("tokens of the former key verify for {grace}"),
    };
    let sentence = format!("key {} signs on {} partitions; {former}", done.kid, done.partitions);
    let object =
        json!({ "kid": done.kid, "partitions": done.partitions, "replaced": done.replaced });
    Ok(context.output.message(&sentence, object)?)
}

/// Longer than any secret.
const SECRET_FILE_BYTES_MAX: usize = 64 * 1024;

/// Longest grace period.
const GRACE_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

async fn list(context: &Context) -> Result<(), Failure> {
    let client = context.reader().await?;
    let keys =
        secret::list(client.store(), *client.partitions()).await.map_err(ClientError::from)?;
    let rows = keys.into_iter().map(|(partition, kids)| {
        vec![
            Value::from(partition.to_string()),
            kids.current.map_or(Value::Null, |kid| Value::from(kid.to_string())),
        ]
    });
    Ok(context.output.rows(&["partition", "signing key"], rows.collect())?)
}

impl From<SecretError> for Failure {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow")]
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::NotHex => Self::usage(error),
            SecretError::Partial { done: 1.., .. } => Self::new(Exit::Partial, error),
            // Nothing was done: report only the cause.
            SecretError::Partial { error, .. } => ClientError::from(*error).into(),
            SecretError::Call(error) => ClientError::from(error).into(),
            _ => Self::new(Exit::Error, error),
        }
    }
}
