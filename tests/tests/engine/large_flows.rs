//! Flows of more than 10,000 members: interrupted work starts again at the front and does only what
//! is left.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::completion::Completion;
use selvedge_core::engine::{Input, Observation, ScannerName};
use selvedge_core::state::TerminalOutcome;
use selvedge_tests::harness::{Crash, Harness, silence};

use crate::fixtures::{ClientCalls, core, execution, only};
use crate::flow_builder::{CANCEL_GROUPS, Flows, Graph, HOME, flow, group_key, member, of_flow};

const MANY: usize = 10_050;

fn resolved(harness: &Harness) -> u64 {
    let count = |fact: &Observation| match fact {
        Observation::Dispatched { resolved, .. } => *resolved,
        _ => 0,
    };
    harness.facts.iter().map(|(_, fact)| count(fact)).sum()
}

#[test]
fn a_dispatch_that_is_lost_past_10_000_edges_is_finished_from_the_front() {
    let mut harness = Harness::new();
    let graph = Graph::new().nameless().roots([0]);
    harness.submit(&(1..=MANY).fold(graph, |graph, n| graph.all_of(n, [0])));
    let engine = harness.start(only(&[]));
    harness.run_for(0);
    harness.push = true;
    let mut looks = 0;
    // Past the first 10,000, and it is unknown whether this call was applied.
    harness.rule = Some(Box::new(move |command| {
        looks += usize::from(command.argv[1] == b"ff_resolve_outgoing");
        (looks == 100).then(silence)
    }));
    harness.complete(0);
    harness.run_for(0);
    let fact = Observation::HandedOver { execution: member(0), reason: "the store did not answer" };
    assert!(harness.facts.contains(&(engine, fact)), "the net is told");
    harness.rule = None;
    let waiting = (1..=MANY).filter(|&n| harness.state(n) == "waiting_children").count();
    assert!((1..1_000).contains(&waiting), "{waiting} are left");
    harness.tell(
        engine,
        Input::Completed(Completion {
            execution_id: member(0),
            flow_id: flow(0),
            outcome: TerminalOutcome::Success,
        }),
    );
    assert_eq!(resolved(&harness), waiting as u64, "only what was left is counted");
    for n in 1..=MANY {
        assert_eq!(harness.state(n), "waiting", "{n}");
    }
}

#[test]
fn a_cancel_that_is_interrupted_past_10_000_members_is_finished_from_the_front() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().nameless().roots(1..=MANY));
    harness.fcall(&CancelFlow {
        partition: HOME,
        flow_id: flow(0),
        reason: "changed my mind".into(),
        policy: CancellationPolicy::CancelAll,
        grace_ms: Some(0),
    });
    harness.run("DEL ff:idx:{fp:0}:all_executions");
    // Three commands a member: the last members are being looked at.
    harness.crash(Crash::Before(30_050));
    harness.start(only(&[ScannerName::CancelReconciler]));
    harness.run_for(0);
    assert_eq!(harness.living(), 0, "{} commands", harness.commands);
    let left = harness.size(&of_flow(0, "pending_cancels"));
    assert!((1..2_000).contains(&left), "{left} are left");
    harness.start(only(&[ScannerName::CancelReconciler]));
    harness.run_for(0);
    assert_eq!(harness.traced(&["cancel_execution", "-> cancelled"]), MANY, "each once");
    assert_eq!(harness.size(&of_flow(0, "pending_cancels")), 0);
}

#[test]
fn a_group_of_more_than_10_000_siblings_goes_on_with_the_next_scan() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().nameless().roots(0..=MANY));
    let siblings: Vec<String> = (1..=MANY).map(execution).collect();
    harness.run(&format!(
        "HSET {} cancel_siblings_pending_flag true cancel_siblings_pending_members {} \
         cancel_siblings_reason sibling_quorum_satisfied",
        group_key(0),
        siblings.join("|")
    ));
    harness.run(&format!("SADD {CANCEL_GROUPS} {}|{}", flow(0), execution(0)));
    harness.run("DEL ff:idx:{fp:0}:all_executions");
    harness.start(only(&[ScannerName::EdgeCancelDispatcher]));
    harness.run_for(0);
    let first = harness.traced(&["cancel_execution", "-> cancelled"]);
    assert!((9_000..MANY).contains(&first), "{first} in one go");
    assert_eq!(harness.size(CANCEL_GROUPS), 1, "the note stays");
    harness.run_for(3_000);
    assert_eq!(harness.traced(&["cancel_execution", "-> cancelled"]), MANY, "each once");
    assert_eq!(harness.size(CANCEL_GROUPS), 0);
    assert_eq!(harness.field(&core(&execution(MANY)), "public_state"), "cancelled");
}
