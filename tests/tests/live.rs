//! A few short schedules of faults against real processes; the binary `live` plays long ones.

use std::path::Path;
use std::time::Duration;

use selvedge_tests::live::plan::{Plan, Shape};
use selvedge_tests::live::run::run;

#[tokio::test(flavor = "multi_thread")]
async fn one_server_under_fire_loses_and_doubles_nothing() {
    play(Shape::Standalone, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_under_load_loses_and_doubles_nothing() {
    play(Shape::Pair, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_under_fire_loses_and_doubles_nothing() {
    play(Shape::Cluster, 5).await;
}

async fn play(shape: Shape, seed: u64) {
    let plan = Plan::from_seed(seed, Duration::from_secs(8), Some(shape));
    let live = Path::new(env!("CARGO_BIN_EXE_live"));
    let report = run(plan, live).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.accepted > 0, "nothing was accepted: {report}");
    assert!(report.verdict.faults.is_empty(), "{report}");
}
