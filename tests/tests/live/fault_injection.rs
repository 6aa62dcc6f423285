//! Each fault has its effect, and a fault without effect is not counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::value::Value;
use selvedge_tests::connection::Connection;
use selvedge_tests::live::fault_schedule::{Fault, Shape, TimedFault};
use selvedge_tests::live::servers::{Injection, Servers};
use selvedge_tests::wait::Wait;
use uuid::Uuid;

/// A failover that never loses anything shows nothing about losses.
#[test]
fn a_crash_with_lag_loses_what_the_replica_had_not_received() {
    for shape in [Shape::Pair, Shape::Cluster] {
        let mut servers = start(shape);
        let told = inject_under_load(&mut servers, Fault::LaggingCrash);
        let known = compare(&told, &servers.crashes()[0].promoted);
        assert!(!known.is_empty(), "{shape:?}: the promoted replica has received nothing");
        let lost = known.iter().any(|(told, heard)| told > heard);
        assert!(lost, "{shape:?}: nothing that was told is lost: {known:?}");
    }
}

/// Nothing excuses a loss by the other failover, so it must not make any.
#[test]
fn a_crash_without_lag_loses_no_acknowledged_write() {
    for shape in [Shape::Pair, Shape::Cluster] {
        let mut servers = start(shape);
        // What callers are told comes long before the replica hears of it, and is lost if it may
        // be.
        servers.slow_down_replicas(Duration::from_millis(60));
        for round in 0..3 {
            let told = inject_under_load(&mut servers, Fault::Crash);
            assert!(servers.crashes().is_empty(), "{shape:?}: an excuse for nothing");
            let snapshot = servers.snapshot().unwrap_or_else(|error| panic!("{error}"));
            let known = compare(&told, &snapshot);
            assert_eq!(known.len(), usize::from(COUNTERS), "{shape:?}, round {round}");
            let lost: Vec<_> = known.iter().filter(|(told, kept)| told > kept).collect();
            assert!(lost.is_empty(), "{shape:?}, round {round}: told and not kept: {lost:?}");
        }
    }
}

#[test]
fn a_fault_without_a_target_has_no_effect() {
    let mut servers = start(Shape::Standalone);
    for fault in [Fault::KillClients, Fault::ResetLinks, Fault::FlushFunctions] {
        // The server may not have noticed yet that the connections of its start are closed.
        let missed = || matches!(servers.inject(&now(fault)), Ok(Injection::Missed)).then_some(());
        let missed = Wait::at_most(Duration::from_secs(20)).until(missed);
        assert!(missed.is_some(), "{fault} finds a target");
    }
    let way_in = ports(&servers)[0];
    let library = "#!lua name=some\nserver.register_function('f', function() return 1 end)";
    for fault in [Fault::FlushFunctions, Fault::ResetLinks, Fault::KillClients] {
        let mut client = Connection::open(way_in).expect("a proxy");
        let told = client.call(&["FUNCTION", "LOAD", "REPLACE", library]).expect("a server");
        assert_eq!(told, Value::Bulk(b"some".to_vec()));
        let injection = servers.inject(&now(fault));
        assert!(matches!(injection, Ok(Injection::Over)), "{fault}: {injection:?}");
    }
}

/// Else a crash would hide behind the fault that comes next.
#[test]
fn a_server_that_ended_by_itself_is_not_taken_for_killed() {
    let mut servers = start(Shape::Standalone);
    assert_eq!(servers.unexpected_exits().expect("processes"), Vec::<String>::new());
    let mut client = Connection::open(ports(&servers)[0]).expect("a proxy");
    client.call(&["SHUTDOWN", "NOSAVE"]).expect_err("it answers, and yet it ended");
    let ended = || servers.unexpected_exits().expect("processes").pop();
    let ended = Wait::at_most(Duration::from_secs(20)).until(ended).expect("it ended");
    assert!(ended.starts_with("server 0 ended by itself"), "{ended}");
    let injection = servers.inject(&now(Fault::KillServer));
    assert!(injection.is_err_and(|error| error.to_string().contains(&ended)), "it was counted");
}

/// Servers that have nothing else to say still say that they are there, which nobody misses.
#[test]
fn a_replica_cannot_lag_behind_a_primary_that_does_nothing() {
    let mut servers = start(Shape::Pair);
    let injection = servers.inject(&now(Fault::LaggingCrash));
    assert!(matches!(injection, Ok(Injection::Missed)), "{injection:?}");
    assert!(servers.crashes().is_empty());
    // And it hears on as if nothing had been tried.
    let mut client = Connection::open(ports(&servers)[0]).expect("a proxy");
    client.call(&["SET", "some", "thing"]).expect("the primary");
    let heard_by = client.call(&["WAIT", "1", "10000"]).expect("the primary");
    assert_eq!(heard_by, Value::Int(1));
}

