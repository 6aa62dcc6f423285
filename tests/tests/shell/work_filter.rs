//! A worker runs executions of its namespace and of the kinds that it has handlers for, and leaves
//! all others to other workers.

use std::sync::{Arc, Mutex};

use selvedge::client::{Client, Flow, SubmittedFlow, Task};
use selvedge::inspect::Reason;
use selvedge::store::{Store, StoreUrl};
use selvedge::worker::{Context, Failed, Worker, WorkerBuilder};
use selvedge_core::id::ExecutionId;
use selvedge_core::state::PublicState;
use selvedge_tests::server::Server;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::kit::{COUNTS, PATIENCE, block_on, brisk, open, sound, until, url_of};

/// More than a claim looks at.
const OTHERS: usize = 1_000;
const OWN: usize = 20;

/// A worker that notes what it runs, until it is dropped.
struct Noting {
    ran: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl Noting {
    fn start(client: &Client, kinds: &[&str]) -> Self {
        Self::with(Worker::builder(client.clone()), kinds)
    }

    fn with(mut worker: WorkerBuilder, kinds: &[&str]) -> Self {
        let (ran, stop) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        for kind in kinds {
            let ran = ran.clone();
            worker = worker.handler(*kind, move |task: Context| {
                ran.lock().unwrap().push(task.id().to_string());
                async { Ok::<_, Failed>("done") }
            });
        }
        tokio::spawn(worker.lease(PATIENCE * 2).run_until(stop.clone().cancelled_owned()));
        Self { ran, _stop: stop.drop_guard() }
    }

    fn runs(&self) -> usize {
        self.ran.lock().unwrap().len()
    }

    fn has_run(&self, id: &ExecutionId) -> bool {
        self.ran.lock().unwrap().contains(&id.to_string())
    }
}

async fn client_of(store: &Store, namespace: &str) -> Client {
    let client = Client::builder(store.clone()).partitions(COUNTS).namespace(namespace);
    client.retry_for(PATIENCE).build().await.unwrap()
}

async fn state(client: &Client, id: &ExecutionId) -> PublicState {
    client.execution(id).await.unwrap().state.unwrap()
}

async fn all_succeed(client: &Client, flow: &SubmittedFlow, names: impl Iterator<Item = String>) {
    for name in names {
        assert_eq!(client.wait(&flow[name.as_str()]).await.unwrap().result, b"done");
    }
}

/// A rolling deployment: tasks of a new kind are submitted while workers without it still run.
#[test]
fn an_old_worker_leaves_a_new_kind_to_new_workers_and_finds_its_own_behind_it() {
    let server = Server::valkey().unwrap();
    block_on(async {
        for url in [StoreUrl::memory(), url_of(&server)] {
            let store = open(&url).await;
            let client = client_of(&store, "default").await;
            // All in one partition, and in no order that the worker could rely on.
            let mut flow = Flow::new("deployment");
            for number in 0..OTHERS {
                flow = flow.task(Task::new(format!("new-{number}"), "new").priority(1));
            }
            for number in 0..OWN {
                flow = flow.task(Task::new(format!("old-{number}"), "old"));
            }
            let flow = client.submit(flow).await.unwrap();
            let old = Noting::start(&client, &["old"]);
            all_succeed(&client, &flow, (0..OWN).map(|number| format!("old-{number}"))).await;
            assert_eq!(old.runs(), OWN);

            let waits = &flow["new-0"];
            assert_eq!(state(&client, waits).await, PublicState::Waiting, "and has not failed");
            let why = client.explain(waits, &brisk()).await.unwrap();
            assert_eq!(why.waits[0].reason, Reason::NoWorker);
            let says = "no worker handles kind `new`; 1 worker serves lane default with kind old";
            assert_eq!(why.waits[0].now, says);

            let new = Noting::start(&client, &["new", "old"]);
            all_succeed(&client, &flow, (0..OTHERS).map(|number| format!("new-{number}"))).await;
            assert_eq!((old.runs(), new.runs()), (OWN, OTHERS));
            sound(&client).await;
        }
    });
}

#[test]
fn a_worker_runs_only_what_its_tenant_has_submitted_unless_it_is_for_all() {
    let server = Server::valkey().unwrap();
    block_on(async {
        for url in [StoreUrl::memory(), url_of(&server)] {
            let store = open(&url).await;
            let [a, b] = ["tenant-a", "tenant-b"];
            let (a, b) = (client_of(&store, a).await, client_of(&store, b).await);
            let start = |client: &Client| {
                let client = client.clone();
                async move {
                    let mut ids = Vec::new();
                    // In all partitions.
                    for _ in 0..40 {
                        ids.push(client.start(Task::new("task", "kind")).await.unwrap());
                    }
                    ids
                }
            };
            let (of_b, of_a) = (start(&b).await, start(&a).await);
            let worker_of_a = Noting::start(&a, &["kind"]);
            for id in &of_a {
                a.wait(id).await.unwrap();
            }
            for id in &of_b {
                assert_eq!(state(&b, id).await, PublicState::Waiting);
                assert!(!worker_of_a.has_run(id));
            }
            let why = b.explain(&of_b[0], &brisk()).await.unwrap();
            assert_eq!(why.waits[0].now, "no worker is registered in namespace tenant-b");

            let worker_of_b = Noting::start(&b, &["kind"]);
            for id in &of_b {
                b.wait(id).await.unwrap();
            }
            assert_eq!((worker_of_a.runs(), worker_of_b.runs()), (of_a.len(), of_b.len()));
            drop((worker_of_a, worker_of_b));

            let c = client_of(&store, "tenant-c").await;
            let for_all = Worker::builder(a.clone()).all_namespaces();
            let for_all = Noting::with(for_all, &["kind"]);
            let id = c.start(Task::new("task", "kind")).await.unwrap();
            c.wait(&id).await.unwrap();
            assert!(for_all.has_run(&id));
            let is_listed = || async {
                let workers = c.workers().await.unwrap();
                workers.iter().any(|worker| worker.all_namespaces && worker.alive)
            };
            until("a worker of all namespaces is listed in each", PATIENCE, is_listed).await;
            sound(&a).await;
        }
    });
}
