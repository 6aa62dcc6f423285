//! `selvedge demo`: an engine, workers and sample flows in one process, on any store.
//!
//! It shows a fan-out with a join, a quorum that cancels the remaining tasks, a retry, an approval
//! by a signal with a signed token, and the recovery of a task whose worker was killed.

mod flows;
mod workers;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroU16;
use std::time::Duration;

use comfy_table::{Table, presets};
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::id::{ExecutionId, InvalidId};
use selvedge_core::partition::PartitionCounts;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use flows::Sample;
use selvedge::client::{Client, ClientError, InvalidInput, TerminalOutcome};
use selvedge::deployment::{self, DeploymentError};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::store::Store;
use workers::Workers;

/// Runs the demo and prints to `out` what happens.
///
/// It uses lanes of its own, so that other work on the store is not touched. `counts` are the
/// partition counts that the deployment must have; `None` takes those it has.
///
/// # Errors
/// When the namespace or the store cannot be used, the store has other counts, or `out` cannot be
/// written.
pub async fn run(
    store: Store,
    counts: Option<PartitionCounts>,
    namespace: &str,
    out: &mut (impl Write + Send),
) -> Result<Report, DemoError> {
    let began = Instant::now();
    let scan_every =
        if store.url().is_memory() { MEMORY_SCAN_INTERVAL } else { SERVER_SCAN_INTERVAL };
    let counts = match counts {
        Some(counts) => counts,
        None => partitions(&store).await?,
    };
    let config = EngineConfig::default()
        .with_partitions(counts)
        .with_intervals(FREQUENT_SCANNERS.iter().map(|name| (*name, scan_every)).collect());
    let client = Client::builder(store.clone())
        .partitions(config.partitions)
        .namespace(namespace)
        .identity("selvedge demo")
        .build()
        .await?;
    writeln!(out, "store    {}", store.url())?;
    let run = Uuid::new_v4().simple().to_string();
    let lanes = Lanes::new(run.get(..8).unwrap_or("demo"));
    let engine = Engine::builder(store)
        .lanes([lanes.all.parse().map_err(invalid)?, lanes.recover.parse().map_err(invalid)?])
        .config(config)
        .secrets(SecretSource::Generate)
        .start()
        .await?;

    let (sender, mut lines) = mpsc::channel(LINES_QUEUED_MAX);
    let workers = Workers::start(&client, &lanes, &sender);
    let samples = flows::submit(&client, &lanes).await?;
    let tasks: usize = samples.iter().map(|sample| sample.expected.len()).sum();
    writeln!(out, "work     {tasks} tasks in {} samples\n", samples.len())?;

    let waiting = wait_for(client.clone(), samples);
    tokio::pin!(waiting);
    let rows = loop {
        tokio::select! {
            biased;
            Some(line) = lines.recv() => print_line(out, began, &line)?,
            rows = &mut waiting => break rows,
        }
    };
    while let Ok(line) = lines.try_recv() {
        print_line(out, began, &line)?;
    }
    workers.stop().await;
    // The next engine finishes what a timeout leaves; the demo is over either way.
    let _ = engine.shutdown(SHUTDOWN_WITHIN).await;
    let report = Report { rows: rows?, took: began.elapsed() };
    writeln!(out, "\n{report}")?;
    Ok(report)
}

/// A piece of sample work that [`run`] submits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Planned {
    /// What it is.
    pub name: &'static str,
    /// What it demonstrates.
    pub shows: &'static str,
    /// Its tasks by name.
    pub tasks: Vec<String>,
}

/// What [`run`] submits.
#[must_use]
pub fn planned() -> Vec<Planned> {
    let flows = flows::demo_flows(&Lanes::new("planned")).into_iter();
    flows
        .map(|plan| Planned {
            name: plan.name,
            shows: plan.shows,
            tasks: plan.expected.into_iter().map(|(name, _)| name).collect(),
        })
        .collect()
}

