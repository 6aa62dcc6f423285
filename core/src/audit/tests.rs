//! Every state oracle on a small keyspace that is in order, and with one thing wrong in it: a flow
//! of two, of which the first runs and the second waits for it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::key::Key;
use crate::time::ServerTime;

const NOW: i64 = 1_700_000_000_000;
const FIRST: &str = "{fp:1}:00000000-0000-4000-8000-000000000001";
const SECOND: &str = "{fp:1}:00000000-0000-4000-8000-000000000002";
const ELSEWHERE: &str = "{fp:2}:00000000-0000-4000-8000-000000000003";
const FLOW: &str = "00000000-0000-4000-8000-00000000000f";
const EDGE: &str = "00000000-0000-4000-8000-00000000000e";
const WAITPOINT: &str = "00000000-0000-4000-8000-00000000000a";
const BUDGET: &str = "00000000-0000-4000-8000-00000000000b";
const QUOTA: &str = "00000000-0000-4000-8000-00000000000c";

/// Stands for `{fp:1}` in the names of keys below.
fn name(key: &str) -> String {
    let key = key.replace("FIRST", FIRST).replace("SECOND", SECOND);
    let key = key.replace("FLOW", FLOW).replace("EDGE", EDGE).replace("WAITPOINT", WAITPOINT);
    key.replace("BUDGET", BUDGET).replace("QUOTA", QUOTA)
}

struct Store(Snapshot);

impl Store {
    fn set_to(&mut self, key: &str, stored: Option<Stored>) {
        let entry = stored.map(|stored| Entry { stored, expires_at: None });
        self.0.put(name(key).as_bytes(), entry);
    }

    /// `field=value` words.
    fn hash(&mut self, key: &str, words: &str) {
        let fields = words.split_whitespace().filter_map(|word| word.split_once('='));
        let fields = fields.map(|(field, value)| (field.into(), name(value).into_bytes()));
        self.set_to(key, Some(Stored::Hash(fields.collect())));
    }

    fn set(&mut self, key: &str, words: &str) {
        let members: BTreeSet<_> = words.split_whitespace().map(name).collect();
        self.set_to(key, (!members.is_empty()).then_some(Stored::Set(members)));
    }

    /// `member=score` words.
    fn zset(&mut self, key: &str, words: &str) {
        let members = words.split_whitespace().filter_map(|word| word.rsplit_once('='));
        let members: BTreeMap<_, _> = members
            .map(|(member, score)| (name(member), score.parse().unwrap_or_default()))
            .collect();
        self.set_to(key, (!members.is_empty()).then_some(Stored::Zset(members)));
    }

    fn drop(&mut self, key: &str) {
        self.set_to(key, None);
    }

    /// Changes one field of a hash.
    fn field(&mut self, key: &str, field: &str, value: &str) {
        let parsed: Key = name(key).parse().unwrap();
        let fields = self.0.hash(&parsed).unwrap();
        let mut fields: BTreeMap<String, Vec<u8>> =
            fields.iter().map(|(name, value)| (name.into(), value.to_vec())).collect();
        fields.insert(field.into(), name(value).into_bytes());
        self.set_to(key, Some(Stored::Hash(fields)));
    }

    fn names(found: &[Violation]) -> BTreeSet<&'static str> {
        found.iter().map(|violation| violation.oracle).collect()
    }
}

const RUNNING: &str = "lifecycle_phase=active ownership_state=leased \
    eligibility_state=not_applicable blocking_reason=none terminal_outcome=none \
    attempt_state=running_attempt public_state=active";
const BLOCKED: &str = "lifecycle_phase=runnable ownership_state=unowned \
    eligibility_state=blocked_by_dependencies blocking_reason=waiting_for_children \
    terminal_outcome=none attempt_state=pending_first_attempt public_state=waiting_children";
const WAITING: &str = "lifecycle_phase=runnable ownership_state=unowned \
    eligibility_state=eligible_now blocking_reason=waiting_for_worker \
    terminal_outcome=none attempt_state=pending_first_attempt public_state=waiting";

fn core(vector: &str, more: &str) -> String {
    format!("{vector} lane_id=main flow_id=FLOW created_at=1000 priority=0 {more}")
}

