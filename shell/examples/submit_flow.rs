//! Submits a flow, follows it, and prints how it ended.
//!
//! ```console
//! $ cargo run -p selvedge --example submit_flow
//! ```
//!
//! Engine and worker run in the same process here, so that it works without a server; in a
//! deployment they are elsewhere, and only the client's part is needed.

use std::error::Error;
use std::time::Duration;

use selvedge::client::{Client, Flow, OnSatisfied, Task};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::worker::{Context, Failed, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // From here on SIGTERM stops it gently.
    let mut terminate = signal(SignalKind::terminate())?;
    let url = std::env::var("SELVEDGE_URL").unwrap_or_else(|_| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let engine = Engine::builder(client.store().clone()).secrets(SecretSource::Generate);
    let engine = engine.start().await?;
    let stop = CancellationToken::new();
    let worker = Worker::builder(client.clone())
        .handler("ask", |context: Context| async move {
            let wait_ms: u64 = String::from_utf8_lossy(context.payload()).parse()?;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = context.cancelled() => {}
            }
            Ok::<_, Failed>(format!("an answer after {wait_ms} ms"))
        })
        .handler("report", |context: Context| async move {
            let first = context.result_of("quick").await?.unwrap_or_default();
            Ok::<_, Failed>(first)
        });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));

    // Two are asked; the report needs one answer, and the slower one is cancelled.
    let flow = client
        .submit(
            Flow::new("survey")
                .task(Task::new("quick", "ask").payload("20"))
                .task(Task::new("slow", "ask").payload("60000"))
                .task(
                    Task::new("report", "report")
                        .after_any(["quick", "slow"], OnSatisfied::CancelRemaining),
                ),
        )
        .await?;
    tokio::select! {
        ended = client.wait_flow(flow.id) => {
            let ended = ended?;
            for (name, id) in &flow.executions {
                println!("{name:<8} {}", ended.tasks[id]);
            }
            let report = client.wait(&flow["report"]).await?;
            println!("report: {}", String::from_utf8_lossy(&report.result));
        }
        told = told_to_stop(&mut terminate) => told?,
    }

    stop.cancel();
    worker.await??;
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Waits for SIGTERM or Ctrl-C.
async fn told_to_stop(terminate: &mut Signal) -> std::io::Result<()> {
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        pressed = tokio::signal::ctrl_c() => pressed,
    }
}
