//! `selvedge scan --once`: run all scanners once.

use clap::Args;
use selvedge::client::{Client, ClientError};
use selvedge::inspect::{self, ScanReport};
use selvedge_core::engine::{EngineConfig, ScannerName};
use serde_json::Value;

use super::context::Context;
use super::failure::{Exit, Failure};

/// What the columns mean.
const COLUMNS: &str = "Columns, in candidates: `processed`: moved on; `nothing`: there was nothing \
to do; `refused`: the store refused, mostly because somebody else was faster; `skipped`: outside of \
the filter, or it failed before and is left alone for a while; `failed`: an error, listed below; \
`deferred`: left to the next run; `set_aside`: an index entry that cannot be read, kept for an \
operator. With --dry-run `due` counts entries whose time has come, and `to visit` entries without a \
time.";

/// The options.
#[derive(Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct Options {
    /// Run every scanner once and exit; `selvedge serve` runs them all the time.
    #[arg(long, required = true)]
    once: bool,
    /// Print what is due by scanner and partition, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let client = context.client_unless(options.dry_run).await?;
    if options.dry_run {
        return would(context, &client).await;
    }
    let report = scan_once(context, &client).await?;
    let rows = report.counts.iter().map(|(scanner, counts)| {
        let counts = [
            counts.processed,
            counts.nothing,
            counts.refused,
            counts.skipped,
            counts.failed,
            counts.deferred,
            counts.set_aside,
        ];
        let mut row = vec![Value::from(scanner.as_str())];
        row.extend(counts.map(Value::from));
        row
    });
    let columns = [
        "scanner",
        "processed",
        "nothing",
        "refused",
        "skipped",
        "failed",
        "deferred",
        "set_aside",
    ];
    context.output.rows(&columns, rows.collect())?;
    for failure in &report.failures {
        anstream::eprintln!("{failure}");
    }
    let failed = match report.failures.len() {
        0 => return Ok(()),
        1 => "1 candidate".to_owned(),
        many => format!("{many} candidates"),
    };
    Err(Failure::new(Exit::Partial, format!("{failed} failed; the rest was done")))
}

/// Prints what the scanners would find. Entries without a due time are counted as to be visited:
/// only the scanner finds out whether there is anything to do.
async fn would(context: &Context, client: &Client) -> Result<(), Failure> {
    let found = client.due_counts(&config(context, client).await?).await?;
    let (due, visited) =
        found.iter().fold((0, 0), |(due, visited), at| (due + at.due, visited + at.visited));
    let rows = found.iter().map(|at| {
        let mut row = vec![Value::from(at.scanner.as_str()), Value::from(at.partition.to_string())];
        row.extend([at.due, at.visited].map(Value::from));
        row
    });
    context.output.rows(&["scanner", "partition", "due", "to visit"], rows.collect())?;
    if !context.output.json {
        anstream::eprintln!("{due} due, {visited} to visit; nothing was changed");
    }
    Ok(())
}

/// The settings of this environment, for all lanes of the registry.
async fn config(context: &Context, client: &Client) -> Result<EngineConfig, Failure> {
    let mut config = context.settings.engine.clone();
    config.partitions = *client.partitions();
    for lane in client.lanes().await? {
        if !config.lanes.contains(&lane) {
            config.lanes.push(lane);
        }
    }
    Ok(config)
}

/// Runs all scanners once over all lanes of the registry, with the settings of this environment.
pub(super) async fn scan_once(context: &Context, client: &Client) -> Result<ScanReport, Failure> {
    let config = config(context, client).await?;
    let report = inspect::scan_once(client.store(), config).await.map_err(ClientError::from)?;
    if report.is_complete() {
        return Ok(report);
    }
    let unfinished = match ScannerName::ALL.len() - report.counts.len() {
        1 => "1 scanner".to_owned(),
        many => format!("{many} scanners"),
    };
    let reason =
        client.store().connection_error().map(|error| format!(": {error}")).unwrap_or_default();
    Err(Failure::new(Exit::Partial, format!("{unfinished} did not finish{reason}")))
}
