//! Workers as processes: their cost while idle, what a lost reply does, and what happens to their
//! work when they are killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use selvedge::client::{Client, PublicState, Task};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::worker::{Context, Done, Failed, Suspend, TimeoutBehavior, Worker};
use selvedge_core::engine::EngineConfig;
use selvedge_tests::server::Server;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fixture::{COUNTS, Fault, Fixture, PATIENCE};
use selvedge_tests::proxy::Proxy;

/// Names the server that the child process works for.
const CHILD_WORKS_FOR: &str = "SELVEDGE_E2E_CHILD_WORKS_FOR";
const LEASE: Duration = Duration::from_secs(2);
const PROMISED: Duration = Duration::from_secs(4);
/// A busy machine may be late once; an engine that is late is so every time.
const TRIES: usize = 3;

/// Not a test of its own: the process that the next one kills.
#[test]
fn child_process() {
    let Ok(url) = env::var(CHILD_WORKS_FOR) else { return };
    Runtime::new().unwrap().block_on(async {
        let fixture = Fixture::open(&url).await.unwrap();
        let worker = Worker::builder(fixture.client).lane("killed").lease(LEASE);
        let worker =
            worker.handler("hang", |_: Context| std::future::pending::<Result<(), Failed>>());
        worker.run_until(std::future::pending()).await.unwrap();
    });
}

#[test]
fn the_work_of_a_killed_process_runs_elsewhere_within_its_lease_and_two_seconds() {
    let server = Server::valkey().unwrap();
    let url = url_of(&server);
    Runtime::new().unwrap().block_on(async {
        let fixture = Fixture::open(&url).await.unwrap();
        // As an operator starts it, with the intervals of the contract.
        let engine = Engine::builder(fixture.client.store().clone())
            .config(EngineConfig::default().with_partitions(COUNTS))
            .lanes(["killed".parse().unwrap()])
            .secrets(SecretSource::Generate);
        let engine = engine.start().await.unwrap();
        let mut took = Duration::MAX;
        for _ in 0..TRIES {
            took = took.min(killed_to_running(&fixture, &url).await);
            if took <= PROMISED {
                break;
            }
        }
        assert!(took <= PROMISED, "it took {took:?}");
        assert!(took >= LEASE / 3, "it took {took:?}: the lease was not respected");
        engine.shutdown(Duration::from_secs(5)).await.unwrap();
    });
}

/// Kills a worker process in the middle of its work; how long that work takes to run elsewhere.
async fn killed_to_running(fixture: &Fixture, url: &str) -> Duration {
    let mut child = child(url);
    let id = fixture.client.start(Task::new("x", "hang").lane("killed")).await.unwrap();
    fixture.until_running(&id).await.unwrap();
    let first = fixture.client.execution(&id).await.unwrap().worker;
    let successor = fixture.worker("killed").handler("hang", |context: Context| async move {
        context.cancelled().await;
        Ok::<_, Failed>(())
    });
    let successor = fixture.serve(successor);
    // The lease was just renewed, or is about to be: the worst case is a whole one.
    tokio::time::sleep(Duration::from_millis(300)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    fixture
        .until(&id, |found| found.state == Some(PublicState::Active) && found.worker != first)
        .await
        .unwrap();
    let took = killed.elapsed();
    fixture.client.cancel(&id, "seen").await.unwrap();
    successor.stop().await.unwrap();
    took
}

fn child(url: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "worker_processes::child_process", "--nocapture"])
        .env(CHILD_WORKS_FOR, url)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn an_idle_worker_costs_two_commands_a_second_at_most() {
    let server = Server::valkey().unwrap();
    Runtime::new().unwrap().block_on(async {
        let fixture = Fixture::open(&url_of(&server)).await.unwrap();
        let worker = fixture.worker("idle").lease(Duration::from_secs(30));
        let worker =
            fixture.serve(worker.handler("noop", |_: Context| async { Ok::<_, Failed>(()) }));
        let task = || Task::new("x", "noop").lane("idle");
        let id = fixture.client.start(task()).await.unwrap();
        fixture.client.wait_within(&id, PATIENCE).await.unwrap();
        // The first look at all partitions is over when it works; let its pushes settle too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let idle = 10;
        let watch = Watch::start(&server);
        tokio::time::sleep(Duration::from_secs(idle)).await;
        let commands = watch.finish(&server);
        let most = usize::try_from(idle * 2).unwrap();
        assert!(commands.len() <= most, "{} commands: {commands:#?}", commands.len());
        // And when there is work, one call claims it, and one more finds nothing left. The slow
        // round adds one a second.
        let (watch, began) = (Watch::start(&server), Instant::now());
        for _ in 0..10 {
            let id = fixture.client.start(task()).await.unwrap();
            fixture.client.wait_within(&id, PATIENCE).await.unwrap();
        }
        let claims = count(&watch.finish(&server), "ff_claim_many");
        let most = 20 + 1 + usize::try_from(began.elapsed().as_secs()).unwrap();
        assert!((10..=most).contains(&claims), "{claims} claims for 10 executions");
        worker.stop().await.unwrap();
    });
}

