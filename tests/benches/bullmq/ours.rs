//! The same jobs with Selvedge.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use selvedge::client::{Client, ClientError, Task};
use selvedge::worker::{Context, Failed, Worker};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Adding, Fault, JOBS, SIDE_BY_SIDE, Took};

pub(super) fn run(port: u16, adding: Adding) -> Result<Took, Fault> {
    // One thread, as the other side has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(jobs(port, adding))
}

async fn jobs(port: u16, adding: Adding) -> Result<Took, Fault> {
    let client = Client::connect(&format!("valkey://127.0.0.1:{port}")).await?;
    let (left, all) = (Arc::new(AtomicU32::new(JOBS)), Arc::new(Notify::new()));
    let (count, done) = (left.clone(), all.clone());
    let stop = CancellationToken::new();
    let worker = Worker::builder(client.clone()).lane("flood").concurrency(SIDE_BY_SIDE).handler(
        "noop",
        move |_: Context| {
            if count.fetch_sub(1, Ordering::AcqRel) == 1 {
                done.notify_one();
            }
            async { Ok::<_, Failed>("done") }
        },
    );
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let (began, cpu) = (Instant::now(), cpu_seconds()?);
    match adding {
        Adding::OneByOne => add_one_by_one(&client).await?,
        Adding::InBulk => {
            client.start_many((0..JOBS).map(|_| task())).await?;
        }
    }
    all.notified().await;
    // Its drain ends when all ends are reported.
    stop.cancel();
    worker.await??;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Took { seconds, client_cpu: cpu_seconds()? - cpu })
}

async fn add_one_by_one(client: &Client) -> Result<(), Fault> {
    let next = Arc::new(AtomicU32::new(0));
    let adders: Vec<_> = (0..SIDE_BY_SIDE)
        .map(|_| {
            let (client, next) = (client.clone(), next.clone());
            tokio::spawn(async move {
                while next.fetch_add(1, Ordering::AcqRel) < JOBS {
                    client.start(task()).await?;
                }
                Ok::<_, ClientError>(())
            })
        })
        .collect();
    for adder in adders {
        adder.await??;
    }
    Ok(())
}

fn task() -> Task {
    Task::new("t", "noop").lane("flood").payload("input")
}

/// The CPU that this process has used.
fn cpu_seconds() -> Result<f64, Fault> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which may contain anything, the 12th and 13th field, in ticks of 10 ms.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}
