//! A service that embeds everything: engine, worker and client in one process.
//!
//! ```console
//! $ cargo run -p selvedge --example embed_engine
//! $ SELVEDGE_URL=valkey://localhost:6379 cargo run -p selvedge --example embed_engine
//! ```

use std::error::Error;
use std::time::Duration;

use selvedge::client::{Client, Task};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::store::{Store, StoreOptions, StoreUrl};
use selvedge::worker::{Context, Failed, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // From here on SIGTERM stops it gently.
    let mut terminate = signal(SignalKind::terminate())?;
    let url = std::env::var("SELVEDGE_URL").unwrap_or_else(|_| "memory://".to_owned());
    let url: StoreUrl = url.parse()?;
    let store = Store::open(&url, StoreOptions::default()).await?;

    // The engine brings back lost work, moves what is due and resolves dependencies.
    let engine = Engine::builder(store.clone()).secrets(SecretSource::Generate).start().await?;

    // The worker runs handlers; a failed one is tried again as the task's author wishes.
    let client = Client::builder(store).build().await?;
    let stop = CancellationToken::new();
    let worker = Worker::builder(client.clone()).concurrency(8).handler(
        "divide",
        |context: Context| async move {
            let text = String::from_utf8_lossy(context.payload()).into_owned();
            let number: u64 = text.parse()?;
            if context.attempt().0 == 0 {
                return Err(Failed::transient("the first attempt always fails"));
            }
            Ok((number / 2).to_string())
        },
    );
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));

    // The client starts work and waits for it; no polling is involved.
    let task = Task::new("half", "divide").payload("84").retries(3, Duration::from_millis(100));
    let id = client.start(task).await?;
    tokio::select! {
        ended = client.wait(&id) => {
            println!("{id} ended with {}", String::from_utf8_lossy(&ended?.result));
        }
        told = told_to_stop(&mut terminate) => told?,
    }

    // What runs may finish; nothing new begins.
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
