//! Explanations of the present: who runs, which limit is full, and what a flow waits for.

use super::*;
use crate::call::quota::ADMISSION_DIMENSION;
use crate::state::TerminalOutcome;

const BUDGET: &str = "44444444-4444-4444-8444-444444444444";
const QUOTA: &str = "55555555-5555-4555-8555-555555555555";
const HELD: &str =
    "runnable/unowned/blocked_by_budget/waiting_for_budget/none/pending_first_attempt/rate_limited";
const RATED: &str =
    "runnable/unowned/blocked_by_quota/waiting_for_quota/none/pending_first_attempt/rate_limited";
const ROUTED: &str = "runnable/unowned/blocked_by_route/waiting_for_capable_worker/none/\
                      pending_first_attempt/waiting";

fn supply(workers: &[(&str, &str)]) -> (Reason, String) {
    let fields = [("lane_id", "gpu"), ("required_capabilities", "cuda,fast")];
    let why = Records::new(READY, &fields).why_with(Engines::Alive(1), workers);
    (why.waits[0].reason, why.waits[0].now.clone())
}

#[test]
fn ready_work_says_whether_a_worker_that_is_alive_can_run_it() {
    let none = |now: &str| (Reason::NoWorker, now.to_owned());
    assert_eq!(supply(&[]), none("no worker is registered in namespace default"));
    assert_eq!(
        supply(&[("mail", "")]),
        none("no worker serves lane gpu; 1 worker serves lane mail")
    );
    assert_eq!(
        supply(&[("mail", ""), ("web,mail", "cuda")]),
        none("no worker serves lane gpu; 2 workers serve lanes mail, web")
    );
    assert_eq!(
        supply(&[("gpu", "fast"), ("gpu", ""), ("gpu", ""), ("mail", "cuda,fast")]),
        none("no worker has `cuda`; 3 workers serve lane gpu")
    );
    assert_eq!(
        supply(&[("gpu", "fast"), ("gpu", "cuda")]),
        none("no worker has all of `cuda`, `fast`; 2 workers serve lane gpu")
    );
    let can = |now: &str| (Reason::Worker, now.to_owned());
    assert_eq!(supply(&[("gpu", "cuda,fast")]), can("1 worker is alive that can run it"));
    assert_eq!(
        supply(&[("gpu", "cuda,fast"), ("gpu", "a,cuda,fast")]),
        can("2 workers are alive that can run it")
    );
}

#[test]
fn ready_work_says_whether_a_worker_handles_its_kind() {
    let records = Records::new(READY, &[("execution_kind", "charge")]);
    let config = EngineConfig::default();
    let now = |kinds: &[Option<&str>]| {
        let offer = |kinds: &Option<&str>| WorkerOffer {
            lanes: ["default".to_owned()].into(),
            kinds: kinds.map(|kinds| kinds.split(',').map(ToOwned::to_owned).collect()),
            ..WorkerOffer::default()
        };
        let workers =
            [(Namespace::new("default"), kinds.iter().map(offer).collect::<Vec<_>>())].into();
        let present = Present {
            config: &config,
            engines: Engines::Alive(1),
            lanes: &LaneStates::default(),
            workers: &workers,
        };
        let why = explain(&records.0, &id(), present).expect("it has a record");
        (why.waits[0].reason, why.waits[0].now.clone())
    };
    let none = "no worker handles kind `charge`; 2 workers serve lane default with kinds a, b";
    assert_eq!(now(&[Some("a"), Some("a,b")]), (Reason::NoWorker, none.to_owned()));
    let none = "no worker handles kind `charge`; 1 worker serves lane default with kind a";
    assert_eq!(now(&[Some("a")]), (Reason::NoWorker, none.to_owned()));
    let can = (Reason::Worker, "1 worker is alive that can run it".to_owned());
    assert_eq!(now(&[Some("a"), Some("charge,a")]), can);
    assert_eq!(now(&[Some("a"), None]), can, "one that does not say may handle it");
}

