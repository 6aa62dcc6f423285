//! The figures of the shell, on a Valkey of this run: `cargo bench -p selvedge-tests --bench
//! figures`.
//!
//! | figure | promise |
//! | --- | --- |
//! | from the completion of an upstream to the start of its downstream handler | p50 under 5 ms |
//! | a chain of ten no-op tasks, from submission to the last end | p50 under 60 ms |
//! | submit, claim and complete, beside raw commands that make the same changes | printed |
//! | 5,000 due timeouts over 256 partitions, beside the same calls pipelined | 0.5 of it, 5,000 a second |
//! | 1,000 children made eligible by one completion | under 150 ms |
//! | PING while 10,000 tasks with 49,900 dependencies are submitted | never 25 ms |
//!
//! Ends with a failure when a promise is broken.

mod chain;
mod drain;
mod fan;
mod pings;
mod raw;
mod throughput;
mod wake;

use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};
use selvedge::client::Client;
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge_tests::server::Server;

type Fault = Box<dyn std::error::Error>;

/// One figure, and whether it is good enough.
struct Figure {
    what: String,
    found: String,
    promised: String,
    holds: bool,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    match runtime.block_on(measure()) {
        Ok(figures) => print(&figures),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<Vec<Figure>, Fault> {
    let mut figures = Vec::new();
    {
        let stage = Stage::open().await?;
        let engine = stage.engine().await?;
        figures.push(wake::measure(&stage).await?.said());
        figures.push(chain::measure(&stage).await?.said());
        figures.push(fan::measure(&stage).await?.said());
        figures.push(throughput::measure(&stage).await?.said());
        engine.shutdown(Duration::from_secs(5)).await?;
    }
    figures.push(pings::measure(&Stage::open().await?).await?.said());
    figures.push(drain::measure().await?.said());
    Ok(figures)
}

impl Figure {
    /// Says it at once: the rest takes a while.
    fn said(self) -> Self {
        eprintln!("{}: {}", self.what, self.found);
        self
    }
}

fn print(figures: &[Figure]) -> ExitCode {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["figure", "found", "promised", ""]);
    for figure in figures {
        let mark = if figure.holds { "ok" } else { "BROKEN" };
        table.add_row([&figure.what, &figure.found, &figure.promised, mark]);
    }
    println!("{table}");
    if figures.iter().all(|figure| figure.holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A server of its own, and a client of it.
struct Stage {
    client: Client,
    server: Server,
}

impl Stage {
    async fn open() -> Result<Self, Fault> {
        let server = Server::valkey()?;
        let client = Client::connect(&format!("valkey://127.0.0.1:{}", server.port())).await?;
        Ok(Self { client, server })
    }

    /// An engine as an operator would start it.
    async fn engine(&self) -> Result<Engine, Fault> {
        let store = self.client.store().clone();
        Ok(Engine::builder(store).secrets(SecretSource::Generate).start().await?)
    }
}

fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}

/// The value in the middle, and the one that only one in a hundred passes.
fn quantiles(mut samples: Vec<Duration>) -> (Duration, Duration) {
    samples.sort_unstable();
    let at = |share: usize| samples.get(samples.len() * share / 100).copied().unwrap_or_default();
    (at(50), at(99))
}
