//! Prints how soon an engine acts on what it is told, on a Valkey server: the cancels of an any-of
//! group, and the start of a join of many tasks.
//!
//! `cargo run -p selvedge-tests --bin latency -- [--losers N] [--rounds N] [--inputs N]`

use std::env;
use std::process::ExitCode;

use selvedge::client::{Client, Flow, OnSatisfied, SubmittedFlow, Task};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::command::Command;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::value::Value;
use selvedge_tests::command_line::exit_code;
use selvedge_tests::print_line;
use selvedge_tests::server::Server;
use std::time::Duration;

fn main() -> ExitCode {
    exit_code(run().map(|()| true))
}

struct Options {
    losers: usize,
    rounds: usize,
    inputs: usize,
}

fn run() -> Result<(), String> {
    let mut options = Options { losers: 100, rounds: 20, inputs: 10_000 };
    let words: Vec<String> = env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let [name, number] = pair else { return Err(USAGE.to_owned()) };
        let number = number.parse().map_err(|_| USAGE)?;
        match name.as_str() {
            "--losers" => options.losers = number,
            "--rounds" => options.rounds = number,
            "--inputs" => options.inputs = number,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let runtime = tokio::runtime::Runtime::new().map_err(text)?;
    runtime.block_on(measure(&options))
}

async fn measure(options: &Options) -> Result<(), String> {
    let server = Server::valkey().map_err(text)?;
    let url = format!("valkey://127.0.0.1:{}", server.port());
    let client = Client::connect(&url).await.map_err(text)?;
    let engine = Engine::builder(client.store().clone()).secrets(SecretSource::Generate);
    let engine = engine.start().await.map_err(text)?;
    let worker = Worker::builder(client.clone())
        .concurrency(64)
        .handler("work", |_: Context| async { Ok::<_, Failed>(Vec::new()) });
    let worker = tokio::spawn(worker.run_until(std::future::pending()));
    // Until partitions are asleep.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut waits = Vec::new();
    for _ in 0..options.rounds {
        waits.push(cancels(&client, options.losers).await?);
    }
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() * percent / 100).min(waits.len() - 1)];
    let of = format!("any-of, {} losers: all cancelled after the winner's end", options.losers);
    print_line!("{of:<60} p50 {} ms, p95 {} ms", at(50), at(95));
    let wait = join(&client, options.inputs).await?;
    let of = format!("join of {} tasks: start after the last one's end", options.inputs);
    print_line!("{of:<60} {wait} ms");
    worker.abort();
    engine.shutdown(Duration::from_secs(10)).await.map_err(text)
}

/// Milliseconds from the end of the first task to the cancel of the last other one.
async fn cancels(client: &Client, losers: usize) -> Result<i64, String> {
    let names: Vec<String> = (0..losers).map(|n| format!("loser-{n}")).collect();
    let hour = Duration::from_secs(3_600);
    let flow = Flow::new("race")
        .task(Task::new("winner", "work").delay(Duration::from_millis(500)))
        .tasks(names.iter().map(|name| Task::new(name, "work").delay(hour)))
        .task(Task::new("join", "work").after_any(
            names.iter().cloned().chain(["winner".to_owned()]),
            OnSatisfied::CancelRemaining,
        ));
    let flow = client.submit(flow).await.map_err(text)?;
    client.wait_flow(flow.id).await.map_err(text)?;
    let ended = times(client, &flow, names.iter().map(String::as_str), "completed_at").await?;
    let won = times(client, &flow, ["winner"], "completed_at").await?;
    Ok(ended.into_iter().max().unwrap_or(0) - won[0])
}

/// Milliseconds from the end of the last input to the claim of the task that waits for all.
async fn join(client: &Client, inputs: usize) -> Result<i64, String> {
    let names: Vec<String> = (0..inputs).map(|n| format!("input-{n}")).collect();
    let flow = Flow::new("join")
        .tasks(names.iter().map(|name| Task::new(name, "work")))
        .task(Task::new("join", "work").after(names.iter().cloned()));
    let flow = client.submit(flow).await.map_err(text)?;
    client.wait_flow(flow.id).await.map_err(text)?;
    let ended = times(client, &flow, names.iter().map(String::as_str), "completed_at").await?;
    let began = times(client, &flow, ["join"], "lease_acquired_at").await?;
    Ok(began[0] - ended.into_iter().max().unwrap_or(0))
}

/// A time in the records of some tasks.
async fn times<'a>(
    client: &Client,
    flow: &SubmittedFlow,
    names: impl IntoIterator<Item = &'a str>,
    field: &str,
) -> Result<Vec<i64>, String> {
    let mut times = Vec::new();
    for name in names {
        let id: &ExecutionId = &flow[name];
        let read = Command::read("HGET", &Key::execution(id).core(), &[field.as_bytes()]);
        let Value::Bulk(time) = client.store().command(read).await.map_err(text)? else {
            return Err(format!("{name} has no {field}"));
        };
        times.push(String::from_utf8_lossy(&time).parse().map_err(text)?);
    }
    Ok(times)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

const USAGE: &str = "latency [--losers N] [--rounds N] [--inputs N]
Prints how soon the losers of any-of groups are cancelled, and how soon a join of N tasks starts.";
