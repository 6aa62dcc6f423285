//! Signals that an operator sends.

use std::time::Duration;

use selvedge::client::{Client, PublicState, Task};
use selvedge::worker::{Context, Done, Failed, Suspend, Worker};
use selvedge_core::id::ExecutionId;
use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::wait::Wait;
use tokio_util::sync::CancellationToken;

use crate::kit::{Operator, text};

/// An execution that waits for the signal `approved`.
pub(crate) fn suspended(operator: &Operator) -> ExecutionId {
    operator.json(&["secret", "rotate"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::connect(&operator.url("")).await.expect("it is up");
        let stop = CancellationToken::new();
        let worker =
            Worker::builder(client.clone()).handler("ask", |context: Context| async move {
                context.suspend(Suspend::for_signal("approved")).await?;
                Ok::<_, Failed>(Done::Suspended)
            });
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        let id = client.start(Task::new("ask", "ask")).await.expect("it is taken");
        let waits = async {
            while client.execution(&id).await.expect("it is there").state
                != Some(PublicState::Suspended)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waits).await.expect("it is suspended soon");
        stop.cancel();
        worker.await.expect("it ends").expect("it ends well");
        id
    })
}

#[test]
fn a_signal_without_a_waiter_is_an_error() {
    let operator = Operator::new();
    let id = suspended(&operator).to_string();
    let signal = |name: &str| operator.command(&["exec", "signal", &id, name]);
    operator.fails(&mut signal("aproved"), 4, &["nothing waited for it", "selvedge why"]);
    operator.fails(signal("approved").args(["--idempotency-key", ""]), 2, &["idempotency key"]);
    let ran = signal("approved").bounded_output();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(text(&ran.stdout).contains("resumed"), "{}", text(&ran.stdout));
    let moved = Wait::at_most(Duration::from_secs(10)).until(|| {
        let shown = operator.json(&["exec", "show", &id]);
        (shown[0]["state"] == "waiting").then_some(())
    });
    assert!(moved.is_some(), "it does not go on");
    operator.fails(&mut signal("approved"), 4, &["is not suspended"]);
}

#[test]
fn a_signal_to_an_unknown_execution_is_not_found() {
    let operator = Operator::new();
    operator.json(&["secret", "rotate"]);
    let nobody = "{fp:1}:550e8400-e29b-41d4-a716-446655440000";
    let ticket = format!("{nobody}/11111111-1111-4111-8111-111111111111/k1:{}", "ab".repeat(20));
    operator.fails(&mut operator.command(&["exec", "signal", nobody, "approved"]), 3, &[nobody]);
    let mut with_ticket = operator.command(&["exec", "signal", nobody, "approved"]);
    operator.fails(with_ticket.args(["--ticket", &ticket]), 3, &["not_found"]);
}
