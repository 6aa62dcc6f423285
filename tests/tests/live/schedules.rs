//! A few short schedules, which together inject every kind of fault.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use selvedge_tests::live::fault_schedule::{Fault, FaultSchedule, ScheduleOptions, Shape};
use selvedge_tests::live::schedule_run::run;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_one_server_lose_and_double_nothing() {
    play(SCHEDULES[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_a_replicated_pair_lose_and_double_nothing() {
    play(SCHEDULES[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_a_cluster_lose_and_double_nothing() {
    play(SCHEDULES[2]).await;
}

#[test]
fn the_short_schedules_inject_every_kind_of_fault() {
    let faults = SCHEDULES.into_iter().flat_map(|chosen| schedule(chosen).faults);
    let dealt: BTreeSet<Fault> = faults.map(|timed| timed.fault).collect();
    let missing: Vec<_> = Fault::ALL.iter().filter(|(fault, _)| !dealt.contains(fault)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn schedule((shape, seed): (Shape, u64)) -> FaultSchedule {
    let lasts = Duration::from_secs(8);
    FaultSchedule::from_seed(seed, &ScheduleOptions { lasts, shape: Some(shape), lags: true })
}

async fn play(chosen: (Shape, u64)) {
    let schedule = schedule(chosen);
    let live = Path::new(env!("CARGO_BIN_EXE_live"));
    let played = run(schedule, live, &CancellationToken::new()).await;
    let report = played.unwrap_or_else(|error| panic!("{error}")).expect("nobody stops it");
    assert!(report.accepted > 0, "nothing was accepted: {report}");
    assert!(report.verdict.faults.is_empty(), "{report}");
    assert!(report.faults.len() >= KINDS_MIN, "only {:?} were injected", report.faults);
}

/// Seeds whose schedules of a few seconds together inject every kind of fault.
const SCHEDULES: [(Shape, u64); 3] =
    [(Shape::Standalone, 19_509), (Shape::Pair, 10_577), (Shape::Cluster, 16_299)];

/// A clock may not be shiftable here, and a server not ready for a fault; most must have an effect.
const KINDS_MIN: usize = 5;
