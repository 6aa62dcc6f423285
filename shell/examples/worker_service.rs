//! A worker as a service of its own: it runs until SIGTERM or Ctrl-C, then finishes what it holds.
//!
//! ```console
//! $ SELVEDGE_URL=valkey://localhost:6379 cargo run -p selvedge --example worker_service
//! ```
//!
//! On `memory://`, which no other process can reach, it gives itself something to do, and ends.

use std::error::Error;
use std::time::Duration;

use selvedge::client::{Client, Task};
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
    let client = Client::builder(store).build().await?;
    let lane = std::env::var("LANE").unwrap_or_else(|_| "default".to_owned());
    let stop = CancellationToken::new();
    let worker = Worker::builder(client.clone())
        .name("example")
        .lane(lane)
        .lease(Duration::from_secs(2))
        .handler("greet", |context: Context| async move {
            let name = String::from_utf8_lossy(context.payload()).into_owned();
            println!("greeting {name}");
            Ok::<_, Failed>(format!("Hello, {name}!"))
        })
        .handler("sleep", |context: Context| async move {
            let seconds = String::from_utf8_lossy(context.payload()).parse()?;
            println!("sleeping {}", context.id());
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok("slept"),
                // The lease is lost, or somebody cancelled: nothing that follows would count.
                () = context.cancelled() => Err(Failed::transient("woken")),
            }
        });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    if url.is_memory() {
        let id = client.start(Task::new("greet", "greet").payload("world")).await?;
        println!("{}", String::from_utf8_lossy(&client.wait(&id).await?.result));
    } else {
        println!("working");
        told_to_stop(&mut terminate).await?;
        println!("stopping; what runs may finish");
    }
    stop.cancel();
    worker.await??;
    Ok(())
}

/// Waits for SIGTERM or Ctrl-C.
async fn told_to_stop(terminate: &mut Signal) -> std::io::Result<()> {
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        pressed = tokio::signal::ctrl_c() => pressed,
    }
}
