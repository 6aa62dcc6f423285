//! Every store answers alike.

use std::time::Duration;

use selvedge::store::{Push, Store, StoreError, StoreOptions, StoreUrl};
use selvedge_core::call::library::Version;
use selvedge_core::command::{Answer, Command};
use selvedge_core::partition;
use selvedge_core::value::Value;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::proxy::Proxy;
use selvedge_tests::server::Server;
use selvedge_tests::shared_servers::{shared_redis, shared_valkey};

use crate::kit::{PATIENCE as SOON, block_on, open, url_of, url_of_cluster};
use crate::server_faults::say;

fn command(words: &[&str]) -> Command {
    Command {
        slot: words.get(1).map_or(0, |key| partition::slot(key.as_bytes())),
        argv: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        reads: false,
    }
}

/// What is published until it arrives.
const WARM: &str = "warm";

/// Commands of many slots come back in order; pushes arrive; errors keep the server's words.
pub(crate) async fn behaves(store: &Store) {
    assert_eq!(store.call(&Version).await.unwrap(), "34");
    let keys: Vec<String> = (0..50).map(|n| format!("store-test:{n}")).collect();
    let mut batch: Vec<Command> = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        batch.push(command(&["SET", key, &n.to_string()]));
        batch.push(command(&["GET", key]));
    }
    batch.push(command(&["SADD", &keys[0], "x"]));
    let answers = store.run(batch, Duration::from_secs(5)).await;
    for (n, pair) in answers[..100].chunks(2).enumerate() {
        assert_eq!(pair[0], Answer::Applied(Value::Status("OK".into())));
        assert_eq!(pair[1], Answer::Applied(Value::Bulk(n.to_string().into_bytes())));
    }
    let Answer::Applied(Value::Error(text)) = &answers[100] else { panic!("{:?}", answers[100]) };
    assert!(text.starts_with("WRONGTYPE Operation against"), "{text}");

    let mut subscription = store.subscribe(&["store-test:here"]);
    assert_eq!(subscription.next().await, Push::Gap);
    // Between the nodes of a young cluster the first messages may be lost.
    let warm = || command(&["PUBLISH", "store-test:here", WARM]);
    let mut last = None;
    while last.is_none() {
        store.command(warm()).await.unwrap();
        last = tokio::time::timeout(Duration::from_millis(500), subscription.next()).await.ok();
    }
    for (channel, payload) in [("elsewhere", "1"), ("here", "2"), ("here", "\u{0}\n")] {
        let publish = command(&["PUBLISH", &format!("store-test:{channel}"), payload]);
        store.command(publish).await.unwrap();
    }
    for payload in ["2", "\u{0}\n"] {
        let channel = "store-test:here".to_owned();
        let payload = payload.as_bytes().to_vec();
        let warm = Push::Message { channel: channel.clone(), payload: WARM.into() };
        let mut next = subscription.next().await;
        while next == warm {
            next = subscription.next().await;
        }
        assert_eq!(next, Push::Message { channel, payload });
    }
    assert!(store.server_time().await.unwrap().0 > 1_600_000_000_000);
    assert!(store.connection_error().is_none());
}

#[test]
fn the_store_in_memory_behaves() {
    block_on(async { behaves(&open(&StoreUrl::memory()).await).await });
}

#[test]
fn a_valkey_behaves() {
    block_on(async { behaves(&open(&url_of(shared_valkey())).await).await });
}

#[test]
fn a_redis_behaves() {
    block_on(async { behaves(&open(&url_of(shared_redis())).await).await });
}

#[test]
fn a_cluster_is_told_apart_from_a_single_server() {
    let cluster = Cluster::start(3).unwrap();
    block_on(async {
        let store = open(&url_of_cluster(&cluster)).await;
        behaves(&store).await;
        assert_eq!(store.servers().len(), 3);
        let one = Store::open(&url_of(&cluster.primaries()[0]), StoreOptions::default()).await;
        assert!(matches!(one, Err(StoreError::IsCluster(_))), "{one:?}");
    });
}

/// A reply that is lost with its connection: a read is repeated, a write is perhaps applied and is
/// never sent again.
#[test]
fn a_write_whose_reply_was_lost_is_not_repeated() {
    let server = Server::valkey().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let url: StoreUrl = format!("valkey://127.0.0.1:{}", proxy.port()).parse().unwrap();
    block_on(async {
        let store = open(&url).await;
        proxy.lose_replies("counted-once", 1);
        let answers = store.run(vec![command(&["INCR", "counted-once"])], SOON).await;
        assert!(matches!(answers[..], [Answer::PerhapsApplied(_)]), "{answers:?}");
        proxy.lose_replies("counted-once", 1);
        let read = Command { reads: true, ..command(&["GET", "counted-once"]) };
        let answers = store.run(vec![read], SOON).await;
        assert_eq!(answers, [Answer::Applied(Value::Bulk(b"1".to_vec()))]);
        assert_eq!(proxy.lost_replies(), 2);
    });
}

/// Whoever reads a subscription learns of every interruption: what was published meanwhile is lost.
#[test]
fn a_subscription_tells_of_every_lost_connection() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let store = open(&url_of(&server)).await;
        let mut subscription = store.subscribe(&["news"]);
        assert_eq!(subscription.next().await, Push::Gap);
        for _ in 0..2 {
            say(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
            let next = tokio::time::timeout(SOON, subscription.next()).await;
            assert_eq!(next.ok(), Some(Push::Gap));
            say(&server, &["PUBLISH", "news", "text"]);
            assert!(matches!(subscription.next().await, Push::Message { .. }));
        }
    });
}

#[test]
fn an_unreachable_server_is_reported() {
    let url: StoreUrl = "valkey://127.0.0.1:1".parse().unwrap();
    let error = block_on(Store::open(&url, StoreOptions::default())).unwrap_err().to_string();
    assert!(error.contains("cannot reach 127.0.0.1:1"), "{error}");
}
