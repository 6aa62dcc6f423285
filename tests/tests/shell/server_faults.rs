//! Faults of a server: the engine reports them, retries without a hot loop, recovers by itself, and
//! loses nothing that was acknowledged.

use std::time::Duration;

use selvedge::client::{Client, Flow, Task};
use selvedge::engine::Engine;
use selvedge::store::{Store, StoreError, StoreOptions, StoreUrl};
use selvedge_core::error::Class;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::connection::Connection;
use selvedge_tests::server::{Kind, Options, Server};

use crate::kit::{
    Hands, PATIENCE as SOON, block_on, client_on, engine_on, open, sound, until, url_of,
    url_of_cluster,
};

/// Calls in three seconds that are no hot loop, which makes thousands: on a busy machine the engine
/// may have been kept from working when all was well, and not afterwards.
const NOT_HOT: u64 = 600;

/// A deployment at work: chains of tasks come in all the time.
pub(crate) struct Plant {
    store: Store,
    engine: Engine,
    client: Client,
    _hands: Hands,
}

impl Plant {
    pub(crate) async fn on(url: &StoreUrl) -> Self {
        let store = open(url).await;
        let engine = engine_on(&store).start().await.unwrap();
        let client = client_on(&store).await;
        let hands = Hands::on(&client, "quick");
        let plant = Self { store, engine, client, _hands: hands };
        plant.ready().await;
        plant
    }

    /// Submits a chain of three.
    pub(crate) async fn chain(&self) -> selvedge_core::id::FlowId {
        let task = |name: &str| Task::new(name, "ok").lane("quick");
        let flow = Flow::new("chain")
            .task(task("a"))
            .task(task("b").after(["a"]))
            .task(task("c").after(["b"]));
        self.client.submit(flow).await.unwrap().id
    }

    pub(crate) async fn finishes(&self, flow: selvedge_core::id::FlowId) {
        let outcome = self.client.wait_flow_within(flow, SOON).await.unwrap();
        assert_eq!(outcome.count(TerminalOutcome::Success), 3);
    }

    async fn ready(&self) {
        until("ready", SOON, || async { self.engine.health().is_ready() }).await;
    }

    /// It says what is wrong, in the server's words.
    async fn complains_of(&self, words: &str) {
        let complains = || async {
            let why = self.engine.health().why_not_ready();
            why.is_some_and(|why| why.contains(words))
        };
        until(words, SOON, complains).await;
        assert!(self.engine.health().is_live());
    }

    /// It is well again, and works.
    pub(crate) async fn recovers(self) {
        self.ready().await;
        let flow = self.chain().await;
        self.finishes(flow).await;
        self.engine.shutdown(Duration::from_secs(10)).await.unwrap();
        sound(&self.client).await;
    }
}

pub(crate) fn say(server: &Server, words: &[&str]) -> Value {
    let reply = server.connect().unwrap().call(words).unwrap();
    assert!(!matches!(reply, Value::Error(_)), "{words:?}: {reply:?}");
    reply
}

/// A counter of `INFO`, asked over a connection that outlives a change of password.
fn figure(connection: &mut Connection, name: &str) -> u64 {
    let Value::Bulk(text) = connection.call(&["INFO", "all"]).unwrap() else { panic!("no INFO") };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// How many function calls arrive in this time, refused ones included.
async fn calls_within(connection: &mut Connection, time: Duration) -> u64 {
    connection.call(&["CONFIG", "RESETSTAT"]).unwrap();
    tokio::time::sleep(time).await;
    let Value::Bulk(text) = connection.call(&["INFO", "commandstats"]).unwrap() else {
        panic!("no INFO")
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find(|line| line.starts_with("cmdstat_fcall:")).unwrap_or_default();
    let figures = line.split([',', ':']).filter_map(|pair| pair.split_once('='));
    let counts = figures.filter(|(name, _)| ["calls", "rejected_calls"].contains(name));
    counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_flushed_library_is_loaded_again_once() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let plant = Plant::on(&url_of(&server)).await;
        for _ in 0..5 {
            let flow = plant.chain().await;
            say(&server, &["FUNCTION", "FLUSH"]);
            plant.finishes(flow).await;
        }
        // Many callers at once meet the loss; one of them loads.
        let mut connection = server.connect().unwrap();
        say(&server, &["CONFIG", "RESETSTAT"]);
        say(&server, &["FUNCTION", "FLUSH"]);
        let version = selvedge_core::call::library::Version;
        let calls = (0..50).map(|_| plant.store.call(&version));
        for version in futures_util::future::join_all(calls).await {
            assert_eq!(version.unwrap(), "34");
        }
        let Value::Bulk(stats) = connection.call(&["INFO", "commandstats"]).unwrap() else {
            panic!("no INFO")
        };
        let stats = String::from_utf8_lossy(&stats).into_owned();
        assert!(stats.contains("cmdstat_function|load:calls=1,"), "{stats}");
        plant.recovers().await;
    });
}

#[test]
fn a_paused_server_is_waited_for() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let plant = Plant::on(&url_of(&server)).await;
        let flow = plant.chain().await;
        say(&server, &["CLIENT", "PAUSE", "3000", "ALL"]);
        plant.finishes(flow).await;
        plant.recovers().await;
    });
}

