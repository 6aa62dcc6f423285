//! Helpers of these tests.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::client::Client;
use selvedge::engine::{Engine, EngineBuilder};
use selvedge::inspect::fsck;
use selvedge::secret::SecretSource;
use selvedge::store::{Store, StoreOptions, StoreUrl};
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::partition::PartitionCounts;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Runs a test's future on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// The URL of a server of the kit.
pub(crate) fn url_of(server: &Server) -> StoreUrl {
    format!("valkey://127.0.0.1:{}", server.port()).parse().unwrap()
}

/// The URL of a cluster of the kit.
pub(crate) fn url_of_cluster(cluster: &Cluster) -> StoreUrl {
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    format!("valkey://{}?cluster=true", hosts.join(",")).parse().unwrap()
}

/// Opens a store, which must work.
pub(crate) async fn open(url: &StoreUrl) -> Store {
    Store::open(url, StoreOptions::default()).await.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// A deployment of a few partitions, which are enough to be in several places.
pub(crate) const COUNTS: PartitionCounts = PartitionCounts {
    flow: NonZeroU16::new(8).unwrap(),
    budget: NonZeroU16::new(2).unwrap(),
    quota: NonZeroU16::new(2).unwrap(),
};

/// How long a test waits for what must come: far longer than it takes, on a machine that is busy
/// with other things too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// An engine that does not let a test wait.
pub(crate) fn brisk() -> EngineConfig {
    let quick = Duration::from_millis(200);
    let intervals = ScannerName::ALL.iter().map(|&name| (name, quick)).collect();
    let mut config = EngineConfig::default().with_partitions(COUNTS).with_intervals(intervals);
    config.batch_timeout = Duration::from_secs(5);
    config
}

/// The builder of such an engine.
pub(crate) fn engine_on(store: &Store) -> EngineBuilder {
    Engine::builder(store.clone()).config(brisk()).secrets(SecretSource::Generate)
}

pub(crate) async fn client_on(store: &Store) -> Client {
    let client = Client::builder(store.clone()).partitions(COUNTS);
    client.retry_for(PATIENCE).build().await.unwrap()
}

/// A worker of one lane that counts what it does, until it is dropped. Tasks of the kind `fail`
/// fail for good, all others do well.
pub(crate) struct Hands {
    pub(crate) runs: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl Hands {
    pub(crate) fn on(client: &Client, lane: &str) -> Self {
        Self::with_lease(client, lane, Duration::from_secs(3))
    }

    /// The same with leases that no busy machine lets run out: whatever runs twice, runs twice by
    /// mistake.
    pub(crate) fn steady(client: &Client, lane: &str) -> Self {
        Self::with_lease(client, lane, PATIENCE * 2)
    }

    fn with_lease(client: &Client, lane: &str, lease: Duration) -> Self {
        let (runs, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let count = |runs: &Arc<AtomicUsize>| {
            let runs = runs.clone();
            move || runs.fetch_add(1, Ordering::SeqCst)
        };
        let (ok, fail) = (count(&runs), count(&runs));
        let worker = Worker::builder(client.clone())
            .lane(lane)
            .lease(lease)
            .concurrency(4)
            .handler("ok", move |_: Context| {
                ok();
                async { Ok::<_, Failed>("done") }
            })
            .handler("fail", move |_: Context| {
                fail();
                async { Err::<String, _>(Failed::permanent("as told")) }
            })
            .run_until(stop.clone().cancelled_owned());
        tokio::spawn(worker);
        Self { runs, _stop: stop.drop_guard() }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// Asks every few milliseconds until the answer is yes; the text says what was waited for.
pub(crate) async fn until<F: Future<Output = bool>>(
    what: &str,
    within: Duration,
    mut ask: impl FnMut() -> F,
) {
    let deadline = tokio::time::Instant::now() + within;
    while !ask().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Every oracle of the store is content.
pub(crate) async fn sound(client: &Client) {
    let report = fsck::check(client, |_, _| {}).await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.violations);
    assert!(report.keys > 0);
}

/// An engine as a process of its own. Dropping it kills it, as any end of the test does not.
pub(crate) struct EngineProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl EngineProcess {
    /// Starts it, and returns when it answers over HTTP.
    pub(crate) fn start(url: &str, more: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_command"));
        command
            .arg("serve")
            .env("SELVEDGE_URL", url)
            .env("SELVEDGE_LISTEN", "127.0.0.1:0")
            .env("SELVEDGE_WAITPOINT_SECRET", "5e".repeat(32))
            .env("FF_FLOW_PARTITIONS", COUNTS.flow.to_string())
            .env("FF_BUDGET_PARTITIONS", COUNTS.budget.to_string())
            .env("FF_QUOTA_PARTITIONS", COUNTS.quota.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        for scanner in ["EDGE_CANCEL_DISPATCHER", "CANCEL_RECONCILER", "DEPENDENCY_RECONCILER"] {
            // Zero is as often as a scanner runs: ten times a second.
            command.env(format!("FF_{scanner}_INTERVAL_S"), "0");
        }
        for (name, value) in more {
            command.env(name, value);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}"));
        Self { child, address }
    }

    /// SIGKILL: no handler, no drain, no last word.
    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        // It may be gone already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
