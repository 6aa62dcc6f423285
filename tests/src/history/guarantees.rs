//! Guarantees to users, each as one short history that all oracles check as well.

use selvedge_core::key::Key;
use selvedge_lua::library::SOURCE;

use super::HistoryState;
use super::state::{PARTITION, execution, flow};

fn state() -> HistoryState {
    HistoryState::new(SOURCE)
}

/// Ends the history: nothing may have been found on the way.
fn in_order(state: &HistoryState) {
    assert!(state.findings().is_empty(), "{}", state.failure());
}

fn state_of(state: &HistoryState, slot: u8) -> String {
    state.field(&execution(slot), "public_state")
}

#[test]
fn a_dead_workers_execution_is_claimable_again_with_no_operator() {
    let mut state = state();
    state.create(0, 0, 2);
    state.claim_next(0, 0);
    assert_eq!(state_of(&state, 0), "active");
    state.wait_ms(6_000);
    state.claim_next(0, 1);
    assert_eq!(state.field(&execution(0), "current_worker_id"), "w0", "nobody noticed yet");
    state.requeue(0);
    assert!(state.is_eligible(0));
    state.claim_next(0, 1);
    assert_eq!(state_of(&state, 0), "active");
    assert_eq!(state.field(&execution(0), "current_worker_id"), "w1");
    assert_eq!(state.field(&execution(0), "total_attempt_count"), "2");
    state.complete(0, 0);
    assert_eq!(state_of(&state, 0), "completed");
    in_order(&state);
}

#[test]
fn a_past_delay_until_is_never_lost() {
    let mut state = state();
    state.create(0, 0, 1);
    state.claim_next(0, 0);
    assert_eq!(state_of(&state, 0), "active", "created with a time that is over");
    state.delay(0, 0, 0);
    state.promote_delayed(0);
    assert!(state.is_eligible(0), "delayed until a time that is over");
    state.claim_next(0, 1);
    assert_eq!(state_of(&state, 0), "active");
    in_order(&state);
}

#[test]
fn a_resume_with_delay_comes_back() {
    let mut state = state();
    state.create(0, 0, 2);
    state.claim_next(0, 0);
    state.suspend(0, 0, 0);
    assert_eq!(state_of(&state, 0), "suspended");
    state.resume(0, 0);
    assert_eq!(state_of(&state, 0), "delayed");
    state.promote_delayed(0);
    assert_eq!(state_of(&state, 0), "delayed", "not before its time");
    state.wait_ms(1_100);
    state.promote_delayed(0);
    state.claim_next(0, 1);
    assert_eq!(state_of(&state, 0), "active");
    assert_eq!(state.field(&execution(0), "total_attempt_count"), "1", "the same attempt goes on");
    in_order(&state);
}

#[test]
fn a_quorum_never_fires_while_its_edges_are_still_being_added() {
    let mut state = state();
    state.create_flow(0);
    for member in [0, 1, 3, 4] {
        state.create(member, 0, 2);
        state.add_member(0, member);
    }
    state.set_group(0, 4, 2);
    let group = Key::flow(PARTITION, flow(0)).edge_group(&execution(4));
    let verdict = |state: &HistoryState| {
        state.snapshot().hash(&group).unwrap().text("group_state").to_owned()
    };
    // Two of three must succeed; the first fails before the others are even known.
    state.stage_and_apply(0, 0, 4);
    state.cancel(0, 0);
    state.resolve_outgoing(0, 1);
    assert_eq!(verdict(&state), "pending");
    assert_eq!(state_of(&state, 4), "waiting_children");
    state.stage_and_apply(0, 1, 4);
    state.stage_and_apply(0, 3, 4);
    for upstream in [1, 3] {
        assert_eq!(verdict(&state), "pending");
        state.operator_claim(upstream, 0);
        state.complete(upstream, 0);
        state.resolve_outgoing(upstream, 1);
    }
    assert_eq!(verdict(&state), "satisfied");
    assert!(state.is_eligible(4));
    in_order(&state);
}

#[test]
fn one_executions_signal_or_token_never_resumes_another() {
    let mut state = state();
    for slot in [0, 1] {
        state.create(slot, 0, 2);
        state.operator_claim(slot, 0);
        state.suspend(slot, 0, 0);
    }
    // The latest waitpoint comes first: 0 is that of the second execution.
    for (own, wrong_in) in [0, 1].into_iter().flat_map(|own| [0, 1, 2].map(|how| (own, how))) {
        state.stray_signal(own, 0, wrong_in);
    }
    assert_eq!([0, 1].map(|slot| state_of(&state, slot)), ["suspended", "suspended"]);
    state.signal(1, 0);
    state.repeat_signal(0);
    assert_eq!([0, 1].map(|slot| state_of(&state, slot)), ["waiting", "suspended"]);
    in_order(&state);
}
