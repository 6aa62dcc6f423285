//! The cases of the scanners that work on flows: their candidates are made of several records.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::engine::ScannerName;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, execution};
use crate::flow_builder::{CANCEL_GROUPS, Flows, Graph, HOME, flow, of_flow};
use crate::scanner_cases::ScannerCase;

/// The member that a case is about: the upstream of a child, the sibling of a group.
const fn other(n: usize) -> usize {
    n + 50_000
}

fn flow_id(n: usize) -> String {
    flow(n).to_string()
}

fn group(n: usize) -> String {
    of_flow(n, &format!("edgegroup:{}", execution(n)))
}

/// A group with one sibling to cancel, left by an engine that is gone.
fn owing_group(harness: &mut Harness, n: usize) {
    let sibling = execution(other(n));
    harness.create(&execution(n), "{}");
    harness.create(&sibling, "{}");
    harness.name(flow(n).to_string(), format!("F{n}"));
    harness.name(&sibling, format!("S{n}"));
    harness.run(&format!(
        "HSET {} cancel_siblings_pending_flag true cancel_siblings_pending_members {sibling} \
         cancel_siblings_reason sibling_quorum_satisfied",
        group(n)
    ));
    harness.run(&format!("SADD {CANCEL_GROUPS} {}|{}", flow(n), execution(n)));
}

pub(crate) const FLOW_CASES: &[ScannerCase] = &[
    ScannerCase {
        name: ScannerName::DependencyReconciler,
        function: "ff_resolve_outgoing",
        index: ("ff:idx:{fp:0}:lane:default:blocked:dependencies", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: |n| format!("ff:exec:{{fp:0}}:{}:deps:unresolved", execution(n)),
        plant: |harness, n| {
            let graph = Graph::new().numbered(n).roots([other(n)]).all_of(n, [other(n)]);
            harness.submit(&graph);
            harness.complete(other(n));
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000050001:core \
                 lifecycle_phase runnable terminal_outcome none",
    },
    ScannerCase {
        name: ScannerName::FlowProjector,
        function: "ff_project_flow",
        index: ("ff:idx:{fp:0}:flow_index", false),
        batch: 100,
        filtered: false,
        member: flow_id,
        record: |n| of_flow(n, "core"),
        plant: |harness, n| {
            harness.run(&format!("HSET {} public_flow_state open", of_flow(n, "core")));
            harness.run(&format!("SADD {} {}", of_flow(n, "members"), execution(n)));
            harness.run(&format!("HSET {} public_state completed", core(&execution(n))));
            harness.run(&format!("SADD ff:idx:{{fp:0}}:flow_index {}", flow(n)));
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000000001:core \
                 public_state active",
    },
    ScannerCase {
        name: ScannerName::CancelReconciler,
        function: "ff_cancel_execution",
        index: ("ff:idx:{fp:0}:cancel_backlog", true),
        batch: 50,
        filtered: true,
        member: flow_id,
        record: |n| of_flow(n, "pending_cancels"),
        plant: |harness, n| {
            harness.submit(&Graph::new().numbered(n).roots([n]));
            harness.fcall(&CancelFlow {
                partition: HOME,
                flow_id: flow(n),
                reason: "changed my mind".into(),
                policy: CancellationPolicy::CancelAll,
                grace_ms: Some(0),
            });
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000000001:core \
                 lifecycle_phase terminal terminal_outcome success",
    },
    ScannerCase {
        name: ScannerName::EdgeCancelDispatcher,
        function: "ff_cancel_execution",
        index: (CANCEL_GROUPS, false),
        batch: 50,
        filtered: true,
        member: |n| format!("{}|{}", flow(n), execution(n)),
        record: group,
        plant: owing_group,
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000050001:core \
                 lifecycle_phase terminal terminal_outcome success",
    },
    ScannerCase {
        name: ScannerName::EdgeCancelReconciler,
        function: "ff_reconcile_sibling_cancel_group",
        index: (CANCEL_GROUPS, false),
        batch: 50,
        filtered: false,
        member: |n| format!("{}|{}", flow(n), execution(n)),
        record: group,
        plant: |harness, n| {
            owing_group(harness, n);
            // Every sibling has ended, and the drain was interrupted.
            harness.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(other(n)))));
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000050001:core \
                 lifecycle_phase active",
    },
];
