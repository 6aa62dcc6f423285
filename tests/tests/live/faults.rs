//! Faults do what they say, and one that struck nobody is not counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::value::Value;
use selvedge_tests::connection::Connection;
use selvedge_tests::live::plan::{Fault, Shape, Strike};
use selvedge_tests::live::site::{Site, Struck};
use selvedge_tests::patience::Patience;
use uuid::Uuid;

/// A failover that never loses anything shows nothing about losses.
#[test]
fn a_primary_that_dies_takes_with_it_what_its_replica_had_not_heard() {
    for shape in [Shape::Pair, Shape::Cluster] {
        let mut site = start(shape);
        let told = strike_under_load(&mut site, Fault::LaggingCrash);
        let known = compare(&told, &site.crashes()[0].heir);
        assert!(!known.is_empty(), "{shape:?}: the heir has heard of nothing");
        let lost = known.iter().any(|(told, heard)| told > heard);
        assert!(lost, "{shape:?}: nothing that was told is lost: {known:?}");
    }
}

/// Nothing excuses a loss by the other failover, so it must not make any.
#[test]
fn a_primary_that_dies_leaves_to_its_replica_whatever_was_told() {
    for shape in [Shape::Pair, Shape::Cluster] {
        let mut site = start(shape);
        // What callers are told comes long before the replica hears of it, and is lost if it may be.
        site.slow_down_replicas(Duration::from_millis(60));
        for round in 0..3 {
            let told = strike_under_load(&mut site, Fault::Crash);
            assert!(site.crashes().is_empty(), "{shape:?}: an excuse for nothing");
            let snapshot = site.snapshot().unwrap_or_else(|error| panic!("{error}"));
            let known = compare(&told, &snapshot);
            assert_eq!(known.len(), usize::from(COUNTERS), "{shape:?}, round {round}");
            let lost: Vec<_> = known.iter().filter(|(told, kept)| told > kept).collect();
            assert!(lost.is_empty(), "{shape:?}, round {round}: told and not kept: {lost:?}");
        }
    }
}

#[test]
fn whoever_has_nobody_to_strike_misses() {
    let mut site = start(Shape::Standalone);
    for fault in [Fault::KillClients, Fault::ResetLinks, Fault::FlushFunctions] {
        let struck = site.strike(&now(fault));
        assert!(matches!(struck, Ok(Struck::Missed)), "{fault}: {struck:?}");
    }
    let way_in = ports(&site)[0];
    let library = "#!lua name=some\nserver.register_function('f', function() return 1 end)";
    for fault in [Fault::FlushFunctions, Fault::ResetLinks, Fault::KillClients] {
        let mut client = Connection::open(way_in).expect("a proxy");
        let told = client.call(&["FUNCTION", "LOAD", "REPLACE", library]).expect("a server");
        assert_eq!(told, Value::Bulk(b"some".to_vec()));
        let struck = site.strike(&now(fault));
        assert!(matches!(struck, Ok(Struck::Over)), "{fault}: {struck:?}");
    }
}

/// Else a crash would hide behind the fault that comes next.
#[test]
fn a_server_that_ended_by_itself_is_not_taken_for_killed() {
    let mut site = start(Shape::Standalone);
    assert_eq!(site.deserters().expect("processes"), Vec::<String>::new());
    let mut client = Connection::open(ports(&site)[0]).expect("a proxy");
    client.call(&["SHUTDOWN", "NOSAVE"]).expect_err("it answers, and yet it ended");
    let ended = || site.deserters().expect("processes").pop();
    let ended = Patience::of(Duration::from_secs(20)).until(ended).expect("it ended");
    assert!(ended.starts_with("server 0 ended by itself"), "{ended}");
    let struck = site.strike(&now(Fault::KillServer));
    assert!(struck.is_err_and(|error| error.to_string().contains(&ended)), "it was counted");
}

/// Servers that have nothing else to say still say that they are there, which nobody misses.
#[test]
fn a_replica_cannot_lag_behind_a_primary_that_does_nothing() {
    let mut site = start(Shape::Pair);
    let struck = site.strike(&now(Fault::LaggingCrash));
    assert!(matches!(struck, Ok(Struck::Missed)), "{struck:?}");
    assert!(site.crashes().is_empty());
    // And it hears on as if nothing had been tried.
    let mut client = Connection::open(ports(&site)[0]).expect("a proxy");
    client.call(&["SET", "some", "thing"]).expect("the primary");
    let heard_by = client.call(&["WAIT", "1", "10000"]).expect("the primary");
    assert_eq!(heard_by, Value::Int(1));
}

/// A machine that is busy for a while stops nothing but what it was told to stop.
#[test]
fn a_primary_that_stands_still_stays_the_primary() {
    let mut site = start(Shape::Cluster);
    let roles = |site: &Site| -> Vec<Value> {
        let role = |port| Connection::open(port)?.call(&["ROLE"]);
        let told = ports(site).into_iter().map(|port| role(port).expect("a server"));
        told.map(|told| if let Value::Array(told) = told { told[0].clone() } else { told })
            .collect()
    };
    let before = roles(&site);
    let Ok(Struck::Until(healing)) = site.strike(&now(Fault::StopServer)) else {
        panic!("nobody stands still");
    };
    let _: Option<()> = Patience::of(STANDS_STILL).until(|| None);
    site.heal(healing).expect("it goes on");
    assert_eq!(roles(&site), before);
}

fn start(shape: Shape) -> Site {
    Site::start(shape).unwrap_or_else(|error| panic!("{shape:?}: {error}"))
}

fn now(fault: Fault) -> Strike {
    Strike { at: Duration::ZERO, fault, whom: 0, lasting: Duration::from_secs(4) }
}

/// Lets a fault strike while callers count; what they were told last of each counter.
fn strike_under_load(site: &mut Site, fault: Fault) -> Vec<i64> {
    let stop = AtomicBool::new(false);
    let counts: Vec<_> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    let ports = ports(site);
    let told = thread::scope(|scope| {
        let (stop, counts) = (&stop, &counts);
        let caller = |port| scope.spawn(move || count_until(stop, counts, port));
        let callers: Vec<_> = ports.into_iter().map(caller).collect();
        let well = |count: &AtomicU64| count.load(Ordering::SeqCst) > BEGUN;
        let begun = || counts.iter().all(well).then_some(());
        assert!(Patience::of(Duration::from_secs(20)).until(begun).is_some(), "nobody counts");
        let struck = site.strike(&now(fault));
        stop.store(true, Ordering::SeqCst);
        assert!(matches!(struck, Ok(Struck::Over)), "{fault}: {struck:?}");
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
        // It has died. Nobody must count on where its heir begins, which would hide what is lost.
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

/// Where callers reach the servers of a site.
fn ports(site: &Site) -> Vec<u16> {
    let port = |host: &str| host.rsplit_once(':')?.1.parse().ok();
    site.url().split(['?', ',']).filter_map(port).collect()
}

/// Enough for each of three primaries to have some.
const COUNTERS: u16 = 24;

/// So often has each of them been counted before a fault strikes.
const BEGUN: u64 = 10;

/// Longer than any fault lasts, and than a cluster of the tests usually waits for a primary.
const STANDS_STILL: Duration = Duration::from_secs(8);
