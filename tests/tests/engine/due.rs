//! Scanners over what is due: leases, delays, timeouts.

use selvedge_core::engine::ScannerName;
use selvedge_tests::rig::Rig;

use crate::kit::{World, core, execution, lane, only};

#[test]
fn a_dead_workers_execution_is_claimable_again() {
    let mut rig = Rig::new();
    let id = execution(1);
    rig.name(&id, "E1");
    rig.create(&id, "{}");
    rig.claim(&id, 5_000);
    rig.start(only(&[ScannerName::LeaseExpiry, ScannerName::LeaseReclaimer]));
    rig.run_for(7_000);
    assert_eq!(
        rig.trace,
        [
            "engine-1 repair_index E1 -> consistent",
            "engine-1 mark_lease_expired_if_due E1 -> marked_expired",
            "engine-1 requeue_lost_lease E1 -> requeued 1",
        ]
    );
    assert_eq!(rig.field(&core(&id), "public_state"), "waiting");
    rig.claim(&id, 5_000);
}

#[test]
fn l1_fifty_lost_leases_do_not_hide_the_next() {
    let mut rig = Rig::new();
    for n in 0..120 {
        rig.create(&execution(n), "{}");
        rig.claim(&execution(n), 1_000);
    }
    rig.start(only(&[ScannerName::LeaseExpiry]));
    rig.run_for(2_000);
    for n in 0..120 {
        let owner = rig.field(&core(&execution(n)), "ownership_state");
        assert_eq!(owner, "lease_expired_reclaimable", "{n}");
    }
    assert_eq!(rig.tally(ScannerName::LeaseExpiry).processed, 120);
}

#[test]
fn f1_poison_at_the_head_never_hides_what_is_behind() {
    let mut rig = Rig::new();
    for n in 0..60 {
        rig.run(&format!("SET {} text", core(&execution(n))));
        rig.run(&format!("ZADD {} {n} {}", lane("delayed"), execution(n)));
        rig.run(&format!("ZADD {} {n} garbage-{n}", lane("delayed")));
    }
    let id = execution(99);
    rig.create(&id, "{}");
    let core = core(&id);
    rig.run(&format!(
        "HSET {core} eligibility_state not_eligible_until_time blocking_reason waiting_for_delay \
         delay_until 500 public_state delayed"
    ));
    rig.run(&format!("ZADD {} 500 {id}", lane("delayed")));
    rig.run(&format!("ZREM {} {id}", lane("eligible")));
    rig.start(only(&[ScannerName::DelayedPromoter]));
    rig.run_for(100);
    assert_eq!(rig.field(&core, "public_state"), "waiting");
    let tally = rig.tally(ScannerName::DelayedPromoter);
    assert_eq!((tally.processed, tally.failed, tally.poisoned), (1, 60, 60));
    assert_eq!(
        rig.field("ff:aside:{fp:0}", &format!("{} garbage-7", lane("delayed"))),
        "not an execution id"
    );
}