#[test]
fn a_wrong_password_is_reported_and_retried_slowly() {
    // The kit asks without a password, so the server gets one afterwards.
    let server = Server::valkey().unwrap();
    block_on(async {
        let mut admin = server.connect().unwrap();
        admin.call(&["CONFIG", "SET", "requirepass", "right"]).unwrap();
        admin.call(&["AUTH", "right"]).unwrap();
        let with = |password: &str| -> StoreUrl {
            format!("valkey://:{password}@127.0.0.1:{}", server.port()).parse().unwrap()
        };
        let refused = Store::open(&with("wrong"), StoreOptions::default()).await;
        let Err(StoreError::Server(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.class, Class::Denied);
        assert!(error.text.starts_with("WRONGPASS"), "{error}");
        let bare = Store::open(&url_of(&server), StoreOptions::default()).await.unwrap_err();
        assert!(bare.to_string().starts_with("NOAUTH"), "{bare}");

        let plant = Plant::on(&with("right")).await;
        let flow = plant.chain().await;
        plant.finishes(flow).await;
        admin.call(&["CONFIG", "SET", "requirepass", "changed"]).unwrap();
        admin.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        admin.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
        plant.complains_of("WRONGPASS").await;
        let before = figure(&mut admin, "total_connections_received");
        tokio::time::sleep(Duration::from_secs(3)).await;
        let tried = figure(&mut admin, "total_connections_received") - before;
        assert!(tried < 40, "{tried} connections in 3 s");
        admin.call(&["CONFIG", "SET", "requirepass", "right"]).unwrap();
        plant.recovers().await;
    });
}

#[test]
fn a_server_out_of_memory_is_reported_and_retried_slowly() {
    let server =
        Server::start(Kind::Valkey, Options::default().line("maxmemory-policy noeviction"))
            .unwrap();
    block_on(async {
        let plant = Plant::on(&url_of(&server)).await;
        let mut admin = server.connect().unwrap();
        let well = calls_within(&mut admin, Duration::from_secs(3)).await;
        let flow = plant.chain().await;
        say(&server, &["CONFIG", "SET", "maxmemory", "1"]);
        plant.complains_of("OOM").await;
        let full = calls_within(&mut admin, Duration::from_secs(3)).await;
        assert!(full < NOT_HOT.max(well * 2), "{full} calls in 3 s, and {well} when all is well");
        say(&server, &["CONFIG", "SET", "maxmemory", "0"]);
        plant.finishes(flow).await;
        plant.recovers().await;
    });
}

#[test]
fn a_replica_is_reported_and_its_promotion_noticed() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let plant = Plant::on(&url_of(&server)).await;
        // A primary that nobody can reach: the data stays, and cannot be written. It is noticed
        // while there is nothing to do, too.
        say(&server, &["REPLICAOF", "127.0.0.1", "1"]);
        plant.complains_of("READONLY").await;
        say(&server, &["REPLICAOF", "NO", "ONE"]);
        plant.ready().await;
        let mut admin = server.connect().unwrap();
        let well = calls_within(&mut admin, Duration::from_secs(3)).await;
        let flow = plant.chain().await;
        say(&server, &["REPLICAOF", "127.0.0.1", "1"]);
        plant.complains_of("READONLY").await;
        let refused = calls_within(&mut admin, Duration::from_secs(3)).await;
        assert!(
            refused < NOT_HOT.max(well * 2),
            "{refused} calls in 3 s, and {well} when all is well"
        );
        say(&server, &["REPLICAOF", "NO", "ONE"]);
        plant.finishes(flow).await;
        plant.recovers().await;
    });
}

#[test]
fn a_cluster_fails_over_by_order_and_by_force() {
    let mut cluster = Cluster::with_replicas(3, 1).unwrap();
    let url = url_of_cluster(&cluster);
    block_on(async {
        let plant = Plant::on(&url).await;
        let mut flows = Vec::new();
        for _ in 0..10 {
            flows.push(plant.chain().await);
        }
        say(&cluster.replicas()[0], &["CLUSTER", "FAILOVER"]);
        for _ in 0..10 {
            flows.push(plant.chain().await);
        }
        for flow in flows.drain(..) {
            plant.finishes(flow).await;
        }
        // Everything is answered and at rest, so that the replica has it when its primary dies.
        let copied = || say(&cluster.primaries()[1], &["WAIT", "1", "1000"]) == Value::Int(1);
        until("it is copied", SOON, || async { copied() }).await;
        cluster.nodes_mut().nth(1).unwrap().kill_9().unwrap();
        plant.ready().await;
        plant.recovers().await;
    });
}

#[test]
fn a_demoted_server_without_library_is_replaced_by_the_new_primary() {
    let cluster = Cluster::with_replicas(3, 1).unwrap();
    let url = url_of_cluster(&cluster);
    block_on(async {
        let store = open(&url).await;
        let (old, heir) = (&cluster.primaries()[0], &cluster.replicas()[0]);
        say(heir, &["CLUSTER", "FAILOVER"]);
        let follower = Value::Bulk(b"slave".to_vec());
        let demoted = || matches!(say(old, &["ROLE"]), Value::Array(told) if told[0] == follower);
        until("demoted", SOON, || async { demoted() }).await;
        say(heir, &["FUNCTION", "FLUSH"]);
        let lacks_it = || say(old, &["FUNCTION", "LIST"]) == Value::Array(Vec::new());
        until("flushed", SOON, || async { lacks_it() }).await;
        // It is connected to anew, would need the library first, and may not be given it.
        say(old, &["CLIENT", "KILL", "TYPE", "normal"]);
        let time = store.server_time().await;
        assert!(time.is_ok(), "{time:?}");
    });
}