fn in_order() -> Store {
    let mut store = Store(Snapshot::new(ServerTime(NOW)));
    let lease = "current_lease_id=l current_lease_epoch=1 current_attempt_id=a \
                 current_worker_id=w current_worker_instance_id=w-1";
    let until = NOW + 5_000;
    let more = format!(
        "{lease} lease_acquired_at=1 lease_last_renewed_at=2 lease_expires_at={until} \
                 total_attempt_count=1 current_attempt_index=0"
    );
    store.hash("ff:exec:{fp:1}:FIRST:core", &core(RUNNING, &more));
    store.hash(
        "ff:exec:{fp:1}:FIRST:lease:current",
        "lease_id=l lease_epoch=1 attempt_id=a worker_id=w worker_instance_id=w-1",
    );
    store.zset("ff:exec:{fp:1}:FIRST:attempts", "0=1");
    store.hash("ff:attempt:{fp:1}:FIRST:0", "attempt_state=started");
    store.zset("ff:idx:{fp:1}:lane:main:active", "FIRST=1");
    store.zset("ff:idx:{fp:1}:lease_expiry", &format!("FIRST={until}"));
    store.set("ff:idx:{fp:1}:worker:w-1:leases", "FIRST");
    store.hash("ff:exec:{fp:1}:SECOND:core", &core(BLOCKED, "total_attempt_count=0"));
    store.zset("ff:idx:{fp:1}:lane:main:blocked:dependencies", "SECOND=1000");
    store.hash(
        "ff:exec:{fp:1}:SECOND:dep:EDGE",
        "state=unsatisfied upstream_execution_id=FIRST flow_id=FLOW",
    );
    store.set("ff:exec:{fp:1}:SECOND:deps:unresolved", "EDGE");
    store.set("ff:exec:{fp:1}:SECOND:deps:all_edges", "EDGE");
    store.hash("ff:exec:{fp:1}:SECOND:deps:meta", "unsatisfied_required_count=1");
    store.set("ff:idx:{fp:1}:all_executions", "FIRST SECOND");
    store.hash("ff:flow:{fp:1}:FLOW:core", "node_count=2 edge_count=1");
    store.set("ff:flow:{fp:1}:FLOW:members", "FIRST SECOND");
    store.hash(
        "ff:flow:{fp:1}:FLOW:edge:EDGE",
        "upstream_execution_id=FIRST downstream_execution_id=SECOND",
    );
    store.set("ff:flow:{fp:1}:FLOW:out:FIRST", "EDGE");
    store.set("ff:flow:{fp:1}:FLOW:in:SECOND", "EDGE");
    store.hash(
        "ff:flow:{fp:1}:FLOW:edgegroup:SECOND",
        "policy_variant=all_of n=1 succeeded=0 group_state=pending",
    );
    store.set("ff:idx:{fp:1}:flow_index", "FLOW");
    store.hash("ff:budget:{b:0}:BUDGET", "scope_type=tenant");
    store.hash("ff:budget:{b:0}:BUDGET:limits", "hard:tokens=10");
    store.hash("ff:budget:{b:0}:BUDGET:usage", "tokens=10");
    store.hash("ff:quota:{q:0}:QUOTA", "active_concurrency_cap=2");
    store.set("ff:quota:{q:0}:QUOTA:admitted_set", "FIRST");
    store.set_to("ff:quota:{q:0}:QUOTA:concurrency", Some(Stored::Text(b"1".to_vec())));
    store
}

type Break = fn(&mut Store);

