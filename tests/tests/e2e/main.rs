//! Everything that client and worker can do, and every scanner: the same cases on four stores.
//!
//! Each test is one store. Its cases run concurrently, on lanes of their own, under one engine with
//! short intervals; a failure names its case.

#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed, and says so")]

mod calls_per_task;
mod extreme_values;
mod fixture;
mod flows;
mod recovery;
mod running;
mod worker_processes;

use fixture::{Fixture, Served, run_all};
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;
use tokio::task::LocalSet;

#[test]
fn everything_holds_in_memory() {
    run_suite("memory://");
}

#[test]
fn everything_holds_on_valkey() {
    let server = Server::valkey().unwrap();
    run_suite(&format!("valkey://127.0.0.1:{}", server.port()));
}

#[test]
fn everything_holds_on_redis() {
    let server = Server::redis().unwrap();
    run_suite(&format!("redis://127.0.0.1:{}", server.port()));
}

#[test]
fn everything_holds_on_a_cluster_of_three() {
    let cluster = Cluster::start(3).unwrap();
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    run_suite(&format!("valkey://{}", hosts.join(",")));
}

fn run_suite(url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Workers and engines use all threads; the cases themselves share this one.
    LocalSet::new().block_on(&runtime, async {
        // First what must happen before an engine is there to help.
        let fixture = Fixture::open(url).await.unwrap();
        run_all(&fixture, &[("unheard", boxed(recovery::unheard))]).await;
        let engine = fixture.engine().await.unwrap();
        run_all(
            &fixture,
            &[
                ("fan_out", boxed(flows::fan_out)),
                ("groups", boxed(flows::groups)),
                ("large", boxed(flows::large)),
                ("order", boxed(flows::order)),
                ("idempotency", boxed(flows::idempotency)),
                ("cancel_and_replay", boxed(flows::cancel_and_replay)),
                ("many", boxed(running::many)),
                ("failures", boxed(running::failures)),
                ("signals", boxed(running::signals)),
                ("timeouts", boxed(running::timeouts)),
                ("limits", boxed(running::limits)),
                ("output", boxed(running::output)),
                ("lost_worker", boxed(running::lost_worker)),
                ("drain", boxed(running::drain)),
                ("capabilities", boxed(running::capabilities)),
                ("past_others", boxed(running::past_others)),
                ("sizes", boxed(extreme_values::sizes)),
                ("for_ever", boxed(extreme_values::for_ever)),
                ("priorities", boxed(extreme_values::priorities)),
                ("no_output", boxed(extreme_values::no_output)),
                ("lost_place", boxed(recovery::lost_place)),
                ("abandoned_cancels", boxed(recovery::abandoned_cancels)),
                ("leaked_slot", boxed(recovery::leaked_slot)),
                ("budget_period", boxed(recovery::budget_period)),
                ("pending_waitpoint", boxed(recovery::pending_waitpoint)),
                ("losers", boxed(recovery::losers)),
                ("expired_leases", boxed(recovery::expired_leases)),
                ("retention", boxed(recovery::retention)),
                ("stale_debt", boxed(recovery::stale_debt)),
            ],
        )
        .await;
        // A scanner is seen when its visit has ended, which may be after its effect was.
        let all = async || Ok(fixture.idle_scanners().is_empty());
        let seen = fixture.eventually("every scanner has acted", all).await;
        engine.stop().await.unwrap();
        assert!(seen.is_ok(), "scanners that never acted: {:?}", fixture.idle_scanners());
    });
}

type Case = Box<dyn Fn(Fixture) -> std::pin::Pin<Box<dyn Future<Output = Served>>>>;

fn boxed<F, R>(case: F) -> Case
where
    F: Fn(Fixture) -> R + 'static,
    R: Future<Output = Served> + 'static,
{
    Box::new(move |fixture| Box::pin(case(fixture)))
}
