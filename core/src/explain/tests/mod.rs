mod present;

use alloc::collections::BTreeMap;

use super::*;
use crate::audit::{Entry, Stored};
use crate::id::Namespace;
use crate::lane_state::LaneStates;
use crate::partition::PartitionCounts;

const ID: &str = "{fp:7}:550e8400-e29b-41d4-a716-446655440000";
const UPSTREAM: &str = "{fp:7}:550e8400-e29b-41d4-a716-446655440001";
const EDGE: &str = "11111111-1111-4111-8111-111111111111";
const FLOW: &str = "22222222-2222-4222-8222-222222222222";
const WAITPOINT: &str = "33333333-3333-4333-8333-333333333333";
const NOW: ServerTime = ServerTime(1_000_000);

const READY: &str =
    "runnable/unowned/eligible_now/waiting_for_worker/none/pending_first_attempt/waiting";
const BLOCKED: &str = "runnable/unowned/blocked_by_dependencies/waiting_for_children/none/\
                       pending_first_attempt/waiting_children";
const RUNNING: &str = "active/leased/not_applicable/none/none/running_attempt/active";
const SUSPENDED: &str =
    "suspended/unowned/not_applicable/waiting_for_signal/none/attempt_interrupted/suspended";
const DONE: &str = "terminal/unowned/not_applicable/none/success/attempt_terminal/completed";

struct Records(Snapshot);

impl Records {
    fn new(vector: &str, more: &[(&str, &str)]) -> Self {
        let mut records = Self(Snapshot::new(NOW));
        records.execution(ID, vector, &[&[("namespace", "default")], more].concat());
        records
    }

    fn execution(&mut self, id: &str, vector: &str, more: &[(&str, &str)]) {
        let mut fields: Vec<(&str, &str)> =
            StateVector::FIELDS.into_iter().zip(vector.split('/')).collect();
        fields.extend(more);
        self.hash(&format!("ff:exec:{{fp:7}}:{id}:core"), &fields);
    }

    fn hash(&mut self, key: &str, fields: &[(&str, &str)]) {
        let fields =
            fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        self.put(key, Stored::Hash(fields.collect()));
    }

    fn put(&mut self, key: &str, stored: Stored) {
        let read: Key = key.parse().expect("a key of ours");
        self.0.put(read.to_string().as_bytes(), Some(Entry { stored, expires_at: None }));
    }

    fn why(&self) -> Explanation {
        self.why_with(Engines::Alive(1), &[])
    }

    fn why_with(&self, engines: Engines, workers: &[(&str, &str)]) -> Explanation {
        let offer = |(lanes, capabilities): &(&str, &str)| WorkerOffer {
            lanes: lanes.split(',').map(ToOwned::to_owned).collect(),
            capabilities: (*capabilities).to_owned(),
            kinds: None,
        };
        let workers = [(Namespace::new("default"), workers.iter().map(offer).collect())].into();
        let present = Present {
            config: &EngineConfig::default(),
            engines,
            lanes: &LaneStates::default(),
            workers: &workers,
        };
        explain(&self.0, &id(), present).expect("it has a record")
    }
}

fn read(snapshot: &Snapshot) -> Vec<Read> {
    reads(snapshot, &id(), PartitionCounts::DEFAULT)
}

fn id() -> ExecutionId {
    ID.parse().expect("an id")
}

fn scanned(scanner: ScannerName, by: i64) -> (UnblockedBy, DueBy) {
    (UnblockedBy::Scanner(scanner), DueBy::Time(ServerTime(by)))
}

#[test]
fn nothing_is_said_about_a_stranger() {
    let empty = Snapshot::new(NOW);
    let (config, workers) = (EngineConfig::default(), BTreeMap::new());
    let present = Present {
        config: &config,
        engines: Engines::Never,
        lanes: &LaneStates::default(),
        workers: &workers,
    };
    assert_eq!(explain(&empty, &id(), present), None);
    assert_eq!(read(&empty).len(), 7, "what the id names");
}

#[test]
fn an_entry_that_is_missing_is_put_back_by_the_index_reconciler() {
    let records = Records::new(READY, &[]);
    let place = (&"default".parse().expect("a lane"), LaneIndex::Eligible);
    let (config, workers) = (EngineConfig::default(), BTreeMap::new());
    let present = Present {
        config: &config,
        engines: Engines::Alive(1),
        lanes: &LaneStates::default(),
        workers: &workers,
    };
    let why = explain_missing(&records.0, &id(), present, place).expect("it has a record");
    assert!(why.headline.contains("missing from the eligible index of lane default"), "{why:?}");
    assert_eq!(why.waits[0].unblocked_by, UnblockedBy::Scanner(ScannerName::IndexReconciler));
    assert_eq!(why.waits[1..], records.why().waits);
}