/// What must be found by whom, at any moment.
const BROKEN: &[(&str, Break)] = &[
    ("RightKind", |s| s.hash("ff:idx:{fp:1}:lane:main:eligible", "a=b")),
    ("RightKind", |s| s.set("ff:idx:{fp:1}:lease_expiry", "FIRST")),
    ("RightKind", |s| s.set_to("ff:idx:{fp:1}:flow_index", Some(Stored::Text(b"x".to_vec())))),
    ("RightKind", |s| s.set("ff:flow:{fp:1}:FLOW:core", "x")),
    ("RightKind", |s| s.field("ff:flow:{fp:1}:FLOW:core", "edge_count", "few")),
    ("RightKind", |s| s.field("ff:exec:{fp:1}:SECOND:core", "retry_count", "nan")),
    ("RightKind", |s| {
        s.set_to("ff:quota:{q:0}:QUOTA:concurrency", Some(Stored::Text(b"many".to_vec())));
    }),
    ("VectorWhole", |s| s.field("ff:exec:{fp:1}:FIRST:core", "public_state", "waiting")),
    ("VectorWhole", |s| s.field("ff:exec:{fp:1}:FIRST:core", "lifecycle_phase", "nowhere")),
    ("OneHome", |s| s.drop("ff:idx:{fp:1}:lane:main:active")),
    ("OneHome", |s| s.zset("ff:idx:{fp:1}:lane:main:eligible", "SECOND=1000")),
    ("OneHome", |s| s.zset("ff:idx:{fp:1}:lane:main:blocked:dependencies", "SECOND=1001")),
    ("OneHome", |s| s.drop("ff:idx:{fp:1}:lease_expiry")),
    ("OneHome", |s| s.set("ff:idx:{fp:1}:all_executions", "FIRST")),
    ("OneHome", |s| s.set("ff:idx:{fp:1}:worker:w-2:leases", "FIRST")),
    ("OneHome", |s| s.drop("ff:exec:{fp:1}:SECOND:core")),
    ("OneHome", |s| s.drop("ff:idx:{fp:1}:flow_index")),
    ("OneHolder", |s| s.drop("ff:exec:{fp:1}:FIRST:lease:current")),
    ("OneHolder", |s| s.field("ff:exec:{fp:1}:FIRST:core", "current_lease_id", "")),
    ("OneHolder", |s| s.field("ff:exec:{fp:1}:FIRST:lease:current", "lease_epoch", "2")),
    ("OneHolder", |s| s.hash("ff:exec:{fp:1}:SECOND:lease:current", "lease_id=l")),
    ("AttemptsHonest", |s| s.field("ff:attempt:{fp:1}:FIRST:0", "attempt_state", "ended_success")),
    ("AttemptsHonest", |s| s.drop("ff:exec:{fp:1}:FIRST:attempts")),
    ("NoRunBeforeParents", |s| {
        s.hash("ff:exec:{fp:1}:SECOND:core", &core(WAITING, "total_attempt_count=0"));
    }),
    ("EdgeByTruth", |s| {
        let skipped = BLOCKED.replace("outcome=none", "outcome=skipped");
        s.hash("ff:exec:{fp:1}:SECOND:core", &core(&skipped, ""));
    }),
    ("GroupCounts", |s| s.drop("ff:exec:{fp:1}:SECOND:deps:unresolved")),
    ("GroupCounts", |s| s.field("ff:flow:{fp:1}:FLOW:core", "node_count", "3")),
    ("GroupCounts", |s| s.drop("ff:flow:{fp:1}:FLOW:out:FIRST")),
    ("GroupCounts", |s| s.drop("ff:flow:{fp:1}:FLOW:edgegroup:SECOND")),
    ("GroupCounts", |s| s.field("ff:flow:{fp:1}:FLOW:edgegroup:SECOND", "succeeded", "1")),
    ("GroupCounts", |s| {
        s.field("ff:flow:{fp:1}:FLOW:edge:EDGE", "downstream_execution_id", "FIRST");
    }),
    ("LedgerAdds", |s| s.hash("ff:budget:{b:0}:BUDGET:by_exec:FIRST", "tokens=1")),
    ("LedgerAdds", |s| s.drop("ff:quota:{q:0}:QUOTA:admitted_set")),
    ("SuspendedHasWaker", |s| {
        s.hash("ff:exec:{fp:1}:FIRST:suspension:current", "suspension_id=s");
    }),
    ("SuspendedHasWaker", |s| {
        s.hash("ff:wp:{fp:1}:WAITPOINT", "state=active execution_id=FIRST suspension_id=s");
    }),
    ("SuspendedHasWaker", |s| {
        s.hash("ff:wp:{fp:1}:WAITPOINT", "state=pending execution_id=FIRST");
    }),
    ("PendingCancelsIndexed", |s| s.set("ff:idx:{fp:1}:pending_cancel_groups", "FLOW|SECOND")),
    ("PendingCancelsIndexed", |s| {
        s.field("ff:flow:{fp:1}:FLOW:edgegroup:SECOND", "cancel_siblings_pending_flag", "true");
    }),
    ("PendingCancelsIndexed", |s| s.set("ff:flow:{fp:1}:FLOW:pending_cancels", "FIRST")),
    ("PendingCancelsIndexed", |s| s.zset("ff:idx:{fp:1}:cancel_backlog", "FLOW=1")),
    ("OneSlot", |s| s.set("ff:flow:{fp:1}:FLOW:members", ELSEWHERE)),
    ("OneSlot", |s| {
        s.zset("ff:idx:{fp:1}:attempt_timeout", &format!("{ELSEWHERE}=1"));
    }),
    ("NoOrphans", |s| s.drop("ff:exec:{fp:1}:FIRST:core")),
    ("NoOrphans", |s| s.drop("ff:flow:{fp:1}:FLOW:core")),
    ("NoOrphans", |s| s.hash("ff:exec:{fp:1}:FIRST:claim_grant", "worker_id=w")),
    ("NoOrphans", |s| s.hash("somebody-elses", "a=b")),
    ("NoOrphans", |s| s.hash("ff:usagededup:{b:0}:x", "a=b")),
    ("NoOrphans", |s| s.zset("ff:idx:{b:0}:budget_resets", "QUOTA=1")),
];

