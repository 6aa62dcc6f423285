//! Promises to users, each as one short history that is also judged by all oracles.

use selvedge_core::key::Key;
use selvedge_lua::library::SOURCE;

use super::World;
use super::world::{PARTITION, execution, flow};

fn world() -> World {
    World::new(SOURCE)
}

/// Ends the history: nothing may have been found on the way.
fn in_order(world: &World) {
    assert!(world.findings().is_empty(), "{}", world.downfall());
}

fn state_of(world: &World, slot: u8) -> String {
    world.field(&execution(slot), "public_state")
}

#[test]
fn a_dead_workers_execution_is_claimable_again_with_no_operator() {
    let mut world = world();
    world.create(0, 0, 2);
    world.claim_next(0, 0);
    assert_eq!(state_of(&world, 0), "active");
    world.wait_ms(6_000);
    world.claim_next(0, 1);
    assert_eq!(world.field(&execution(0), "current_worker_id"), "w0", "nobody noticed yet");
    world.requeue(0);
    assert!(world.is_eligible(0));
    world.claim_next(0, 1);
    assert_eq!(state_of(&world, 0), "active");
    assert_eq!(world.field(&execution(0), "current_worker_id"), "w1");
    assert_eq!(world.field(&execution(0), "total_attempt_count"), "2");
    world.complete(0, 0);
    assert_eq!(state_of(&world, 0), "completed");
    in_order(&world);
}

#[test]
fn a_past_delay_until_is_never_lost() {
    let mut world = world();
    world.create(0, 0, 1);
    world.claim_next(0, 0);
    assert_eq!(state_of(&world, 0), "active", "created with a time that is over");
    world.delay(0, 0, 0);
    world.promote_delayed(0);
    assert!(world.is_eligible(0), "delayed until a time that is over");
    world.claim_next(0, 1);
    assert_eq!(state_of(&world, 0), "active");
    in_order(&world);
}

#[test]
fn a_resume_with_delay_comes_back() {
    let mut world = world();
    world.create(0, 0, 2);
    world.claim_next(0, 0);
    world.suspend(0, 0, 0);
    assert_eq!(state_of(&world, 0), "suspended");
    world.resume(0, 0);
    assert_eq!(state_of(&world, 0), "delayed");
    world.promote_delayed(0);
    assert_eq!(state_of(&world, 0), "delayed", "not before its time");
    world.wait_ms(1_100);
    world.promote_delayed(0);
    world.claim_next(0, 1);
    assert_eq!(state_of(&world, 0), "active");
    assert_eq!(world.field(&execution(0), "total_attempt_count"), "1", "the same attempt goes on");
    in_order(&world);
}

#[test]
fn a_quorum_never_fires_while_its_edges_are_still_being_added() {
    let mut world = world();
    world.create_flow(0);
    for member in [0, 1, 3, 4] {
        world.create(member, 0, 2);
        world.add_member(0, member);
    }
    world.set_group(0, 4, 2);
    let group = Key::flow(PARTITION, flow(0)).edge_group(&execution(4));
    let verdict =
        |world: &World| world.snapshot().hash(&group).unwrap().text("group_state").to_owned();
    // Two of three must succeed; the first fails before the others are even known.
    world.stage_and_apply(0, 0, 4);
    world.cancel(0, 0);
    world.resolve_outgoing(0, 1);
    assert_eq!(verdict(&world), "pending");
    assert_eq!(state_of(&world, 4), "waiting_children");
    world.stage_and_apply(0, 1, 4);
    world.stage_and_apply(0, 3, 4);
    for upstream in [1, 3] {
        assert_eq!(verdict(&world), "pending");
        world.operator_claim(upstream, 0);
        world.complete(upstream, 0);
        world.resolve_outgoing(upstream, 1);
    }
    assert_eq!(verdict(&world), "satisfied");
    assert!(world.is_eligible(4));
    in_order(&world);
}

#[test]
fn one_executions_signal_or_token_never_resumes_another() {
    let mut world = world();
    for slot in [0, 1] {
        world.create(slot, 0, 2);
        world.operator_claim(slot, 0);
        world.suspend(slot, 0, 0);
    }
    // The latest waitpoint comes first: 0 is that of the second execution.
    for (own, wrong_in) in [0, 1].into_iter().flat_map(|own| [0, 1, 2].map(|how| (own, how))) {
        world.stray_signal(own, 0, wrong_in);
    }
    assert_eq!([0, 1].map(|slot| state_of(&world, slot)), ["suspended", "suspended"]);
    world.signal(1, 0);
    world.repeat_signal(0);
    assert_eq!([0, 1].map(|slot| state_of(&world, slot)), ["waiting", "suspended"]);
    in_order(&world);
}
