//! `selvedge demo`: sample work on the embedded store, in real time, with no server.
//!
//! Five things that go wrong or wait in real life, and how each ends: a fan-out that joins, a race
//! whose losers are cancelled, a flaky task that is tried again, an approval with a signed token,
//! and a worker that dies with work in its hands.

mod flows;
mod worker;

use std::io::{self, Write};
use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::call::suspension::RotateWaitpointHmacSecret;
use selvedge_core::engine::EngineConfig;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::partition::{Partition, PartitionCounts};
use selvedge_core::value::Value;

use crate::embedded::Embedded;
use flows::Sample;
use worker::Worker;

/// Everything in the demo lives here.
const HOME: Partition = Partition::flow(0);
/// Longest time that the demo may take.
const PATIENCE: Duration = Duration::from_secs(25);

/// Runs the demo and tells what happens on `out`.
///
/// # Errors
/// When the store refuses something it should not, or `out` cannot be written.
pub fn run(out: &mut impl Write) -> Result<Report, DemoError> {
    let one = NonZeroU16::MIN;
    let config = EngineConfig {
        partitions: PartitionCounts { flow: one, budget: one, quota: one },
        ..EngineConfig::default()
    };
    let mut store = Embedded::start(config, 7).map_err(DemoError::Store)?;
    store.call(&RotateWaitpointHmacSecret {
        partition: HOME,
        new_kid: "demo".into(),
        new_secret_hex: hex_secret(),
        grace_ms: 0,
    })?;

    let samples = flows::submit(&mut store)?;
    let tasks: usize = samples.iter().map(|sample| sample.expected.len()).sum();
    writeln!(
        out,
        "submitted {tasks} tasks in {} pieces of work, no server needed\n",
        samples.len()
    )?;
    let mut workers = [Worker::new("ada"), Worker::new("ben")];
    let began = store.now().0;
    let limit = began + i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX);
    while store.now().0 < limit && !all_ended(&mut store, &samples) {
        let mut busy = false;
        for worker in &mut workers {
            if let Some(line) = worker.work(&mut store)? {
                busy = true;
                writeln!(out, "{:>6.2}s  {line}", (store.now().0 - began) as f64 / 1000.0)?;
            }
        }
        if !busy {
            wait(store.idle_for().min(Duration::from_millis(20)));
        }
        store.tick();
    }
    let report = Report { rows: samples.iter().map(|sample| judge(&mut store, sample)).collect() };
    writeln!(out, "\n{report}")?;
    Ok(report)
}

/// What the demo came to.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    shows: &'static str,
    found: String,
    as_expected: bool,
}

impl Report {
    /// Whether everything ended as it should.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.as_expected)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Row { name, shows, found, as_expected } in &self.rows {
            let mark = if *as_expected { "ok  " } else { "BAD " };
            writeln!(f, "{mark}{name:<10} {shows:<46} {found}")?;
        }
        write!(f, "{}", if self.is_good() { "All ended as expected." } else { "Not as expected." })
    }
}

/// Why the demo could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The store did not take the library.
    #[error("the store refuses the library: {0}")]
    Store(String),
    /// A call failed that should not have.
    #[error(transparent)]
    Call(#[from] selvedge_core::error::CallError),
    /// Nobody listens.
    #[error(transparent)]
    Output(#[from] io::Error),
}

fn all_ended(store: &mut Embedded, samples: &[Sample]) -> bool {
    samples.iter().flat_map(|sample| &sample.expected).all(|(id, _)| {
        let state = public_state(store, id);
        !matches!(
            state.as_str(),
            "waiting" | "delayed" | "active" | "suspended" | "waiting_children" | "rate_limited"
        )
    })
}

fn judge(store: &mut Embedded, sample: &Sample) -> Row {
    let states: Vec<String> =
        sample.expected.iter().map(|(id, _)| public_state(store, id)).collect();
    let as_expected =
        sample.expected.iter().zip(&states).all(|((_, expected), found)| expected == found);
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for state in &states {
        *counts.entry(state).or_default() += 1;
    }
    let found: Vec<String> = counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
    Row { name: sample.name, shows: sample.shows, found: found.join(", "), as_expected }
}

fn public_state(store: &mut Embedded, id: &ExecutionId) -> String {
    let key = Key::execution(id).core().to_string();
    match store.command(&["HGET", &key, "public_state"]) {
        Value::Bulk(state) => String::from_utf8_lossy(&state).into_owned(),
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) | Value::Array(_) => {
            "gone".to_owned()
        }
    }
}

/// A signing secret for this run alone.
fn hex_secret() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

#[expect(clippy::disallowed_methods, reason = "workers and engine share this one thread")]
fn wait(duration: Duration) {
    std::thread::sleep(duration);
}