/// What must be found by whom, at rest an hour later.
const UNREST: &[(&str, Break)] = &[
    ("WorkComesBack", |_| {}),
    ("WindowMoves", |s| s.zset("ff:idx:{fp:1}:execution_deadline", "FIRST=5")),
    ("WindowMoves", |s| s.zset("ff:idx:{b:0}:budget_resets", "BUDGET=5")),
    ("NoPendingCancels", |s| {
        let done = "lifecycle_phase=terminal ownership_state=unowned \
            eligibility_state=not_applicable blocking_reason=none terminal_outcome=success \
            attempt_state=attempt_terminal public_state=completed";
        s.hash("ff:exec:{fp:1}:FIRST:core", &core(done, "completed_at=9"));
    }),
    ("NoPendingCancels", |s| s.set("ff:flow:{fp:1}:FLOW:pending_cancels", "FIRST")),
    ("NoPendingCancels", |s| {
        s.field("ff:flow:{fp:1}:FLOW:edgegroup:SECOND", "cancel_siblings_pending_flag", "true");
    }),
    ("NoLostUpstream", |s| s.drop("ff:exec:{fp:1}:FIRST:core")),
    ("WakeupsArrive", |s| s.drop("ff:exec:{fp:1}:SECOND:deps:unresolved")),
    ("WakeupsArrive", |s| quorum_of_two(s, "satisfied")),
    ("UnreadableSetAside", |s| s.zset("ff:idx:{fp:1}:lease_expiry", "garbage=1")),
    ("UnreadableSetAside", |s| s.set("ff:idx:{fp:1}:pending_cancel_groups", "nonsense")),
    ("UnreadableSetAside", |s| s.hash("ff:aside:{fp:1}", "x=")),
    ("SummaryTrue", |_| {}),
];

#[test]
fn a_keyspace_in_order_is_in_order() {
    let mut store = in_order();
    assert_eq!(judge(&store.0), []);
    assert_eq!(judge_touched(&mut store.0), []);
    assert_eq!(judge_rest(&store.0).iter().filter(|v| v.oracle != "SummaryTrue").count(), 0);
}

#[test]
fn every_oracle_speaks_up_in_full_and_when_only_the_change_is_judged() {
    for (at, (oracle, spoil)) in BROKEN.iter().enumerate() {
        let mut store = in_order();
        store.0.take_touched();
        spoil(&mut store);
        let full = judge(&store.0);
        assert!(Store::names(&full).contains(oracle), "{at}: {oracle}: {full:?}");
        let touched = judge_touched(&mut store.0);
        assert!(Store::names(&touched).contains(oracle), "{at}: {oracle}: {touched:?}");
        assert!(touched.iter().all(|found| full.contains(found)), "{touched:?} of {full:?}");
    }
}

#[test]
fn every_oracle_of_rest_speaks_up() {
    for (at, (oracle, spoil)) in UNREST.iter().enumerate() {
        let mut store = in_order();
        spoil(&mut store);
        store.0.advance(ServerTime(NOW + 3_600_000));
        let found = judge_rest(&store.0);
        assert!(Store::names(&found).contains(oracle), "{at}: {oracle}: {found:?}");
    }
}

