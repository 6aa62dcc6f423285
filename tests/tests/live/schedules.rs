//! A few short schedules, which together deal every kind of fault.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use selvedge_tests::live::plan::{Fault, Plan, Shape, Wishes};
use selvedge_tests::live::run::run;
use tokio_util::sync::CancellationToken;

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

fn plan((shape, seed): (Shape, u64)) -> Plan {
    let lasts = Duration::from_secs(8);
    Plan::from_seed(seed, &Wishes { lasts, shape: Some(shape), lags: true })
}

async fn play(schedule: (Shape, u64)) {
    let plan = plan(schedule);
    let live = Path::new(env!("CARGO_BIN_EXE_live"));
    let played = run(plan, live, &CancellationToken::new()).await;
    let report = played.unwrap_or_else(|error| panic!("{error}")).expect("nobody stops it");
    assert!(report.accepted > 0, "nothing was accepted: {report}");
    assert!(report.verdict.faults.is_empty(), "{report}");
    assert!(report.faults.len() >= KINDS_MIN, "only {:?} struck", report.faults);
}

/// Chosen among many for the kinds of faults that they deal within seconds, together all of them.
const SCHEDULES: [(Shape, u64); 3] =
    [(Shape::Standalone, 1), (Shape::Pair, 18_030), (Shape::Cluster, 3_255)];

/// A clock may not be shiftable here, and a server not ready for a fault; most must strike.
const KINDS_MIN: usize = 5;
