//! The rows of the scanners that look after flows: their candidates are made of several records.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::engine::ScannerName;
use selvedge_tests::rig::Rig;

use crate::flows::{Flows, Graph, HOME, OWING, flow, of_flow};
use crate::kit::{World, core, execution};
use crate::rows::Row;

/// The member that a candidate's story is about: the upstream of a child, the sibling of a group.
const fn other(n: usize) -> usize {
    n + 50_000
}

fn flow_id(n: usize) -> String {
    flow(n).to_string()
}

fn group(n: usize) -> String {
    of_flow(n, &format!("edgegroup:{}", execution(n)))
}

/// A group of one sibling that owes a cancel; who noted it is gone.
fn owing_group(rig: &mut Rig, n: usize) {
    let sibling = execution(other(n));
    rig.create(&execution(n), "{}");
    rig.create(&sibling, "{}");
    rig.name(flow(n).to_string(), format!("F{n}"));
    rig.name(&sibling, format!("S{n}"));
    rig.run(&format!(
        "HSET {} cancel_siblings_pending_flag true cancel_siblings_pending_members {sibling} \
         cancel_siblings_reason sibling_quorum_satisfied",
        group(n)
    ));
    rig.run(&format!("SADD {OWING} {}|{}", flow(n), execution(n)));
}

pub(crate) const FLOW_ROWS: &[Row] = &[
    Row {
        name: ScannerName::DependencyReconciler,
        function: "ff_resolve_outgoing",
        index: ("ff:idx:{fp:0}:lane:default:blocked:dependencies", true),
        batch: 50,
        filtered: true,
        member: execution,
        record: |n| format!("ff:exec:{{fp:0}}:{}:deps:unresolved", execution(n)),
        plant: |rig, n| {
            let graph = Graph::new().numbered(n).roots([other(n)]).all_of(n, [other(n)]);
            rig.submit(&graph);
            rig.complete(other(n));
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000050001:core \
                 lifecycle_phase runnable terminal_outcome none",
    },
    Row {
        name: ScannerName::FlowProjector,
        function: "ff_project_flow",
        index: ("ff:idx:{fp:0}:flow_index", false),
        batch: 100,
        filtered: false,
        member: flow_id,
        record: |n| of_flow(n, "core"),
        plant: |rig, n| {
            rig.run(&format!("HSET {} public_flow_state open", of_flow(n, "core")));
            rig.run(&format!("SADD {} {}", of_flow(n, "members"), execution(n)));
            rig.run(&format!("HSET {} public_state completed", core(&execution(n))));
            rig.run(&format!("SADD ff:idx:{{fp:0}}:flow_index {}", flow(n)));
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000000001:core \
                 public_state active",
    },
    Row {
        name: ScannerName::CancelReconciler,
        function: "ff_cancel_execution",
        index: ("ff:idx:{fp:0}:cancel_backlog", true),
        batch: 50,
        filtered: true,
        member: flow_id,
        record: |n| of_flow(n, "pending_cancels"),
        plant: |rig, n| {
            rig.submit(&Graph::new().numbered(n).roots([n]));
            rig.fcall(&CancelFlow {
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
    Row {
        name: ScannerName::EdgeCancelDispatcher,
        function: "ff_cancel_execution",
        index: (OWING, false),
        batch: 50,
        filtered: true,
        member: |n| format!("{}|{}", flow(n), execution(n)),
        record: group,
        plant: owing_group,
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000050001:core \
                 lifecycle_phase terminal terminal_outcome success",
    },
    Row {
        name: ScannerName::EdgeCancelReconciler,
        function: "ff_reconcile_sibling_cancel_group",
        index: (OWING, false),
        batch: 50,
        filtered: false,
        member: |n| format!("{}|{}", flow(n), execution(n)),
        record: group,
        plant: |rig, n| {
            owing_group(rig, n);
            // All is paid, and the drain was interrupted.
            rig.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(other(n)))));
        },
        change: "HSET ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8000-000000050001:core \
                 lifecycle_phase active",
    },
];