/// Makes the join of the second execution a quorum of two, one of whose edges is still to be added.
fn quorum_of_two(store: &mut Store, state: &str) {
    let group = format!("policy_variant=quorum k=2 n=1 succeeded=1 group_state={state}");
    store.hash("ff:flow:{fp:1}:FLOW:edgegroup:SECOND", &group);
    store.drop("ff:exec:{fp:1}:SECOND:deps:unresolved");
}

#[test]
fn a_quorum_may_wait_for_edges_that_are_still_to_be_added() {
    let mut store = in_order();
    quorum_of_two(&mut store, "pending");
    store.0.advance(ServerTime(NOW + 3_600_000));
    assert!(!Store::names(&judge_rest(&store.0)).contains("WakeupsArrive"));
}

#[test]
fn nobody_has_to_wait_to_be_told_of_what_cannot_be_read() {
    let mut store = in_order();
    store.zset("ff:idx:{fp:1}:suspension_timeout", &format!("garbage={}", NOW + 5_000));
    assert_eq!(judge(&store.0), []);
    assert_eq!(judge_rest(&store.0).iter().filter(|v| v.oracle == "UnreadableSetAside").count(), 0);
    let (_, found) = judge_unattended(store.0);
    assert_eq!(Store::names(&found), ["UnreadableSetAside"].into(), "{found:?}");
    assert_eq!(judge_unattended(in_order().0).1, []);
}

#[test]
fn an_upstream_that_may_be_created_yet_is_not_lost() {
    let lost = |spoil: Break| {
        let mut store = in_order();
        spoil(&mut store);
        store.drop("ff:exec:{fp:1}:FIRST:core");
        Store::names(&judge_unattended(store.0).1).contains("NoLostUpstream")
    };
    assert!(lost(|_| {}));
    assert!(!lost(|s| s.set("ff:flow:{fp:1}:FLOW:members", "SECOND")), "no member has this id");
    let resolve: Break = |s| s.field("ff:exec:{fp:1}:SECOND:dep:EDGE", "state", "impossible");
    assert!(!lost(resolve), "the edge is resolved");
}

#[test]
fn a_flow_whose_members_have_all_ended_need_not_be_listed() {
    let mut store = in_order();
    let done = "lifecycle_phase=terminal ownership_state=unowned eligibility_state=not_applicable \
        blocking_reason=none terminal_outcome=success attempt_state=attempt_terminal \
        public_state=completed";
    for member in ["FIRST", "SECOND"] {
        store.hash(&format!("ff:exec:{{fp:1}}:{member}:core"), &core(done, "completed_at=9"));
    }
    store.drop("ff:idx:{fp:1}:flow_index");
    assert!(judge(&store.0).iter().all(|found| found.subject != FLOW));
}

#[test]
fn a_summary_may_tell_how_a_purged_member_ended() {
    let told = |counts: &str| {
        let mut store = in_order();
        store.drop("ff:exec:{fp:1}:FIRST:core");
        store.hash("ff:flow:{fp:1}:FLOW:summary", &format!("total_members=2 {counts}"));
        store.0.advance(ServerTime(NOW + 3_600_000));
        let found = judge_rest(&store.0);
        !Store::names(&found).contains("SummaryTrue")
    };
    assert!(told("members_waiting_children=1 members_gone=1"));
    assert!(told("members_waiting_children=1 members_cancelled=1"));
    assert!(!told("members_waiting_children=1 members_active=1"), "nobody runs");
    assert!(!told("members_waiting_children=1"), "one is not counted");
    assert!(!told("members_completed=2"), "one waits");
    assert!(!told("members_waiting_children=1 members_failed=1 members_skipped=1"), "one too many");
}

#[test]
fn every_oracle_is_broken_here() {
    let broken: BTreeSet<_> = BROKEN.iter().chain(UNREST).map(|(oracle, _)| *oracle).collect();
    assert_eq!(broken, ORACLES.iter().map(|oracle| oracle.name).collect());
}

#[test]
fn a_partition_can_be_judged_alone() {
    let store = in_order();
    let mut alone = Snapshot::new(store.0.now());
    for (key, entry) in store.0.iter().filter(|(key, _)| format!("{key}").contains("{fp:1}")) {
        alone.put(format!("{key}").as_bytes(), Some(entry.clone()));
    }
    assert_eq!(judge(&alone), []);
    assert!(alone.iter().count() < store.0.iter().count());
}