#[test]
fn a_record_that_lacks_a_part_of_its_state_says_which() {
    let why = Records::new(READY, &[("eligibility_state", "")]).why();
    assert_eq!(why.headline, "its record is damaged: it lacks eligibility_state");
}

#[test]
fn ready_work_waits_for_a_worker_that_can_do_it() {
    let why = Records::new(READY, &[("lane_id", "gpu"), ("required_capabilities", "cuda")]).why();
    let who = "a worker of lane gpu that offers cuda".to_owned();
    assert_eq!(why.waits[0].unblocked_by, UnblockedBy::Worker(who));
}

#[test]
fn ready_work_of_a_cancelled_flow_waits_for_the_cancel() {
    let mut records = Records::new(READY, &[("flow_id", FLOW)]);
    records.hash(&format!("ff:flow:{{fp:7}}:{FLOW}:core"), &[("public_flow_state", "cancelled")]);
    assert_eq!(
        records.why().waits[0].unblocked_by,
        UnblockedBy::Scanner(ScannerName::CancelReconciler)
    );
}

#[test]
fn a_lease_that_ran_out_is_noticed_within_two_intervals() {
    let why = Records::new(RUNNING, &[("lease_expires_at", "999000")]).why();
    let wait = &why.waits[0];
    // Twice 1.5 s until it is requeued.
    let expected = scanned(ScannerName::LeaseExpiry, 999_000 + 3_000);
    assert_eq!((wait.unblocked_by.clone(), wait.by), expected);
}

#[test]
fn what_no_engine_came_for_in_time_is_overdue() {
    let why = Records::new(RUNNING, &[("lease_expires_at", "900000")]).why();
    assert_eq!(why.waits[0].by, DueBy::Overdue(ServerTime(903_000)));
}

#[test]
fn a_running_attempt_is_limited_by_its_lease_its_timeout_and_its_deadline() {
    let mut records = Records::new(RUNNING, &[("lease_expires_at", "1005000")]);
    for index in ["attempt_timeout", "execution_deadline"] {
        let score = [(ID.to_owned(), 1_010_000.0)].into();
        records.put(&format!("ff:idx:{{fp:7}}:{index}"), Stored::Zset(score));
    }
    let why = records.why();
    let unblocked_by: Vec<&UnblockedBy> =
        why.limits.iter().map(|limit| &limit.unblocked_by).collect();
    assert_eq!(
        unblocked_by,
        [
            &UnblockedBy::Scanner(ScannerName::ExecutionDeadline),
            &UnblockedBy::Scanner(ScannerName::AttemptTimeout),
            &UnblockedBy::Scanner(ScannerName::LeaseExpiry),
        ]
    );
    assert_eq!(why.limits[1].by, DueBy::Time(ServerTime(1_010_000 + 4_000)));
}

#[test]
fn an_attempt_that_lost_its_lease_is_limited_by_its_timeout_too() {
    let mut records = Records::new(RUNNING, &[("lease_expires_at", "999000")]);
    let score = [(ID.to_owned(), 1_010_000.0)].into();
    records.put("ff:idx:{fp:7}:attempt_timeout", Stored::Zset(score));
    let why = records.why();
    assert_eq!(
        (why.waits[0].reason, why.limits[0].reason),
        (Reason::LostLease, Reason::AttemptTimeout)
    );
}

#[test]
fn a_blocked_child_names_its_upstream_or_who_brings_its_word() {
    let mut records = Records::new(BLOCKED, &[]);
    records.put(
        &format!("ff:exec:{{fp:7}}:{ID}:deps:unresolved"),
        Stored::Set([EDGE.to_owned()].into()),
    );
    let dependency = format!("ff:exec:{{fp:7}}:{ID}:dep:{EDGE}");
    records.hash(&dependency, &[("upstream_execution_id", UPSTREAM)]);
    records.execution(UPSTREAM, RUNNING, &[]);
    let upstream: ExecutionId = UPSTREAM.parse().expect("an id");
    assert_eq!(records.why().waits[0].unblocked_by, UnblockedBy::Upstream(upstream.clone()));
    assert!(read(&records.0).contains(&Read::Hash(Key::execution(&upstream).core())));

    records.execution(UPSTREAM, DONE, &[]);
    let why = records.why();
    let expected = scanned(ScannerName::DependencyReconciler, NOW.0 + 30_000);
    assert_eq!((why.waits[0].unblocked_by.clone(), why.waits[0].by), expected);
}

