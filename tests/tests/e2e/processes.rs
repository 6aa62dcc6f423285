//! A worker as the server and the operating system see it: what it costs while it has nothing to
//! do, what a lost reply does to it, and what becomes of its work when its process is killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use selvedge::client::{PublicState, Task};
use selvedge::engine::Engine;
use selvedge::secret::SecretSource;
use selvedge::worker::{Context, Failed, Worker};
use selvedge_core::engine::EngineConfig;
use selvedge_tests::server::Server;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;
use crate::world::{COUNTS, Fault, PATIENCE, World};

/// Names the server that the child process works for.
const CHILD_WORKS_FOR: &str = "SELVEDGE_E2E_CHILD_WORKS_FOR";
const LEASE: Duration = Duration::from_secs(2);

/// Not a test of its own: the process that the next one kills.
#[test]
fn child_process() {
    let Ok(url) = env::var(CHILD_WORKS_FOR) else { return };
    Runtime::new().unwrap().block_on(async {
        let world = World::open(&url).await.unwrap();
        let worker = Worker::builder(world.client).lane("killed").lease(LEASE);
        let worker =
            worker.handler("hang", |_: Context| std::future::pending::<Result<(), Failed>>());
        worker.run_until(CancellationToken::new()).await.unwrap();
    });
}

#[test]
fn the_work_of_a_killed_process_runs_elsewhere_within_its_lease_and_two_seconds() {
    let server = Server::valkey().unwrap();
    let url = url_of(&server);
    Runtime::new().unwrap().block_on(async {
        let world = World::open(&url).await.unwrap();
        // As an operator starts it, with the intervals of the contract.
        let engine = Engine::builder(world.client.store().clone())
            .config(EngineConfig { partitions: COUNTS, ..EngineConfig::default() })
            .lanes(["killed".parse().unwrap()])
            .secrets(SecretSource::Generate);
        let engine = engine.start().await.unwrap();
        let mut child = child(&url);
        let id = world.client.start(Task::new("x", "hang").lane("killed")).await.unwrap();
        world.until_running(&id).await.unwrap();
        let first = world.client.execution(&id).await.unwrap().worker;
        let heir = world.worker("killed").handler("hang", |context: Context| async move {
            context.cancelled().cancelled().await;
            Ok::<_, Failed>(())
        });
        let heir = world.serve(heir);
        // The lease was just renewed, or is about to be: the worst case is a whole one.
        tokio::time::sleep(Duration::from_millis(300)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        world
            .until(&id, |found| found.state == PublicState::Active && found.worker != first)
            .await
            .unwrap();
        let took = killed.elapsed();
        assert!(took <= LEASE + Duration::from_secs(2), "it took {took:?}");
        assert!(took >= LEASE / 3, "it took {took:?}: the lease was not respected");
        world.client.cancel(&id, "seen").await.unwrap();
        heir.stop().await.unwrap();
        engine.shutdown(Duration::from_secs(5)).await.unwrap();
    });
}

fn child(url: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "processes::child_process", "--nocapture"])
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
        let world = World::open(&url_of(&server)).await.unwrap();
        let worker = world.worker("idle").lease(Duration::from_secs(30));
        let worker =
            world.serve(worker.handler("noop", |_: Context| async { Ok::<_, Failed>(()) }));
        let task = || Task::new("x", "noop").lane("idle");
        let id = world.client.start(task()).await.unwrap();
        world.client.wait_within(&id, PATIENCE).await.unwrap();
        // The first look at all partitions is over when it works; let its pushes settle too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let port = server.port();
        let idle = 10;
        let commands = tokio::task::spawn_blocking(move || monitor(port, idle)).await.unwrap();
        let commands = commands.unwrap();
        let most = usize::try_from(idle * 2).unwrap();
        assert!(commands.len() <= most, "{} commands: {commands:#?}", commands.len());
        // And when there is work, one call claims it; one more round trip finds nothing left, with
        // two calls, because the first had luck. The slow round adds one a second.
        let watching = tokio::task::spawn_blocking(move || monitor(port, 4));
        tokio::time::sleep(Duration::from_millis(300)).await;
        for _ in 0..10 {
            let id = world.client.start(task()).await.unwrap();
            world.client.wait_within(&id, PATIENCE).await.unwrap();
        }
        let commands = watching.await.unwrap().unwrap();
        let claims = commands.iter().filter(|line| line.contains("ff_claim_next")).count();
        assert!((10..=36).contains(&claims), "{claims} claims for 10 executions");
        worker.stop().await.unwrap();
    });
}

/// What clients send to the server within so many seconds; what scripts do is left out.
fn monitor(port: u16, seconds: u64) -> std::io::Result<Vec<String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"MONITOR\r\n")?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut lines = BufReader::new(stream);
    let (began, mut seen, mut line) = (Instant::now(), Vec::new(), String::new());
    while began.elapsed() < Duration::from_secs(seconds) {
        match lines.read_line(&mut line) {
            Ok(_) => {
                if line.contains('"') && !line.contains(" lua]") {
                    seen.push(line.trim().to_owned());
                }
                line.clear();
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

#[test]
fn lost_replies_neither_lose_nor_double_work() {
    lose_replies(16);
}

#[test]
fn a_worker_whose_every_hand_waits_for_a_lost_reply_goes_on() {
    lose_replies(1);
}

/// Replies to claims and to completions are swallowed; everything runs once all the same.
fn lose_replies(hands: usize) {
    let server = Server::valkey().unwrap();
    Runtime::new().unwrap().block_on(async {
        let proxy = Proxy::start(server.port()).unwrap();
        let far = World::open(&format!("valkey://127.0.0.1:{}", proxy.port())).await.unwrap();
        let near = World::open(&url_of(&server)).await.unwrap();
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
        for (round, function) in ["ff_claim_next", "ff_complete_execution"].into_iter().enumerate()
        {
            let before = proxy.swallowed();
            proxy.swallow_next(function);
            let outcome = one(&near, round).await.unwrap();
            assert_eq!(outcome, b"done", "{function}");
            // The other way is faster than the one on which the reply is lost.
            let lost =
                near.eventually("a reply was lost", async || Ok(proxy.swallowed() == before + 1));
            lost.await.unwrap_or_else(|fault| panic!("{function}: {fault}"));
        }
        assert_eq!(runs.load(Ordering::SeqCst), 3, "each ran once");
        worker.stop().await.unwrap();
    });
}

async fn one(world: &World, round: usize) -> Result<Vec<u8>, Fault> {
    let id = world.client.start(Task::new(format!("x{round}"), "once").lane("far")).await?;
    let ended = world.client.wait_within(&id, PATIENCE).await?;
    let found = world.client.execution(&id).await?;
    if found.retries + found.reclaims > 0 {
        return Err(format!("it was tried again: {found:?}").into());
    }
    Ok(ended.result)
}

fn url_of(server: &Server) -> String {
    format!("valkey://127.0.0.1:{}", server.port())
}