/// A machine that is busy for a while stops nothing but what it was told to stop.
#[test]
fn a_stopped_primary_stays_the_primary() {
    let mut servers = start(Shape::Cluster);
    let roles = |servers: &Servers| -> Vec<Value> {
        let role = |port| Connection::open(port)?.call(&["ROLE"]);
        let told = ports(servers).into_iter().map(|port| role(port).expect("a server"));
        told.map(|told| if let Value::Array(told) = told { told[0].clone() } else { told })
            .collect()
    };
    let before = roles(&servers);
    let Ok(Injection::Until(undo)) = servers.inject(&now(Fault::StopServer)) else {
        panic!("nobody stands still");
    };
    let _: Option<()> = Wait::at_most(STANDS_STILL).until(|| None);
    servers.undo(undo).expect("it goes on");
    assert_eq!(roles(&servers), before);
}

fn start(shape: Shape) -> Servers {
    Servers::start(shape).unwrap_or_else(|error| panic!("{shape:?}: {error}"))
}

fn now(fault: Fault) -> TimedFault {
    TimedFault { at: Duration::ZERO, fault, whom: 0, lasting: Duration::from_secs(4) }
}

/// Injects a fault while callers count; returns the last reply for each counter.
fn inject_under_load(servers: &mut Servers, fault: Fault) -> Vec<i64> {
    let stop = AtomicBool::new(false);
    let counts: Vec<_> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    let ports = ports(servers);
    let told = thread::scope(|scope| {
        let (stop, counts) = (&stop, &counts);
        let caller = |port| scope.spawn(move || count_until(stop, counts, port));
        let callers: Vec<_> = ports.into_iter().map(caller).collect();
        let well = |count: &AtomicU64| count.load(Ordering::SeqCst) > BEGUN;
        let begun = || counts.iter().all(well).then_some(());
        assert!(Wait::at_most(Duration::from_secs(20)).until(begun).is_some(), "nobody counts");
        let injection = servers.inject(&now(fault));
        stop.store(true, Ordering::SeqCst);
        assert!(matches!(injection, Ok(Injection::Over)), "{fault}: {injection:?}");
        let counts = callers.into_iter().filter_map(|caller| caller.join().ok());
        counts.reduce(|one, other| one.into_iter().zip(other).map(|(a, b)| a.max(b)).collect())
    });
    told.unwrap_or_default()
}

/// What was told of each counter, and what a snapshot has of it, if anything.
fn compare(told: &[i64], snapshot: &Snapshot) -> Vec<(i64, i64)> {
    let kept = |number| {
        let text = snapshot.text(&counter(number)).map(String::from_utf8_lossy);
        text.and_then(|text| text.parse::<i64>().ok())
    };
    told.iter().zip(0..).filter_map(|(told, number)| Some((*told, kept(number)?))).collect()
}

/// Counts in every slot that the server at a port has; what it was told last of each counter.
fn count_until(stop: &AtomicBool, counts: &[AtomicU64], port: u16) -> Vec<i64> {
    let mut told = vec![0; COUNTERS.into()];
    while let (false, Ok(mut server)) = (stop.load(Ordering::SeqCst), Connection::open(port)) {
        let mut count = |number: u16| {
            let reply = server.call(&["INCR", &counter(number).to_string()])?;
            if let Value::Int(count) = reply {
                told[usize::from(number)] = count;
                counts[usize::from(number)].fetch_add(1, Ordering::SeqCst);
            }
            Ok::<_, std::io::Error>(())
        };
        while !stop.load(Ordering::SeqCst) && (0..COUNTERS).try_for_each(&mut count).is_ok() {}
        // It has died. Nobody must count on where the promoted replica begins, which would hide
        // what is lost.
        if told.iter().any(|count| *count > 0) {
            stop.store(true, Ordering::SeqCst);
        }
    }
    told
}

/// A key in a slot of its own that the judges' view of a server holds.
fn counter(number: u16) -> Key {
    Key::execution(&ExecutionId::new(number, Uuid::nil())).result()
}

/// Where callers reach the servers.
fn ports(servers: &Servers) -> Vec<u16> {
    let port = |host: &str| host.rsplit_once(':')?.1.parse().ok();
    servers.url().split(['?', ',']).filter_map(port).collect()
}

/// Enough for each of three primaries to have some.
const COUNTERS: u16 = 24;

/// Each of them has been counted this often before a fault.
const BEGUN: u64 = 10;

/// Longer than any fault lasts, and than a cluster of the tests usually waits for a primary.
const STANDS_STILL: Duration = Duration::from_secs(8);
