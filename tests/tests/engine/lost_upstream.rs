//! Upstreams whose record is gone: their children end with the reason, or go on.

use selvedge_core::engine::ScannerName;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::dependency_reconciler::{quiet, unheard};
use crate::fixtures::{ClientCalls, core, execution, only};
use crate::flow_builder::{Flows, Graph, of_flow};

const NAME: ScannerName = ScannerName::DependencyReconciler;

/// The record of an upstream was deleted: nobody will ever resolve its edge by it.
#[test]
fn a_child_of_a_lost_upstream_ends_and_says_why() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]).all_of(3, [2]));
    quiet(&mut harness);
    harness.run(&format!("DEL {}", core(&execution(1))));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.trace[0], "engine-1 resolve_lost E1 -> skipped");
    assert_eq!([harness.state(2), harness.state(3)], ["skipped", "skipped"]);
    let reason = harness.call(&["HGET", &core(&execution(2)), "failure_reason"]);
    let told = format!("upstream_lost:{}", execution(1));
    assert_eq!(reason, Value::Bulk(told.into_bytes()));
}

/// Its last attempt says that it succeeded.
#[test]
fn a_child_of_a_lost_upstream_that_had_succeeded_goes_on() {
    let mut harness = unheard();
    harness.run(&format!("DEL {}", core(&execution(1))));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_lost E1 -> released"]);
    assert_eq!(harness.state(2), "waiting");
}

/// An edge may be applied before its upstream is created.
#[test]
fn an_upstream_that_is_not_created_yet_is_waited_for() {
    let mut harness = unheard();
    harness.run(&format!("DEL {}", core(&execution(1))));
    harness.run(&format!("SREM {} {}", of_flow(0, "members"), execution(1)));
    harness.start(only(&[NAME]));
    harness.run_for(16_000);
    let left = "engine-1 resolve_lost E1 -> left";
    assert_eq!(harness.trace, [left, left]);
    assert_eq!(harness.state(2), "waiting_children");
    assert_eq!(harness.counts(NAME).errors(), 0);
}