#[test]
fn a_replayed_child_of_an_upstream_that_failed_waits_for_an_operator() {
    let mut records = Records::new(BLOCKED, &[]);
    records.put(
        &format!("ff:exec:{{fp:7}}:{ID}:deps:unresolved"),
        Stored::Set([EDGE.to_owned()].into()),
    );
    let dependency = format!("ff:exec:{{fp:7}}:{ID}:dep:{EDGE}");
    records.hash(&dependency, &[("upstream_execution_id", UPSTREAM), ("outlived_run", "0")]);
    let failed = DONE.replace("success", "failed").replace("completed", "failed");
    records.execution(UPSTREAM, &failed, &[]);
    let why = records.why();
    assert_eq!(why.waits[0].unblocked_by, UnblockedBy::Operator, "{why:?}");
    records.execution(UPSTREAM, &failed, &[("replay_count", "1")]);
    let expected = scanned(ScannerName::DependencyReconciler, NOW.0 + 30_000);
    let why = records.why();
    assert_eq!((why.waits[0].unblocked_by.clone(), why.waits[0].by), expected, "another end");
}

#[test]
fn a_lost_upstream_is_told_from_one_that_is_not_created_yet() {
    let mut records = Records::new(BLOCKED, &[("flow_id", FLOW)]);
    records.put(
        &format!("ff:exec:{{fp:7}}:{ID}:deps:unresolved"),
        Stored::Set([EDGE.to_owned()].into()),
    );
    let dependency = format!("ff:exec:{{fp:7}}:{ID}:dep:{EDGE}");
    records.hash(&dependency, &[("upstream_execution_id", UPSTREAM)]);
    let members: Key = format!("ff:flow:{{fp:7}}:{FLOW}:members").parse().expect("a key");
    let asked = Read::Member(members.clone(), UPSTREAM.to_owned());
    assert!(read(&records.0).contains(&asked));
    assert_eq!(records.why().waits[0].unblocked_by, UnblockedBy::Submitter);
    records.put(&members.to_string(), Stored::Set([UPSTREAM.to_owned()].into()));
    let why = records.why();
    assert!(why.waits[0].on.contains("whose record is lost"), "{why:?}");
    let expected = scanned(ScannerName::DependencyReconciler, NOW.0 + 30_000);
    assert_eq!((why.waits[0].unblocked_by.clone(), why.waits[0].by), expected);
}

#[test]
fn a_child_that_was_skipped_for_a_lost_upstream_names_it() {
    let skipped = DONE.replace("success", "skipped").replace("completed", "skipped");
    let reason = format!("upstream_lost:{UPSTREAM}");
    let why = Records::new(&skipped, &[("failure_reason", &reason)]).why();
    let told = format!("it needed {UPSTREAM}, whose record was deleted");
    assert!(why.headline.contains(&told), "{why:?}");
}

#[test]
fn a_child_of_an_unfinished_submission_waits_for_the_submitter() {
    let why = Records::new(BLOCKED, &[("unsealed", "1")]).why();
    assert_eq!(why.waits[0].unblocked_by, UnblockedBy::Submitter);
}

#[test]
fn a_suspension_names_the_signals_that_are_missing() {
    let mut records = Records::new(SUSPENDED, &[]);
    records.hash(
        &format!("ff:exec:{{fp:7}}:{ID}:suspension:current"),
        &[
            ("suspension_id", "s"),
            ("waitpoint_id", WAITPOINT),
            ("reason_code", "waiting_for_approval"),
        ],
    );
    records.hash(
        &format!("ff:wp:{{fp:7}}:{WAITPOINT}"),
        &[("state", "active"), ("waitpoint_key", "wpk:1")],
    );
    let condition = format!("ff:wp:{{fp:7}}:{WAITPOINT}:condition");
    let matchers = [
        ("closed", "0"),
        ("match_mode", "all"),
        ("total_matchers", "2"),
        ("matcher:0:name", "paid"),
        ("matcher:0:satisfied", "1"),
        ("matcher:1:name", "shipped"),
        ("matcher:1:satisfied", "0"),
    ];
    records.hash(&condition, &matchers);
    let why = records.why();
    assert_eq!(why.waits[0].on, "all of the signals shipped");
    assert_eq!(why.waits.len(), 1);

    records.hash(&condition, &[("closed", "1")]);
    assert_eq!(
        records.why().waits[0].unblocked_by,
        UnblockedBy::Nobody,
        "nothing can wake it any more"
    );
}

#[test]
fn a_broken_record_is_for_the_operator() {
    let why = Records::new("no/such/words/in/the/contract/ever", &[]).why();
    assert_eq!(why.waits[0].unblocked_by, UnblockedBy::Operator);
}

#[test]
fn what_has_ended_waits_for_nothing() {
    assert!(Records::new(DONE, &[("completed_at", "5")]).why().waits.is_empty());
}
