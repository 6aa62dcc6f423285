//! Slots of a cluster migrate while work runs in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use selvedge_core::call::execution::{CreateExecution, ExpireIfDue, ExpireReason};
use selvedge_core::call::without_absent_key;
use selvedge_core::command::Command;
use selvedge_core::id::{ExecutionId, Namespace};
use selvedge_core::partition::{self, Partition};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::{Kind, Options, Server};
use tokio::time::sleep;

use crate::kit::{COUNTS, PATIENCE as SOON, block_on, open, until, url_of_cluster};
use crate::server_faults::{Plant, say};

fn text(value: Value) -> String {
    let Value::Bulk(text) = value else { panic!("{value:?}") };
    String::from_utf8_lossy(&text).into_owned()
}

fn id(node: &Server) -> String {
    text(say(node, &["CLUSTER", "MYID"]))
}

/// Where a slot is, by position among the primaries of a fresh cluster of three.
fn owner(slot: u16) -> usize {
    usize::from(slot) * 3 / 16_384
}

/// How often a server has answered with this error.
fn errors(node: &Server, name: &str) -> u64 {
    let stats = text(say(node, &["INFO", "errorstats"]));
    let line = stats.lines().find(|line| line.starts_with(&format!("errorstat_{name}:count=")));
    line.and_then(|line| line.split('=').nth(1)).map_or(0, |count| count.trim().parse().unwrap())
}

/// How often a server has sent a client elsewhere.
fn redirects(node: &Server) -> u64 {
    errors(node, "MOVED") + errors(node, "ASK")
}

/// How many flows run at least: some of them in the middle, the rest after everything has moved.
const LOAD: usize = 20;

/// Every slot of the deployment goes to the next server, while flows run on it.
fn flows_go_on(way: impl AsyncFn(&Cluster, u16, &Server, &Server)) {
    let cluster = Cluster::start(3).unwrap();
    block_on(async {
        let plant = Arc::new(Plant::on(&url_of_cluster(&cluster)).await);
        let done = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn({
            let (plant, done) = (plant.clone(), done.clone());
            async move {
                let mut flows = Vec::new();
                while !done.load(Ordering::SeqCst) || flows.len() < LOAD {
                    flows.push(plant.chain().await);
                }
                flows
            }
        });
        for index in 0..COUNTS.flow.get() {
            let slot = Partition::flow(index).slot();
            let [from, to] =
                [owner(slot), (owner(slot) + 1) % 3].map(|at| &cluster.primaries()[at]);
            way(&cluster, slot, from, to).await;
        }
        done.store(true, Ordering::SeqCst);
        let flows = load.await.unwrap();
        for flow in flows {
            plant.finishes(flow).await;
        }
        let redirected: u64 = cluster.primaries().iter().map(redirects).sum();
        assert!(redirected > 0, "nobody was ever sent elsewhere");
        Arc::into_inner(plant).unwrap().recovers().await;
    });
}

#[test]
fn flows_continue_while_whole_slots_migrate() {
    flows_go_on(move_as_a_whole);
}

#[test]
fn flows_continue_while_slots_migrate_key_by_key() {
    flows_go_on(async |cluster: &Cluster, slot, from: &Server, to: &Server| {
        // Half here, half there, for long enough to be met.
        let a_while = async || sleep(Duration::from_millis(10)).await;
        move_by_keys(cluster, slot, from, to, 10, a_while).await;
    });
}