/// The partition counts of the deployment; for a new one the defaults, or a few in memory.
async fn partitions(store: &Store) -> Result<PartitionCounts, ClientError> {
    let few = PartitionCounts { flow: FEW, budget: FEW, quota: FEW };
    let new = if store.url().is_memory() { few } else { PartitionCounts::DEFAULT };
    Ok(deployment::counts(store).await?.unwrap_or(new))
}

/// The lanes of one run.
pub(super) struct Lanes {
    /// For all tasks but one.
    pub(super) all: String,
    /// For the task whose worker is killed.
    pub(super) recover: String,
}

impl Lanes {
    fn new(run: &str) -> Self {
        Self { all: format!("demo-{run}"), recover: format!("demo-{run}-recover") }
    }
}

fn print_line(out: &mut impl Write, began: Instant, line: &str) -> io::Result<()> {
    writeln!(out, "{:>6.2}s  {line}", began.elapsed().as_secs_f64())?;
    out.flush()
}

/// Waits until all tasks have ended, or the time limit is over.
async fn wait_for(client: Client, samples: Vec<Sample>) -> Result<Vec<Row>, ClientError> {
    let limit = Instant::now() + TIME_LIMIT;
    let mut rows = Vec::new();
    for sample in samples {
        let mut found = BTreeMap::<&str, usize>::new();
        let mut as_expected = true;
        for (id, expected) in &sample.expected {
            let outcome = outcome(&client, id, limit).await?;
            as_expected &= outcome == Some(*expected);
            *found.entry(outcome.map_or("unfinished", TerminalOutcome::as_str)).or_default() += 1;
        }
        let found: Vec<String> = found.iter().map(|(state, n)| format!("{n} {state}")).collect();
        let Sample { name, shows, .. } = sample;
        rows.push(Row { name, shows, found: found.join(", "), as_expected });
    }
    Ok(rows)
}

async fn outcome(
    client: &Client,
    id: &ExecutionId,
    limit: Instant,
) -> Result<Option<TerminalOutcome>, ClientError> {
    match timeout_at(limit, client.wait(id)).await {
        Ok(ended) => ended.map(|ended| Some(ended.outcome)),
        Err(_) => Ok(None),
    }
}

/// The result of the demo.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
    took: Duration,
}

/// One piece of sample work.
#[derive(Debug)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// What it demonstrates.
    pub shows: &'static str,
    /// How it ended.
    pub found: String,
    /// Whether it ended as it should.
    pub as_expected: bool,
}

impl Report {
    /// All pieces of work.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Whether everything ended as it should.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.as_expected)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header(["", "work", "what it shows", "how it ended"]);
        for Row { name, shows, found, as_expected } in &self.rows {
            let mark = if *as_expected { "ok" } else { "BAD" };
            table.add_row([mark, name, shows, found.as_str()]);
        }
        writeln!(f, "{table}")?;
        let verdict = if self.is_good() { "All ended as expected" } else { "Not as expected" };
        write!(f, "{verdict}, in {:.1} s.", self.took.as_secs_f64())
    }
}

/// Why the demo failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The deployment has other settings.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// A call failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

fn invalid(error: InvalidId) -> ClientError {
    InvalidInput::from(error).into()
}

/// Time limit of the demo.
const TIME_LIMIT: Duration = Duration::from_secs(25);
const FEW: NonZeroU16 = NonZeroU16::new(4).expect("four is not zero");
/// Scanners that run more often, because the samples wait for them.
const FREQUENT_SCANNERS: [ScannerName; 3] =
    [ScannerName::LeaseExpiry, ScannerName::DelayedPromoter, ScannerName::EdgeCancelDispatcher];
/// Short, so that the demo ends soon.
const MEMORY_SCAN_INTERVAL: Duration = Duration::from_millis(250);
/// Longer on a server: it has many partitions, and perhaps other work.
const SERVER_SCAN_INTERVAL: Duration = Duration::from_secs(1);
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(2);
/// Lines that may be queued for printing.
const LINES_QUEUED_MAX: usize = 256;
