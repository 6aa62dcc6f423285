//! What a quota holds back goes on when a slot is free, and not at the next round: these engines
//! make one round in an hour.

use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::call::budget::{BlockExecutionForAdmission, HoldReason};
use selvedge_core::call::quota::{Admission, CheckAdmissionAndRecord, ReleaseAdmission};
use selvedge_core::engine::ScannerName;
use selvedge_core::id::QuotaPolicyId;
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_tests::rig::Rig;

use crate::kit::{World, core, execution, lane, only};

const QUOTA: &str = "00000000-0000-4000-8000-000000000888";
const HELD: usize = 3;

/// A policy of one quota, and how many may run at a time or within a second.
struct Quota {
    rig: Rig,
    rate: u64,
    cap: u64,
}

impl Quota {
    fn new(rate: u64, cap: u64) -> Self {
        let mut config = only(&[ScannerName::Unblock]);
        config.intervals.insert(ScannerName::Unblock, Duration::from_secs(3_600));
        let mut rig = Rig::new();
        rig.push = true;
        rig.start(config);
        rig.run(&format!(
            "HSET ff:quota:{{q:0}}:{QUOTA} max_requests_per_window {rate} \
             requests_per_window_seconds 1 active_concurrency_cap {cap}"
        ));
        for n in 0..=HELD {
            rig.create(&execution(n), "{}");
            rig.run(&format!("HSET {} quota_policy_id {QUOTA}", core(&execution(n))));
        }
        rig.run_for(1_000);
        Self { rig, rate, cap }
    }

    fn id() -> QuotaPolicyId {
        QUOTA.parse().unwrap()
    }

    fn now(&self) -> ServerTime {
        ServerTime(i64::try_from(self.rig.now_ms()).unwrap())
    }

    fn ask(&mut self, n: usize) -> Admission {
        let call = CheckAdmissionAndRecord {
            partition: Partition::quota(0),
            quota_policy_id: Self::id(),
            execution_id: execution(n).parse().unwrap(),
            now: self.now(),
            window_seconds: 1,
            rate_limit: self.rate,
            concurrency_cap: self.cap,
            jitter_ms: 0,
        };
        CheckAdmissionAndRecord::parse(self.rig.call(&call.command())).unwrap()
    }

    fn hold(&mut self, n: usize) {
        let call = BlockExecutionForAdmission {
            execution_id: execution(n).parse().unwrap(),
            lane_id: "default".parse().unwrap(),
            reason: HoldReason::Quota,
            detail: String::new(),
            now: self.now(),
        };
        BlockExecutionForAdmission::parse(self.rig.call(&call.command())).unwrap();
    }

    fn give_back(&mut self, n: usize) {
        let call = ReleaseAdmission {
            partition: Partition::quota(0),
            quota_policy_id: Self::id(),
            execution_id: execution(n).parse().unwrap(),
        };
        ReleaseAdmission::parse(self.rig.call(&call.command())).unwrap();
    }

    /// Which of them nothing holds back, in order.
    fn free(&mut self) -> Vec<usize> {
        (0..=HELD)
            .filter(|&n| {
                self.rig.field(&core(&execution(n)), "eligibility_state") == "eligible_now"
            })
            .collect()
    }
}

#[test]
fn a_slot_that_is_given_back_goes_to_the_next_at_once() {
    let mut quota = Quota::new(0, 1);
    assert_eq!(quota.ask(0), Admission::Admitted);
    for n in 1..=HELD {
        assert_eq!(quota.ask(n), Admission::ConcurrencyExceeded);
        quota.hold(n);
        quota.rig.run_for(1);
    }
    quota.rig.run_for(5_000);
    assert_eq!(quota.free(), [0], "the slot is taken");
    for n in 1..=HELD {
        quota.give_back(n - 1);
        quota.rig.run_for(100);
        assert_eq!(quota.free().last(), Some(&n), "the one that waits longest, and no other");
        assert_eq!(quota.ask(n), Admission::Admitted);
    }
    assert_eq!(quota.rig.call(&["EXISTS", &lane("blocked:quota")]), Value::Int(0));
}

#[test]
fn a_slot_that_became_free_before_somebody_was_held_back_is_found() {
    let mut quota = Quota::new(0, 1);
    assert_eq!(quota.ask(0), Admission::Admitted);
    assert_eq!(quota.ask(1), Admission::ConcurrencyExceeded);
    quota.give_back(0);
    quota.rig.run_for(100);
    quota.hold(1);
    quota.rig.run_for(600);
    assert_eq!(quota.free(), [0, 1, 2, 3]);
}

#[test]
fn many_that_are_held_back_at_once_cost_one_look() {
    let mut quota = Quota::new(0, 1);
    assert_eq!(quota.ask(0), Admission::Admitted);
    let before = quota.rig.batches;
    for n in 1..=HELD {
        quota.hold(n);
    }
    quota.rig.run_for(5_000);
    // The index, the records, the quota, its window: once, and not never.
    let looks = quota.rig.batches - before;
    assert!((1..=4).contains(&looks), "{looks} batches");
}

#[test]
fn a_window_lets_as_many_go_as_it_has_room_for_as_soon_as_it_has() {
    let mut quota = Quota::new(1, 0);
    assert_eq!(quota.ask(0), Admission::Admitted);
    for n in 1..=HELD {
        assert!(matches!(quota.ask(n), Admission::RateExceeded { .. }));
        quota.hold(n);
        quota.rig.run_for(1);
    }
    for n in 1..=HELD {
        quota.rig.run_for(900);
        assert_eq!(quota.free().len(), n, "the window is full");
        quota.rig.run_for(250);
        assert_eq!(quota.free().last(), Some(&n), "one more, and no more than one");
        assert_eq!(quota.ask(n), Admission::Admitted);
    }
}