/// Half of a slot is here, half is there, and ASK leads from one to the other. Every increment
/// counts once.
#[test]
fn commands_follow_a_slot_that_migrates_key_by_key() {
    const KEYS: usize = 40;
    let cluster = Cluster::start(3).unwrap();
    block_on(async {
        let store = open(&url_of_cluster(&cluster)).await;
        let slot = partition::slot(b"{moves}");
        let add = move |n: usize| Command {
            slot,
            argv: ["INCR", &format!("{{moves}}:{n}")].map(|word| word.as_bytes().to_vec()).to_vec(),
            reads: false,
        };
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let load = tokio::spawn({
            let (store, stop, rounds) = (store.clone(), stop.clone(), rounds.clone());
            async move {
                let mut counted = BTreeMap::<usize, i64>::new();
                while !stop.load(Ordering::SeqCst) {
                    for n in 0..KEYS {
                        let reply = store.command(add(n)).await.unwrap();
                        let count = counted.entry(n).or_default();
                        *count += 1;
                        assert_eq!(reply, Value::Int(*count), "key {n}");
                    }
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
                counted
            }
        });
        let [from, to] = [owner(slot), (owner(slot) + 1) % 3].map(|at| &cluster.primaries()[at]);
        // Every key is asked for while they are half here, half there, and again afterwards.
        let a_round = async || {
            let two_more = rounds.load(Ordering::SeqCst) + 2;
            let passed = || rounds.load(Ordering::SeqCst) >= two_more;
            until("every key was asked for", SOON, || async { passed() }).await;
        };
        a_round().await;
        move_by_keys(&cluster, slot, from, to, 10, &a_round).await;
        a_round().await;
        // By MOVED, or because the slots were read again after an ASK, it knows the new owner.
        let redirected = redirects(from);
        a_round().await;
        assert_eq!(redirects(from), redirected, "commands still go to the old owner");
        stop.store(true, Ordering::SeqCst);
        let counted = load.await.unwrap();
        assert_eq!(counted.len(), KEYS);
        for node in cluster.primaries() {
            let kept = say(node, &["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
            let all = if node.port() == to.port() { KEYS } else { 0 };
            assert_eq!(kept, Value::Int(i64::try_from(all).unwrap()));
        }
        assert!(errors(from, "ASK") > 0, "nobody was ever told to ask elsewhere");
    });
}

/// Functions also use keys that they do not declare. Wherever the border between the two servers
/// is, such a function is refused, and writes to neither. That holds for callers who declare the
/// keys of the contract only, too.
#[test]
fn no_function_runs_in_a_slot_that_is_half_migrated() {
    refused_until_all_has_moved(Cluster::start(3).unwrap());
}

/// Redis 7.0 moves slots in this way only.
#[test]
fn no_function_runs_in_a_slot_that_is_half_migrated_on_redis() {
    let start = || Server::start(Kind::Redis, Options::cluster_node());
    refused_until_all_has_moved(Cluster::from_nodes(3, 0, start).unwrap());
}

fn refused_until_all_has_moved(cluster: Cluster) {
    block_on(async {
        let store = open(&url_of_cluster(&cluster)).await;
        let now = store.server_time().await.unwrap();
        let due = overdue(ServerTime(now.0 - 1));
        store.call(&due).await.unwrap();
        let expire = ExpireIfDue {
            execution_id: due.execution_id.clone(),
            expected_attempt_index: None,
            reason: ExpireReason::ExecutionDeadline,
        };
        let slot = Partition::flow(0).slot();
        let [from, to] = [owner(slot), (owner(slot) + 1) % 3].map(|at| &cluster.primaries()[at]);
        let keys_on = |node: &Server| say(node, &["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
        let Value::Int(all) = keys_on(from) else { panic!("no count") };
        let moved = AtomicI64::new(0);
        move_by_keys(&cluster, slot, from, to, 1, async || {
            let moved = moved.fetch_add(1, Ordering::SeqCst) + 1;
            let ours = Command::call(&expire);
            let others = Command { argv: without_absent_key(&ours.argv).unwrap(), ..ours.clone() };
            for call in [ours, others] {
                let refused = store.command(call).await.unwrap_err();
                // The new owner has them all, and does not know yet that it is the owner.
                assert!(refused.to_string().contains("TRYAGAIN"), "{moved} of {all}: {refused}");
            }
            assert_eq!(keys_on(to), Value::Int(moved), "the function wrote to the new owner");
            assert_eq!(keys_on(from), Value::Int(all - moved));
        })
        .await;
        assert_eq!(moved.into_inner(), all);
        store.call(&expire).await.unwrap();
    });
}

fn overdue(deadline: ServerTime) -> CreateExecution {
    CreateExecution {
        execution_id: ExecutionId::new(0, uuid::Uuid::new_v4()),
        namespace: Namespace::new("default"),
        lane_id: "default".parse().unwrap(),
        execution_kind: "never".to_owned(),
        priority: 0,
        creator_identity: "test".to_owned(),
        policy_json: String::new(),
        input_payload: Vec::new(),
        delay_until: None,
        idempotency: None,
        tags_json: String::new(),
        execution_deadline_at: Some(deadline),
    }
}

/// As Valkey 9 moves slots: the new owner has everything before anybody is sent to it.
async fn move_as_a_whole(_: &Cluster, slot: u16, from: &Server, to: &Server) {
    let (slot, to) = (slot.to_string(), id(to));
    say(from, &["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &to]);
    let owns = |line: &str| {
        let one = format!("{slot}-{slot}");
        line.starts_with(&to) && line.split(' ').any(|range| range == slot || range == one)
    };
    let has_moved = || async { text(say(from, &["CLUSTER", "NODES"])).lines().any(owns) };
    until("the slot has moved", SOON, has_moved).await;
}

/// As servers before Valkey 9 do it.
async fn move_by_keys(
    cluster: &Cluster,
    slot: u16,
    from: &Server,
    to: &Server,
    at_once: usize,
    meanwhile: impl AsyncFn(),
) {
    let (slot, port, at_once) = (slot.to_string(), to.port().to_string(), at_once.to_string());
    say(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
    say(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    loop {
        let Value::Array(keys) = say(from, &["CLUSTER", "GETKEYSINSLOT", &slot, &at_once]) else {
            panic!("no keys")
        };
        if keys.is_empty() {
            break;
        }
        let keys: Vec<String> = keys.into_iter().map(text).collect();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        say(from, &words);
        meanwhile().await;
    }
    for node in [to, from].into_iter().chain(cluster.primaries()) {
        say(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]);
    }
}
