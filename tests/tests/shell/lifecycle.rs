//! An engine from start to stop.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge::client::{Client, Task};
use selvedge::deployment::DeploymentError;
use selvedge::engine::{Engine, Phase};
use selvedge::secret::{self, SecretError, SecretSource};
use selvedge::store::StoreUrl;
use selvedge_cli::daemon::serve;
use selvedge_cli::settings::Settings;
use selvedge_core::engine::Observation;
use selvedge_core::partition::PartitionCounts;
use selvedge_tests::server::Server;
use tokio_util::sync::CancellationToken;

use crate::kit::{
    COUNTS, EngineProcess, Hands, PATIENCE as SOON, block_on, brisk, client_on, engine_on, open,
    until, url_of,
};

#[test]
fn different_partition_counts_are_refused_and_both_shown() {
    let server = Server::valkey().unwrap();
    block_on(async {
        for url in [StoreUrl::memory(), url_of(&server)] {
            let store = open(&url).await;
            engine_on(&store).start().await.unwrap().shutdown(SOON).await.unwrap();
            let counts = PartitionCounts { flow: NonZeroU16::new(16).unwrap(), ..COUNTS };
            let config = brisk().with_partitions(counts);
            let refused = Engine::builder(store.clone()).config(config).start().await.err();
            let Some(error @ DeploymentError::Counts { .. }) = refused else {
                panic!("{refused:?}")
            };
            let text = error.to_string();
            assert!(text.contains("8 flow") && text.contains("16 flow"), "{text}");
            assert!(!error.is_retryable());
            assert_eq!(selvedge::deployment::counts(&store).await.unwrap(), Some(COUNTS));
            let client = Client::builder(store.clone()).partitions(counts).build().await;
            let text = client.unwrap_err().to_string();
            assert!(text.contains("8 flow") && text.contains("16 flow"), "{text}");
        }
    });
}

#[test]
fn the_first_client_stores_the_partition_counts_before_it_submits() {
    let server = Server::valkey().unwrap();
    block_on(async {
        for url in [StoreUrl::memory(), url_of(&server)] {
            let store = open(&url).await;
            let first = client_on(&store).await;
            let other = Client::builder(store.clone()).build().await.unwrap();
            let counts = selvedge::deployment::counts(&store).await.unwrap();
            assert_eq!(counts, None, "looking changes nothing");
            first.start(Task::new("t", "ok").lane("early")).await.unwrap();
            assert_eq!(selvedge::deployment::counts(&store).await.unwrap(), Some(COUNTS));
            // It assumed the default before anybody had written anything, and must not go on so.
            let error = other.start(Task::new("t", "ok").lane("early")).await.unwrap_err();
            assert_eq!(error.code(), "other_deployment");
            let text = error.to_string();
            assert!(text.contains("8 flow") && text.contains("256 flow"), "{text}");
            engine_on(&store).start().await.unwrap().shutdown(SOON).await.unwrap();
        }
    });
}

#[test]
fn secrets_are_installed_once_kept_and_rotated_under_grace() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let store = open(&url_of(&server)).await;
        let builder = Engine::builder(store.clone()).config(brisk()).secrets(SecretSource::Stored);
        let bare = builder.start().await.err();
        assert!(
            matches!(bare, Some(DeploymentError::Secret(SecretError::Missing { partitions: 8 }))),
            "{bare:?}"
        );
        let given = secret::parse(&"ab".repeat(32)).unwrap();
        for source in [
            SecretSource::Given(given.clone()),
            SecretSource::Given(secret::parse(&"cd".repeat(32)).unwrap()),
            SecretSource::Stored,
        ] {
            secret::install(&store, COUNTS, &source).await.unwrap();
        }
        let grace = Duration::from_secs(60);
        let before = store.server_time().await.unwrap().0;
        let rotated = secret::rotate(&store, COUNTS, &secret::generate(), grace).await.unwrap();
        assert_eq!((rotated.kid.as_str(), rotated.partitions), ("k2", 8));
        let after = store.server_time().await.unwrap().0;
        for (partition, kids) in secret::list(&store, COUNTS).await.unwrap() {
            assert_eq!(kids.current.as_deref(), Some("k2"), "{partition}");
            let [(former, until)] = &kids.verifying[..] else { panic!("{kids:?}") };
            assert_eq!(former, "k1");
            assert!((before..=after).contains(&(until.0 - 60_000)), "{kids:?}");
        }
        // The first secret is still the first one given: nobody replaced it by starting.
        let mut connection = server.connect().unwrap();
        let stored = connection.call(&["HGET", "ff:sec:{fp:3}:waitpoint_hmac", "secret:k1"]);
        assert_eq!(
            stored.unwrap(),
            selvedge_core::value::Value::Bulk(given.expose().as_bytes().to_vec())
        );
    });
}