#[test]
fn work_that_no_worker_was_capable_of_is_released_when_one_is() {
    let records = Records::new(ROUTED, &[("required_capabilities", "cuda")]);
    let why = records.why_with(Engines::Alive(1), &[("default", "")]);
    assert_eq!(why.waits[0].now, "no worker has `cuda`; 1 worker serves lane default");
    assert_eq!(why.urgency(), Urgency::NoWorker);
    let why = records.why_with(Engines::Alive(1), &[("default", "cuda")]);
    assert_eq!(why.waits[0].reason, Reason::Release);
    let expected = scanned(ScannerName::Unblock, NOW.0 + 10_000);
    assert_eq!((why.waits[0].unblocked_by.clone(), why.waits[0].by), expected);
}

fn budget_key(part: &str) -> String {
    let id: crate::id::BudgetId = BUDGET.parse().expect("an id");
    format!("ff:budget:{}:{BUDGET}{part}", PartitionCounts::DEFAULT.of_budget(id))
}

#[test]
fn a_full_budget_says_how_full_it_is_and_when_it_is_reset() {
    let mut records = Records::new(HELD, &[("budget_ids", BUDGET)]);
    assert!(read(&records.0).iter().any(|read| {
        matches!(read, Read::Hash(key) if key.to_string() == budget_key(":usage"))
    }));
    records.hash(&budget_key(":limits"), &[("hard:tokens", "100")]);
    records.hash(&budget_key(":usage"), &[("tokens", "120")]);
    records.hash(&budget_key(""), &[("reset_interval_ms", "0")]);
    let wait = &records.why().waits[0];
    assert_eq!((wait.reason, &wait.unblocked_by), (Reason::Budget, &UnblockedBy::Operator));
    assert_eq!(
        wait.now,
        format!(
            "120 of 100 tokens are used; it never resets by itself: `selvedge budget reset \
             {BUDGET}` begins a new period"
        )
    );
    let full = wait.limit.clone().expect("a limit");
    assert_eq!((full.dimension.as_str(), full.used, full.limit), ("tokens", 120, 100));
    assert_eq!((full.id.as_str(), full.frees_at), (BUDGET, None));

    let period = [("reset_interval_ms", "60000"), ("next_reset_at", "1030000")];
    records.hash(&budget_key(""), &period);
    let wait = &records.why().waits[0];
    assert_eq!(wait.now, "120 of 100 tokens are used; the next period begins at 1030000");
    // The reset, then the release.
    let expected = scanned(ScannerName::BudgetReset, 1_030_000 + 30_000 + 10_000);
    assert_eq!((wait.unblocked_by.clone(), wait.by), expected);

    records.hash(&budget_key(":usage"), &[("tokens", "99")]);
    let wait = &records.why().waits[0];
    assert_eq!((wait.reason, wait.now.as_str()), (Reason::Release, "its budgets have room again"));
    let expected = scanned(ScannerName::Unblock, NOW.0 + 10_000);
    assert_eq!((wait.unblocked_by.clone(), wait.by), expected);
}

