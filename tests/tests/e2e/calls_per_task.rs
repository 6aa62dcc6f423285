//! How many calls a worker makes for each task, counted by the server.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::client::{Client, Flow, Task};
use selvedge::store::{Store, StoreOptions};
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::value::Value;
use selvedge_tests::server::Server;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::fixture::PATIENCE;

const TASKS: usize = 1_000;

#[test]
fn in_one_partition_a_worker_makes_one_call_for_each_task() {
    let calls = calls_for_tasks(1, 16);
    assert!(calls <= TASKS * 11 / 10, "{calls} calls for {TASKS} tasks");
}

#[test]
fn over_256_partitions_a_worker_makes_one_call_and_a_half_for_each_task() {
    let calls = calls_for_tasks(256, 16);
    assert!(calls <= TASKS * 15 / 10, "{calls} calls for {TASKS} tasks");
}

/// The calls of a worker that runs [`TASKS`] tasks, which wait for it in so many partitions.
fn calls_for_tasks(partitions: u16, hands: usize) -> usize {
    let server = Server::valkey().unwrap();
    let url = format!("valkey://127.0.0.1:{}", server.port());
    Runtime::new().unwrap().block_on(async {
        let store = Store::open(&url.parse().unwrap(), StoreOptions::default()).await.unwrap();
        let flow = NonZeroU16::new(partitions).unwrap();
        let counts = PartitionCounts { flow, ..PartitionCounts::DEFAULT };
        let client = Client::builder(store).partitions(counts).build().await.unwrap();
        for _ in 0..TASKS {
            // Every flow has its own partition.
            let flow = Flow::new("one").task(Task::new("x", "noop").lane("many"));
            client.submit(flow).await.unwrap();
        }
        let (runs, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let count = runs.clone();
        let worker = Worker::builder(client).lane("many").concurrency(hands).lease(PATIENCE);
        let worker = worker.handler("noop", move |_: Context| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Failed>(()) }
        });
        let before = calls_of(&server);
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        while runs.load(Ordering::SeqCst) < TASKS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.cancel();
        worker.await.unwrap().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), TASKS, "each ran once");
        calls_of(&server) - before
    })
}

/// How many functions were called since the server started.
fn calls_of(server: &Server) -> usize {
    let reply = server.connect().unwrap().call(&["INFO", "commandstats"]).unwrap();
    let Value::Bulk(text) = reply else { panic!("{reply:?}") };
    let text = String::from_utf8(text).unwrap();
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = rest.split(',').next()?.parse::<usize>().ok()?;
        matches!(name, "fcall" | "fcall_ro").then_some(count)
    };
    text.lines().filter_map(calls).sum()
}
