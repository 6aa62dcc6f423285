//! A few short schedules of faults against real processes; the binary `live` plays long ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::value::Value;
use selvedge_tests::connection::Connection;
use selvedge_tests::live::plan::{Fault, Plan, Shape, Strike, Wishes};
use selvedge_tests::live::run::run;
use selvedge_tests::live::site::{Site, Struck};
use selvedge_tests::patience::Patience;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn one_server_under_fire_loses_and_doubles_nothing() {
    play(SCHEDULES[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_under_load_loses_and_doubles_nothing() {
    play(SCHEDULES[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_under_fire_loses_and_doubles_nothing() {
    play(SCHEDULES[2]).await;
}

#[test]
fn the_short_schedules_deal_every_kind_of_fault() {
    let strikes = SCHEDULES.into_iter().flat_map(|schedule| plan(schedule).strikes);
    let dealt: BTreeSet<Fault> = strikes.map(|strike| strike.fault).collect();
    let missing: Vec<_> = Fault::ALL.iter().filter(|(fault, _)| !dealt.contains(fault)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A failover that never loses anything shows nothing about losses.
#[test]
fn a_primary_that_dies_takes_with_it_what_its_replica_had_not_heard() {
    for shape in [Shape::Pair, Shape::Cluster] {
        let mut site = Site::start(shape).unwrap_or_else(|error| panic!("{error}"));
        let (at, lasting) = (Duration::ZERO, Duration::from_secs(4));
        let strike = Strike { at, fault: Fault::LaggingCrash, whom: 0, lasting };
        let (stop, counts) = (AtomicBool::new(false), AtomicU64::new(0));
        let ports: Vec<u16> = site.url().split(['?', ',']).filter_map(port).collect();
        let told = thread::scope(|scope| {
            let (stop, counts) = (&stop, &counts);
            let caller = |port| scope.spawn(move || count_until(stop, counts, port));
            let callers: Vec<_> = ports.into_iter().map(caller).collect();
            let begun = || (counts.load(Ordering::SeqCst) > BEGUN).then_some(());
            assert!(Patience::of(Duration::from_secs(20)).until(begun).is_some(), "{shape:?}");
            let struck = site.strike(&strike);
            stop.store(true, Ordering::SeqCst);
            assert!(matches!(struck, Ok(Struck::Over)), "{shape:?}: {struck:?}");
            let counts = callers.into_iter().filter_map(|caller| caller.join().ok());
            counts.reduce(|one, other| one.into_iter().zip(other).map(|(a, b)| a.max(b)).collect())
        });
        let heir = &site.crashes()[0].heir;
        let heard = |number| {
            let text = heir.text(&counter(number)).map(String::from_utf8_lossy);
            text.and_then(|text| text.parse::<i64>().ok())
        };
        let told = told.unwrap_or_default().into_iter().zip(0..);
        let known: Vec<_> = told.filter_map(|(told, n)| Some((told, heard(n)?))).collect();
        assert!(!known.is_empty(), "{shape:?}: the heir has heard of nothing");
        let lost = known.iter().any(|(told, heard)| told > heard);
        assert!(lost, "{shape:?}: nothing that was told is lost: {known:?}");
    }
}

/// Counts in every slot that the server at a port has; what it was told last of each counter.
fn count_until(stop: &AtomicBool, counts: &AtomicU64, port: u16) -> Vec<i64> {
    let mut told = vec![0; COUNTERS.into()];
    while let (false, Ok(mut server)) = (stop.load(Ordering::SeqCst), Connection::open(port)) {
        let mut count = |number: u16| {
            let reply = server.call(&["INCR", &counter(number).to_string()])?;
            if let Value::Int(count) = reply {
                told[usize::from(number)] = count;
                counts.fetch_add(1, Ordering::SeqCst);
            }
            Ok::<_, std::io::Error>(())
        };
        while !stop.load(Ordering::SeqCst) && (0..COUNTERS).try_for_each(&mut count).is_ok() {}
        // It has died, and its heir counts on from what it had heard.
        if told.iter().any(|count| *count > 0) {
            break;
        }
    }
    told
}

/// A key in a slot of its own that the judges' view of a server holds.
fn counter(number: u16) -> Key {
    Key::execution(&ExecutionId::new(number, Uuid::nil())).result()
}

fn port(host: &str) -> Option<u16> {
    host.rsplit_once(':')?.1.parse().ok()
}

/// Enough for each of three primaries to have some.
const COUNTERS: u16 = 24;

/// Each of them has been counted some ten times.
const BEGUN: u64 = 240;

fn plan((shape, seed): (Shape, u64)) -> Plan {
    let lasts = Duration::from_secs(8);
    Plan::from_seed(seed, &Wishes { lasts, shape: Some(shape), lags: true })
}

async fn play(schedule: (Shape, u64)) {
    let plan = plan(schedule);
    let live = Path::new(env!("CARGO_BIN_EXE_live"));
    let report = run(plan, live).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.accepted > 0, "nothing was accepted: {report}");
    assert!(report.verdict.faults.is_empty(), "{report}");
    assert!(report.faults.len() >= KINDS_MIN, "only {:?} struck", report.faults);
}

/// Chosen among many for the kinds of faults that they deal within seconds, together all of them.
const SCHEDULES: [(Shape, u64); 3] =
    [(Shape::Standalone, 1), (Shape::Pair, 18_030), (Shape::Cluster, 3_255)];

/// A clock may not be shiftable here, and a server not ready for a fault; most must strike.
const KINDS_MIN: usize = 5;
