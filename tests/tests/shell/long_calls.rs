//! No call holds the server for long, however large the flow is that it is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::client::{Client, Flow, Task};
use selvedge_core::value::Value;
use selvedge_tests::connection::Connection;
use selvedge_tests::server::Server;

/// What one submission did to others, in the best of some tries: on a busy machine a call may be
/// interrupted, but not each time.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The longest call, by the server's own clock.
    call: Duration,
    /// The longest answer to a ping from another connection.
    ping: Duration,
}

const TRIES: usize = 4;
/// On a quiet machine none takes a tenth of this; a call that does everything at once takes more.
const MOST: Duration = Duration::from_millis(100);

#[test]
fn a_flow_of_ten_thousand_tasks_holds_nobody_up() {
    let flow = || (0..10_000).fold(Flow::new("large"), |flow, at| flow.task(task(at)));
    judge("10,000 tasks", flow);
}

#[test]
fn a_join_of_five_thousand_edges_holds_nobody_up() {
    let flow = || {
        let join = Task::new("join", "work").after((0..5_000).map(name));
        (0..5_000).fold(Flow::new("wide"), |flow, at| flow.task(task(at))).task(join)
    };
    judge("5,000 into 1", flow);
}

fn name(at: usize) -> String {
    format!("task-{at}")
}

fn task(at: usize) -> Task {
    Task::new(name(at), "work")
}

fn judge(what: &str, flow: impl Fn() -> Flow) {
    let mut best: Option<Held> = None;
    for _ in 0..TRIES {
        let held = submit(flow());
        println!("{what}: longest call {:?}, longest ping {:?}", held.call, held.ping);
        best = Some(best.map_or(held, |best| Held {
            call: best.call.min(held.call),
            ping: best.ping.min(held.ping),
        }));
        if best.is_some_and(|best| best.call <= MOST && best.ping <= MOST) {
            return;
        }
    }
    panic!("{what}: {best:?} in the best of {TRIES} tries, {MOST:?} at most");
}

/// Submits a flow to a server of its own.
fn submit(flow: Flow) -> Held {
    let server = Server::valkey().unwrap();
    let mut connection = server.connect().unwrap();
    for (name, value) in [("slowlog-log-slower-than", "1000"), ("slowlog-max-len", "100000")] {
        connection.call(&["CONFIG", "SET", name, value]).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let pings = std::thread::spawn({
        let (connection, stop) = (server.connect().unwrap(), stop.clone());
        move || longest_ping(connection, &stop)
    });
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let url = format!("valkey://127.0.0.1:{}", server.port());
        let client = Client::connect(&url).await.unwrap();
        client.submit(flow).await.unwrap();
    });
    stop.store(true, Ordering::Relaxed);
    Held { call: longest_call(&mut connection), ping: pings.join().unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "how long others wait is what is measured")]
fn longest_ping(mut connection: Connection, stop: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let since = Instant::now();
        connection.call(&["PING"]).unwrap();
        longest = longest.max(since.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    longest
}

/// The longest call of a function that the server has logged.
fn longest_call(connection: &mut Connection) -> Duration {
    let Value::Array(entries) = connection.call(&["SLOWLOG", "GET", "-1"]).unwrap() else {
        panic!("no slow log");
    };
    let micros = entries.iter().filter_map(|entry| {
        let Value::Array(fields) = entry else { return None };
        let [_, _, Value::Int(micros), Value::Array(argv), ..] = fields.as_slice() else {
            return None;
        };
        let is_function = argv.first() == Some(&Value::Bulk(b"FCALL".to_vec()));
        u64::try_from(*micros).ok().filter(|_| is_function)
    });
    Duration::from_micros(micros.max().unwrap_or_default())
}