#[test]
fn the_limit_of_a_quota_that_binds_now_is_named() {
    let id: crate::id::QuotaPolicyId = QUOTA.parse().expect("an id");
    let key =
        |part: &str| format!("ff:quota:{}:{QUOTA}{part}", PartitionCounts::DEFAULT.of_quota(id));
    let mut records = Records::new(RATED, &[("quota_policy_id", QUOTA)]);
    let policy = [
        ("max_requests_per_window", "2"),
        ("requests_per_window_seconds", "60"),
        ("active_concurrency_cap", "3"),
    ];
    records.hash(&key(""), &policy);
    let window = format!("{}:window:{ADMISSION_DIMENSION}", key(""));
    let asked = Read::FromEnd(window.parse().expect("a key"), 2);
    assert!(read(&records.0).contains(&asked), "the start that must leave the window");

    // The window is full, those that run are not.
    records.put(&window, Stored::Zset([("a".to_owned(), 950_000.0)].into()));
    records.put(&key(":concurrency"), Stored::Text(b"1".to_vec()));
    let why = records.why();
    assert_eq!(why.waits.len(), 1, "{why:?}");
    assert_eq!(why.waits[0].reason, Reason::QuotaRate);
    assert_eq!(
        why.waits[0].now,
        "2 of 2 have started within the last 60 s; there is room at 1010001"
    );
    let full = why.waits[0].limit.clone().expect("a limit");
    assert_eq!((full.used, full.limit, full.frees_at), (2, 2, Some(ServerTime(1_010_001))));

    // Both.
    records.put(&key(":concurrency"), Stored::Text(b"3".to_vec()));
    let reasons: Vec<Reason> = records.why().waits.iter().map(|wait| wait.reason).collect();
    assert_eq!(reasons, [Reason::QuotaRate, Reason::QuotaConcurrency]);

    // That start has left the window.
    records.put(&window, Stored::Zset([("a".to_owned(), 940_000.0)].into()));
    let why = records.why();
    assert_eq!(why.waits.len(), 1, "{why:?}");
    assert_eq!(why.waits[0].now, "3 of 3 run");
    assert_eq!(why.urgency(), Urgency::Limit);

    records.put(&key(":concurrency"), Stored::Text(b"0".to_vec()));
    let wait = &records.why().waits[0];
    let told = format!("quota {QUOTA} has room; those held first are released first");
    assert_eq!((wait.reason, &wait.now), (Reason::Release, &told));
}

#[test]
fn ready_work_names_the_limits_that_will_hold_it() {
    let mut records = Records::new(READY, &[("budget_ids", BUDGET)]);
    records.hash(&budget_key(":limits"), &[("hard:tokens", "1")]);
    records.hash(&budget_key(":usage"), &[("tokens", "1")]);
    let reasons: Vec<Reason> = records.why().waits.iter().map(|wait| wait.reason).collect();
    assert_eq!(reasons, [Reason::NoWorker, Reason::Budget]);
}

#[test]
fn a_skipped_execution_names_who_failed_and_why() {
    let skipped = DONE.replace("success", "skipped").replace("completed", "skipped");
    let mut records = Records::new(&skipped, &[("completed_at", "999000")]);
    assert!(read(&records.0).contains(&Read::Members(Key::execution(&id()).dependencies_all())));
    let edges = format!("ff:exec:{{fp:7}}:{ID}:deps:all_edges");
    records.put(&edges, Stored::Set([EDGE.to_owned()].into()));
    let dependency = format!("ff:exec:{{fp:7}}:{ID}:dep:{EDGE}");
    records.hash(&dependency, &[("upstream_execution_id", UPSTREAM), ("state", "impossible")]);
    let failed = DONE.replace("success", "failed").replace("completed", "failed");
    records.execution(UPSTREAM, &failed, &[("failure_reason", "no such host")]);
    let why = records.why();
    assert_eq!(
        why.headline,
        format!("it was skipped at 999000: it needed {UPSTREAM}, which failed: no such host")
    );
    let cause = &why.skipped_for[0];
    assert_eq!(
        (cause.outcome, cause.reason.as_str()),
        (Some(TerminalOutcome::Failed), "no such host")
    );
    assert_eq!(why.urgency(), Urgency::Ended);

    records.execution(UPSTREAM, READY, &[]);
    assert!(
        records.why().headline.ends_with("which had not succeeded then and was replayed since")
    );
    records.hash(&dependency, &[("upstream_execution_id", UPSTREAM), ("state", "satisfied")]);
    assert!(records.why().skipped_for.is_empty());
}