#[test]
fn a_worker_finds_waiting_work_with_one_read_of_all_partitions() {
    let server = Server::valkey().unwrap();
    Runtime::new().unwrap().block_on(async {
        // As a user starts it: 256 partitions. With one hand, it can claim one thing at a time.
        let client = Client::connect(&url_of(&server)).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(client.start(Task::new("x", "noop").lane("wide")).await.unwrap());
        }
        let (watch, began, stop) =
            (Watch::start(&server), Instant::now(), CancellationToken::new());
        let worker = Worker::builder(client.clone())
            .lane("wide")
            .lease(PATIENCE)
            .concurrency(1)
            .handler("noop", |_: Context| async { Ok::<_, Failed>(()) });
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        for id in &waiting {
            client.wait_within(id, PATIENCE).await.unwrap();
        }
        let commands = watch.finish(&server);
        assert_eq!(count(&commands, "ZCARD"), 256, "one look at each partition");
        // The reports of the ends claim what is left; the slow round adds one a second.
        assert_eq!(count(&commands, "ff_end_and_claim"), 3);
        let claims = count(&commands, "ff_claim_many");
        let most = 3 + 1 + usize::try_from(began.elapsed().as_secs()).unwrap();
        assert!((1..=most).contains(&claims), "{claims} claims for 3 executions");
        stop.cancel();
        worker.await.unwrap().unwrap();
    });
}

/// Listens to what clients send to a server; what scripts do is left out.
struct Watch(JoinHandle<std::io::Result<Vec<String>>>);

/// The word that ends it.
const LAST_WORD: &str = "that was all";

impl Watch {
    fn start(server: &Server) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        // The server listens from its answer on.
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        Self(std::thread::spawn(move || {
            let mut seen = Vec::new();
            for line in lines.lines() {
                let line = line?;
                if line.contains(LAST_WORD) {
                    break;
                }
                if !line.contains(" lua]") {
                    seen.push(line);
                }
            }
            Ok(seen)
        }))
    }

    fn finish(self, server: &Server) -> Vec<String> {
        server.connect().unwrap().call(&["ECHO", LAST_WORD]).unwrap();
        self.0.join().unwrap().unwrap()
    }
}

fn count(commands: &[String], word: &str) -> usize {
    commands.iter().filter(|line| line.contains(&format!("\"{word}\""))).count()
}

#[test]
fn lost_replies_neither_lose_nor_double_work() {
    lose_replies(16);
}

#[test]
fn a_worker_recovers_when_all_its_claims_lose_their_replies() {
    lose_replies(1);
}

/// Replies to claims and to completions are swallowed; everything runs once all the same.
fn lose_replies(hands: usize) {
    let server = Server::valkey().unwrap();
    Runtime::new().unwrap().block_on(async {
        let proxy = Proxy::start(server.port()).unwrap();
        let far = Fixture::open(&format!("valkey://127.0.0.1:{}", proxy.port())).await.unwrap();
        let near = Fixture::open(&url_of(&server)).await.unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        let count = runs.clone();
        // No slow round: the only claims are those that a push asked for.
        let worker = far.worker("far").lease(Duration::from_secs(30)).poll_every(PATIENCE);
        let worker = worker.concurrency(hands).handler("once", move |_: Context| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Failed>("done") }
        });
        let worker = far.serve(worker);
        one(&near, 9).await.unwrap();
        for (round, function) in ["ff_claim_many", "ff_end_and_claim"].into_iter().enumerate() {
            let before = proxy.lost_replies();
            proxy.lose_replies(function, 1);
            let outcome = one(&near, round).await.unwrap();
            assert_eq!(outcome, b"done", "{function}");
            // The other way is faster than the one on which the reply is lost.
            let lost = near
                .eventually("a reply was lost", async || Ok(proxy.lost_replies() == before + 1));
            lost.await.unwrap_or_else(|fault| panic!("{function}: {fault}"));
        }
        assert_eq!(runs.load(Ordering::SeqCst), 3, "each ran once");
        worker.stop().await.unwrap();
    });
}

/// A wait that ends at a time begins with a question for the time.
#[test]
fn a_handler_suspends_although_the_first_time_requests_fail() {
    let server = Server::valkey().unwrap();
    Runtime::new().unwrap().block_on(async {
        let proxy = Arc::new(Proxy::start(server.port()).unwrap());
        let far = Fixture::open(&format!("valkey://127.0.0.1:{}", proxy.port())).await.unwrap();
        let near = Fixture::open(&url_of(&server)).await.unwrap();
        let engine = near.engine().await.unwrap();
        let swallows = proxy.clone();
        let worker = far.worker("far").handler("once", move |context: Context| {
            let proxy = swallows.clone();
            async move {
                if context.is_resumed() {
                    return Ok::<_, Failed>(Done::from("done"));
                }
                // Once more than a store asks by itself.
                proxy.lose_replies("$4\r\nTIME\r\n", 3);
                let moment = Duration::from_millis(100);
                let wait =
                    Suspend::for_signal("never").timeout_then(moment, TimeoutBehavior::AutoResume);
                context.suspend(wait).await?;
                Ok(Done::Suspended)
            }
        });
        let worker = far.serve(worker);
        assert_eq!(one(&near, 0).await.unwrap(), b"done");
        assert_eq!(proxy.lost_replies(), 3, "the time was told too soon");
        worker.stop().await.unwrap();
        engine.stop().await.unwrap();
    });
}

async fn one(fixture: &Fixture, round: usize) -> Result<Vec<u8>, Fault> {
    let id = fixture.client.start(Task::new(format!("x{round}"), "once").lane("far")).await?;
    let ended = fixture.client.wait_within(&id, PATIENCE).await?;
    let found = fixture.client.execution(&id).await?;
    if found.retries + found.reclaims > 0 {
        return Err(format!("it was tried again: {found:?}").into());
    }
    Ok(ended.result)
}

fn url_of(server: &Server) -> String {
    format!("valkey://127.0.0.1:{}", server.port())
}
