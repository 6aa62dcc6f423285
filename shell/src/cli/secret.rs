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

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Let a new key sign on every partition; tokens of the former one verify for a while.
    Rotate(Rotate),
    /// List the keys of every partition, by name.
    List,
}

/// Which key, and for how long the former one counts.
#[derive(Args)]
pub(crate) struct Rotate {
    /// A file with the new secret in hex digits; a fresh one is drawn otherwise.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// How long tokens of the former key still verify, as in `24h`.
    #[arg(long, default_value = "24h", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Only say what would be done.
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
            secret::read(&text).map_err(Failure::usage)?
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
            .say(&sentence, json!({ "would": "rotate", "partitions": partitions }))?);
    }
    // Whoever comes first writes the counts down: they say where secrets are needed.
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
    Ok(context.output.say(&sentence, object)?)
}

/// No secret is nearly as long.
const SECRET_FILE_BYTES_MAX: usize = 64 * 1024;

/// The longest time that a former key may count.
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
    Ok(context.output.rows(&["partition", "signs"], rows.collect())?)
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::NotHex => Self::usage(error),
            SecretError::Partial { done: 1.., .. } => Self::new(Exit::Partial, error),
            // Nothing was done: why, is all there is to say.
            SecretError::Partial { error, .. } => ClientError::from(*error).into(),
            SecretError::Call(error) => ClientError::from(error).into(),
            SecretError::Missing { .. } => Self::new(Exit::Error, error),
        }
    }
}
