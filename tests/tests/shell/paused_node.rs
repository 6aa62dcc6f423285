//! One node of a cluster stops answering: a worker goes on with the partitions of the others.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selvedge::client::{Client, Flow, Task};
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::state::TerminalOutcome;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::{Kind, Options, Server};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::kit::{COUNTS, PATIENCE, block_on, brisk, engine_on, open, sound, url_of_cluster};

const NODES: usize = 3;
/// Enough partitions that every node has several.
const PARTITIONS: PartitionCounts =
    PartitionCounts { flow: std::num::NonZeroU16::new(48).unwrap(), ..COUNTS };
/// A handler mostly waits, so that what is counted is the worker and not the machine.
const HANDLER: Duration = Duration::from_millis(600);
const PAUSE: Duration = Duration::from_secs(10);
/// More than a worker with 64 permits runs in the time of the test.
const FLOWS: usize = 48;
const TASKS_PER_FLOW: usize = 40;
/// Other processes may slow down one measurement; a worker that waits for the node, all of them.
const TRIES: usize = 3;

/// Sends a signal to the process of a server.
fn signal(server: &Server, name: &str) {
    let status = Command::new("kill").args([name, &server.pid().to_string()]).status().unwrap();
    assert!(status.success());
}

/// How many handlers ended, by node.
#[derive(Default)]
struct Ended([AtomicU64; NODES]);

impl Ended {
    fn count(&self, context: &Context) {
        let slot = usize::from(context.id().partition().slot());
        self.0[slot * NODES / 16_384].fetch_add(1, Ordering::SeqCst);
    }

    fn on_first_two(&self) -> u64 {
        self.0[..2].iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// How many end on the first two nodes, per second.
    async fn rate(&self, time: Duration) -> f64 {
        let before = self.on_first_two();
        sleep(time).await;
        (self.on_first_two() - before) as f64 / time.as_secs_f64()
    }
}

fn flow() -> Flow {
    let tasks = (0..TASKS_PER_FLOW).map(|number| Task::new(number.to_string(), "wait"));
    tasks.fold(Flow::new("many"), |flow, task| flow.task(task.lane("quick")))
}

/// What the worker did on the two nodes that answered, per second.
#[derive(Debug)]
struct Rates {
    usual: f64,
    paused: f64,
}

impl Rates {
    fn go_on(&self) -> bool {
        self.usual > 10.0 && self.paused > self.usual * 0.8
    }
}

/// The rates while a worker runs a fresh load, and one node pauses in the middle of it.
async fn measure(client: &Client, node: &Server) -> Rates {
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        flows.push(client.submit(flow()).await.unwrap().id);
    }
    let (ended, stop) = (Arc::new(Ended::default()), CancellationToken::new());
    let counted = ended.clone();
    let worker = Worker::builder(client.clone())
        .lane("quick")
        .lease(Duration::from_secs(60))
        .concurrency(64)
        .handler("wait", move |context: Context| {
            let counted = counted.clone();
            async move {
                sleep(HANDLER).await;
                counted.count(&context);
                Ok::<_, Failed>(())
            }
        })
        .run_until(stop.clone().cancelled_owned());
    let worker = tokio::spawn(worker);
    sleep(Duration::from_secs(2)).await;
    let usual = ended.rate(Duration::from_secs(4)).await;
    signal(node, "-STOP");
    let paused = ended.rate(PAUSE).await;
    signal(node, "-CONT");
    for flow in flows {
        let outcome = client.wait_flow_within(flow, PATIENCE).await.unwrap();
        assert_eq!(outcome.count(TerminalOutcome::Success), TASKS_PER_FLOW);
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
    Rates { usual, paused }
}

#[test]
fn a_paused_node_does_not_slow_down_the_claims_on_others() {
    let cluster = Cluster::from_nodes(NODES, 0, || {
        // Nobody declares the paused node dead.
        let options = Options::cluster_node().line("cluster-node-timeout 60000");
        Server::start(Kind::Valkey, options)
    })
    .unwrap();
    block_on(async {
        let store = open(&url_of_cluster(&cluster)).await;
        let engine = engine_on(&store).config(brisk().with_partitions(PARTITIONS));
        let engine = engine.start().await.unwrap();
        let client = Client::builder(store.clone()).partitions(PARTITIONS);
        let client = client.retry_for(PATIENCE).build().await.unwrap();
        let mut tries: Vec<Rates> = Vec::new();
        while tries.len() < TRIES && !tries.iter().any(Rates::go_on) {
            tries.push(measure(&client, &cluster.primaries()[2]).await);
        }
        engine.shutdown(Duration::from_secs(10)).await.unwrap();
        sound(&client).await;
        assert!(tries.iter().any(Rates::go_on), "ends per second on the other nodes: {tries:?}");
    });
}
