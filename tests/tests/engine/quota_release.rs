//! An execution that a quota holds is released when a slot is free, not at the next interval, which
//! is an hour here.

use std::time::Duration;

use selvedge_core::admission::QuotaTerms;
use selvedge_core::call::Function;
use selvedge_core::call::budget::{BlockExecutionForAdmission, HoldReason};
use selvedge_core::call::quota::{Admission, CheckAdmissionAndRecord, ReleaseAdmission};
use selvedge_core::engine::ScannerName;
use selvedge_core::id::QuotaPolicyId;
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, execution, lane, only};

const QUOTA: &str = "00000000-0000-4000-8000-000000000888";
const HELD: usize = 3;

/// A policy of one quota.
struct Quota {
    harness: Harness,
}

impl Quota {
    /// How many may start within a second, and how many may run at a time.
    fn new(rate: u64, cap: u64) -> Self {
        Self::with_window(rate, 1, cap)
    }

    fn with_window(rate: u64, window_s: u64, cap: u64) -> Self {
        let mut config = only(&[ScannerName::Unblock]);
        config.intervals.insert(ScannerName::Unblock, Duration::from_secs(3_600));
        let mut harness = Harness::new();
        harness.push = true;
        harness.start(config);
        harness.run(&format!(
            "HSET ff:quota:{{q:0}}:{QUOTA} max_requests_per_window {rate} \
             requests_per_window_seconds {window_s} active_concurrency_cap {cap}"
        ));
        for n in 0..=HELD {
            harness.create(&execution(n), "{}");
            harness.run(&format!("HSET {} quota_policy_id {QUOTA}", core(&execution(n))));
        }
        harness.run_for(1_000);
        Self { harness }
    }

    fn id() -> QuotaPolicyId {
        QUOTA.parse().unwrap()
    }

    fn now(&self) -> ServerTime {
        ServerTime(i64::try_from(self.harness.now_ms()).unwrap())
    }

    /// Asks for admission as a worker does.
    fn ask(&mut self, n: usize) -> Admission {
        let record = format!("ff:quota:{{q:0}}:{QUOTA}");
        let fields = QuotaTerms::FIELDS
            .map(|field| self.harness.field(&record, core::str::from_utf8(field).unwrap()));
        let terms = QuotaTerms::read(&fields);
        let call = CheckAdmissionAndRecord {
            partition: Partition::quota(0),
            quota_policy_id: Self::id(),
            execution_id: execution(n).parse().unwrap(),
            now: self.now(),
            window_seconds: terms.window_seconds,
            rate_limit: terms.rate,
            concurrency_cap: terms.concurrency_cap,
            jitter_ms: 0,
        };
        CheckAdmissionAndRecord::parse(self.harness.call(&call.command())).unwrap()
    }

    fn hold(&mut self, n: usize) {
        let call = BlockExecutionForAdmission {
            execution_id: execution(n).parse().unwrap(),
            lane_id: "default".parse().unwrap(),
            reason: HoldReason::Quota,
            detail: String::new(),
            now: self.now(),
        };
        BlockExecutionForAdmission::parse(self.harness.call(&call.command())).unwrap();
    }

    fn give_back(&mut self, n: usize) {
        let call = ReleaseAdmission {
            partition: Partition::quota(0),
            quota_policy_id: Self::id(),
            execution_id: execution(n).parse().unwrap(),
        };
        ReleaseAdmission::parse(self.harness.call(&call.command())).unwrap();
    }

    /// Which of them are not held, in order.
    fn free(&mut self) -> Vec<usize> {
        (0..=HELD)
            .filter(|&n| {
                self.harness.field(&core(&execution(n)), "eligibility_state") == "eligible_now"
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
        quota.harness.run_for(1);
    }
    quota.harness.run_for(5_000);
    assert_eq!(quota.free(), [0], "the slot is taken");
    for n in 1..=HELD {
        quota.give_back(n - 1);
        quota.harness.run_for(100);
        assert_eq!(quota.free().last(), Some(&n), "the one that waits longest, and no other");
        assert_eq!(quota.ask(n), Admission::Admitted);
    }
    assert_eq!(quota.harness.call(&["EXISTS", &lane("blocked:quota")]), Value::Int(0));
}

#[test]
fn a_slot_that_became_free_before_an_execution_was_held_is_found() {
    let mut quota = Quota::new(0, 1);
    assert_eq!(quota.ask(0), Admission::Admitted);
    assert_eq!(quota.ask(1), Admission::ConcurrencyExceeded);
    quota.give_back(0);
    quota.harness.run_for(100);
    quota.hold(1);
    quota.harness.run_for(600);
    assert_eq!(quota.free(), [0, 1, 2, 3]);
}

#[test]
fn many_executions_held_at_once_cost_one_look() {
    let mut quota = Quota::new(0, 1);
    assert_eq!(quota.ask(0), Admission::Admitted);
    let before = quota.harness.batches;
    for n in 1..=HELD {
        quota.hold(n);
    }
    quota.harness.run_for(5_000);
    // The index, the records, the quota, its window: each read once.
    let looks = quota.harness.batches - before;
    assert!((1..=4).contains(&looks), "{looks} batches");
}

#[test]
fn a_window_releases_as_many_as_it_has_room_for_at_once() {
    let mut quota = Quota::new(1, 0);
    assert_eq!(quota.ask(0), Admission::Admitted);
    for n in 1..=HELD {
        assert!(matches!(quota.ask(n), Admission::RateExceeded { .. }));
        quota.hold(n);
        quota.harness.run_for(1);
    }
    for n in 1..=HELD {
        quota.harness.run_for(900);
        assert_eq!(quota.free().len(), n, "the window is full");
        quota.harness.run_for(250);
        assert_eq!(quota.free().last(), Some(&n), "one more, and no more than one");
        assert_eq!(quota.ask(n), Admission::Admitted);
    }
}

/// The contract takes a window of zero seconds for one of 60. An engine that took it for no window
/// at all would release what every worker holds back again.
#[test]
fn a_window_of_zero_is_the_default_window_for_the_engine_as_for_a_worker() {
    let mut quota = Quota::with_window(1, 0, 0);
    assert_eq!(quota.ask(0), Admission::Admitted);
    assert!(matches!(quota.ask(1), Admission::RateExceeded { .. }));
    quota.hold(1);
    quota.harness.run_for(59_000);
    assert_eq!(quota.free(), [0, 2, 3], "the window is full");
    quota.harness.run_for(2_000);
    assert_eq!(quota.free(), [0, 1, 2, 3]);
    assert_eq!(quota.ask(1), Admission::Admitted);
}