#[test]
fn a_cancelled_flow_stops_its_members_only_if_the_cancel_covers_them() {
    let mut records = Records::new(READY, &[("flow_id", FLOW)]);
    let core = format!("ff:flow:{{fp:7}}:{FLOW}:core");
    let cancelled = |policy: &'static str| {
        [("public_flow_state", "cancelled"), ("cancellation_policy", policy)]
    };
    records.hash(&core, &cancelled("flow_only"));
    assert_eq!(records.why().waits[0].reason, Reason::NoWorker);
    records.hash(&core, &cancelled("cancel_all"));
    assert_eq!(
        (records.why().waits[0].reason, records.why().waits[0].by),
        (Reason::Cancellation, DueBy::Unknown)
    );

    // An engine comes for those that are listed, when their time has come.
    let pending = format!("ff:flow:{{fp:7}}:{FLOW}:pending_cancels");
    records.put(&pending, Stored::Set([ID.to_owned()].into()));
    let backlog = Stored::Zset([(FLOW.to_owned(), 1_020_000.0)].into());
    records.put("ff:idx:{fp:7}:cancel_backlog", backlog);
    let expected = scanned(ScannerName::CancelReconciler, 1_020_000 + 30_000);
    let wait = &records.why().waits[0];
    assert_eq!((wait.unblocked_by.clone(), wait.by), expected);
    let running = [("lease_expires_at", "1005000"), ("flow_id", FLOW)];
    records.execution(ID, RUNNING, &running);
    let why = records.why();
    assert_eq!((why.limits[0].reason, why.limits[0].by), (Reason::Cancellation, expected.1));
}

#[test]
fn the_word_of_an_ended_upstream_is_overdue_two_intervals_after_its_end() {
    let mut records = Records::new(BLOCKED, &[]);
    let open = format!("ff:exec:{{fp:7}}:{ID}:deps:unresolved");
    records.put(&open, Stored::Set([EDGE.to_owned()].into()));
    let dependency = format!("ff:exec:{{fp:7}}:{ID}:dep:{EDGE}");
    records.hash(&dependency, &[("upstream_execution_id", UPSTREAM)]);
    records.execution(UPSTREAM, DONE, &[("completed_at", "900000")]);
    let why = records.why();
    assert_eq!(why.waits[0].by, DueBy::Overdue(ServerTime(930_000)));
    assert_eq!(why.urgency(), Urgency::Overdue);

    // The edge came later than that end.
    let meta = format!("ff:exec:{{fp:7}}:{ID}:deps:meta");
    records.hash(&meta, &[("last_dependency_update_at", "990000")]);
    assert_eq!(records.why().waits[0].by, DueBy::Time(ServerTime(1_020_000)));
    records.put(&open, Stored::Set(["".to_owned()].into()));
    let why = records.why();
    assert_eq!(
        (why.waits[0].reason, why.waits[0].by),
        (Reason::Release, DueBy::Time(ServerTime(1_020_000)))
    );
}

#[test]
fn causes_are_grouped_worst_first_without_those_that_wait_for_others() {
    let ready = |lane: &str, moved: &str| {
        Records::new(READY, &[("lane_id", lane), ("last_transition_at", moved)]).why()
    };
    let served = Records::new(READY, &[]).why_with(Engines::Alive(1), &[("default", "")]);
    let running = Records::new(RUNNING, &[("lease_expires_at", "1005000")]).why();
    let late = Records::new(RUNNING, &[("lease_expires_at", "900000")]).why();
    let mut dependent = running.clone();
    dependent.state = None;
    dependent.waits[0].unblocked_by = UnblockedBy::Upstream(UPSTREAM.parse().expect("an id"));
    let done = Records::new(DONE, &[]).why();
    let found = causes(alloc::vec![
        ready("gpu", "7"),
        served,
        running,
        ready("gpu", "5"),
        ready("mail", "9"),
        late,
        dependent,
        done,
    ]);
    let told: Vec<(Urgency, usize)> =
        found.causes.iter().map(|cause| (cause.urgency, cause.count)).collect();
    assert_eq!(
        told,
        [
            (Urgency::Overdue, 1),
            (Urgency::NoWorker, 2),
            (Urgency::NoWorker, 1),
            (Urgency::Worker, 1)
        ]
    );
    assert_eq!(found.causes[1].example.moved_at, Some(ServerTime(5)), "the oldest");
    assert_eq!(found.causes[0].first, DueBy::Overdue(ServerTime(903_000)));
    assert_eq!((found.dependent, found.running, found.ended), (1, 1, 1));
}