#[test]
fn an_engine_that_panics_restarts_and_reports_it() {
    block_on(async {
        let store = open(&StoreUrl::memory()).await;
        let bomb = Arc::new(AtomicBool::new(true));
        let armed = bomb.clone();
        let engine = engine_on(&store)
            .tap(move |fact| {
                if matches!(fact, Observation::CycleDone { .. }) {
                    assert!(!armed.swap(false, Ordering::SeqCst), "planted");
                }
            })
            .start()
            .await
            .unwrap();
        until("a restart", SOON, || async { engine.health().restarts == 1 }).await;
        until("it runs", SOON, || async { engine.health().is_ready() }).await;
        let client = client_on(&store).await;
        let _hands = Hands::on(&client, "late");
        let task = client
            .start(Task::new("t", "ok").lane("late").delay(Duration::from_millis(50)))
            .await
            .unwrap();
        assert!(client.wait_within(&task, SOON).await.unwrap().is_success());
        let probe = engine.probe();
        engine.shutdown(SOON).await.unwrap();
        assert_eq!(probe.health().phase, Phase::Stopped);
        assert!(!probe.health().is_live());
    });
}

#[test]
fn a_new_lane_needs_no_restart() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let store = open(&url_of(&server)).await;
        let engine = engine_on(&store).start().await.unwrap();
        let client = client_on(&store).await;
        let _hands = Hands::on(&client, "brand-new");
        let later = Task::new("t", "ok").lane("brand-new").delay(Duration::from_millis(500));
        let task = client.start(later).await.unwrap();
        server.connect().unwrap().call(&["SADD", "ff:idx:lanes", "brand-new"]).unwrap();
        assert!(client.wait_within(&task, SOON).await.unwrap().is_success());
        engine.shutdown(SOON).await.unwrap();
    });
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    let body = reply.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (status, body)
}

#[test]
fn a_daemon_waits_for_its_store_and_serves_metrics_and_health() {
    let mut server = Server::valkey().unwrap();
    let url = url_of(&server).to_string();
    server.kill_9().unwrap();
    let daemon = EngineProcess::start(&url, &[]);
    assert_eq!(get(daemon.address, "/livez").0, 200);
    let wait = selvedge_tests::wait::Wait::at_most(SOON);
    let why = wait.until(|| {
        let (status, body) = get(daemon.address, "/readyz");
        assert_eq!(status, 503, "{body}");
        body.contains("cannot reach").then_some(body)
    });
    assert!(why.is_some(), "it says what is wrong");
    server.restart().unwrap();
    let ready = selvedge_tests::wait::Wait::at_most(SOON).until(|| {
        let (status, body) = get(daemon.address, "/readyz");
        (status == 200).then_some(body)
    });
    assert!(ready.is_some(), "{:?}", get(daemon.address, "/readyz"));
    let metrics = selvedge_tests::wait::Wait::at_most(SOON).until(|| {
        let (_, body) = get(daemon.address, "/metrics");
        let wanted = [
            "ff_scanner_cycle_total{otel_scope_name=\"ff\",scanner=\"lease_expiry\"}",
            "ff_scanner_cycle_duration_seconds_bucket",
            "selvedge_queue_depth{",
            "selvedge_oldest_waiting_seconds{",
            "selvedge_convergence_lag_seconds",
            "selvedge_scanner_lag_seconds{",
            "selvedge_blocked{",
            "selvedge_in_flight{",
            "selvedge_ready",
        ];
        wanted.iter().all(|name| body.contains(name)).then_some(body)
    });
    assert!(metrics.is_some(), "{}", get(daemon.address, "/metrics").1);
    assert_eq!(get(daemon.address, "/elsewhere").0, 404);
}

#[test]
fn a_daemon_exits_at_once_on_a_permanent_error() {
    let server = Server::valkey().unwrap();
    block_on(async {
        let store = open(&url_of(&server)).await;
        engine_on(&store).start().await.unwrap().shutdown(SOON).await.unwrap();
        let url = url_of(&server).to_string();
        let settings = Settings::read(|name| match name {
            "SELVEDGE_URL" => Some(url.clone()),
            "SELVEDGE_LISTEN" => Some("127.0.0.1:0".to_owned()),
            "FF_FLOW_PARTITIONS" => Some("7".to_owned()),
            _ => None,
        })
        .unwrap();
        let ended = tokio::time::timeout(SOON, serve(settings, CancellationToken::new(), |_| {}));
        let error = ended.await.expect("it ends at once").unwrap_err().to_string();
        assert!(error.contains("8 flow") && error.contains("7 flow"), "{error}");
    });
}
