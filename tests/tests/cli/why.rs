//! What `selvedge why` says about the present: who runs, what is full, and what stands still.

use std::time::Duration;

use selvedge_core::value::Value as Reply;
use selvedge_tests::wait::Wait;
use serde_json::Value;

use crate::kit::{Operator, REPORT, text, with_input};

/// Milliseconds of the server's clock.
fn now_ms(operator: &Operator) -> i64 {
    let Reply::Array(parts) = operator.call(&["TIME"]) else { panic!("no time") };
    let Reply::Bulk(seconds) = &parts[0] else { panic!("no time") };
    text(seconds).parse::<i64>().expect("a number") * 1_000
}

/// Registers an engine as it would itself, last seen so long ago.
fn engine_seen(operator: &Operator, ago_ms: i64) {
    let seen = format!(r#"{{"seen_at":{}}}"#, now_ms(operator) - ago_ms);
    operator.call(&["HSET", "ff:idx:engines", "an-engine", &seen]);
}

/// Registers a worker of the namespace `default` as it would itself.
fn register_worker(operator: &Operator, name: &str, lanes: &str, capabilities: &str) {
    operator.call(&["SADD", "ff:idx:default:workers", name]);
    operator.call(&["SET", &format!("ff:worker:default:{name}:alive"), "1"]);
    let record = format!("ff:worker:default:{name}:caps");
    operator.call(&["HSET", &record, "lanes_csv", lanes, "caps_csv", capabilities]);
}

fn id_of(submitted: &Value, task: &str) -> String {
    submitted["tasks"][task].as_str().expect("an id").to_owned()
}

fn says(operator: &Operator, arguments: &[&str], words: &[&str]) {
    let ran = operator.run(&[&["why"], arguments].concat());
    let told = text(&ran.stdout);
    assert!(ran.status.success(), "{arguments:?}: {}", text(&ran.stderr));
    for words in words {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn it_says_whether_a_worker_can_run_what_is_ready() {
    let operator = Operator::new();
    let flow = r#"{"kind":"f","tasks":[
        {"name":"a","kind":"k","lane":"gpu","needs":["cuda"]}]}"#;
    let a = &id_of(&operator.submitted(flow), "a");
    says(&operator, &[a], &["(namespace default)", "no worker is registered in namespace default"]);
    register_worker(&operator, "w1", "mail", "");
    says(&operator, &[a], &["no worker serves lane gpu; 1 worker serves lane mail"]);
    for name in ["w2", "w3", "w4"] {
        register_worker(&operator, name, "gpu", "fast");
    }
    says(&operator, &[a], &["no worker has `cuda`; 3 workers serve lane gpu"]);
    let why = &operator.json(&["why", a])[0];
    assert_eq!(
        (&why["urgency"], &why["waits"][0]["reason"]),
        (&"no_worker".into(), &"no_worker".into())
    );
    register_worker(&operator, "w5", "gpu,mail", "cuda,fast");
    says(&operator, &[a], &["1 worker is alive that can run it"]);
    let why = &operator.json(&["why", a])[0];
    assert_eq!((&why["waits"][0]["reason"], &why["state"]), (&"worker".into(), &"waiting".into()));
}

#[test]
fn it_says_whether_an_engine_runs_and_for_how_long_something_is_overdue() {
    let operator = Operator::new();
    let flow = r#"{"kind":"f","tasks":[
        {"name":"soon","kind":"k","delay":"10ms"},{"name":"later","kind":"k","delay":"1h"}]}"#;
    let submitted = operator.submitted(flow);
    let (soon, later) = (&id_of(&submitted, "soon"), &id_of(&submitted, "later"));
    says(
        &operator,
        &[later],
        &["in 1h", "if an engine runs", "no engine is running; `selvedge serve`"],
    );
    let overdue = Wait::at_most(Duration::from_secs(60)).until(|| {
        let why = operator.json(&["why", soon]).remove(0);
        why["waits"][0]["overdue_ms"].is_u64().then_some(why)
    });
    let why = overdue.expect("it becomes overdue");
    assert_eq!((&why["urgency"], &why["engines"]["alive"]), (&"overdue".into(), &0.into()));
    let wait = &why["waits"][0];
    let late = why["at"].as_i64().expect("a time") - wait["due_at"].as_i64().expect("a time");
    assert_eq!(wait["overdue_ms"].as_i64(), Some(late));
    says(&operator, &[soon], &["overdue by", "s: no engine is running"]);

    engine_seen(&operator, 3_600_000);
    says(&operator, &[soon], &["no engine is running since", "UTC", "at 20"]);
    let gone_since = &operator.json(&["why", soon])[0]["engines"]["gone_since"];
    assert!(
        gone_since.as_i64().is_some_and(|at| at <= now_ms(&operator) - 3_600_000),
        "{gone_since}"
    );
    engine_seen(&operator, 0);
    says(&operator, &[soon], &["although 1 engine is running; `selvedge engines` shows how far"]);
    let told = text(&operator.run(&["why", later]).stdout);
    assert!(told.contains(" UTC, in 1h") || told.contains(" UTC, in 59m"), "{told}");
    assert!(!told.contains("if an engine runs") && !told.contains("no engine"), "{told}");
}

#[test]
fn it_names_the_limit_that_binds_now() {
    let operator = Operator::new();
    let create = ["quota", "create", "--rate", "2", "--window", "1h", "--concurrency", "5"];
    let quota = operator.json(&create)[0]["quota_id"].as_str().expect("an id").to_owned();
    let create = ["budget", "create", "--hard", "tokens=100"];
    let budget = operator.json(&create)[0]["budget_id"].as_str().expect("an id").to_owned();
    let flow = format!(
        r#"{{"kind":"f","tasks":[{{"name":"a","kind":"k","quota":"{quota}","budgets":["{budget}"]}}]}}"#
    );
    let a = &id_of(&operator.submitted(&flow), "a");
    let limits = || {
        let why = operator.json(&["why", a]).remove(0);
        let waits = why["waits"].as_array().expect("a list").clone();
        waits.into_iter().filter(|wait| !wait["limit"].is_null()).collect::<Vec<_>>()
    };
    assert!(limits().is_empty(), "nothing is full");

    let Reply::Array(keys) = operator.call(&["KEYS", &format!("ff:quota:*{quota}")]) else {
        panic!("no keys")
    };
    let Reply::Bulk(key) = &keys[0] else { panic!("no key") };
    let (key, now) = (text(key), now_ms(&operator).to_string());
    operator.call(&["ZADD", &format!("{key}:window:default"), &now, "x", &now, "y"]);
    says(&operator, &[a], &["2 of 2 have started within the last 3600 s; there is room at"]);
    let full = limits();
    assert_eq!((full.len(), &full[0]["reason"]), (1, &"quota_rate".into()), "{full:?}");
    assert_eq!(
        (&full[0]["limit"]["used"], &full[0]["limit"]["id"]),
        (&2.into(), &quota.as_str().into())
    );
    let frees_at = full[0]["limit"]["frees_at"].as_i64().expect("a time");
    assert_eq!(frees_at, now.parse::<i64>().expect("a number") + 3_600_001);

    operator.call(&["HSET", &usage_key(&operator, &budget), "tokens", "100"]);
    says(
        &operator,
        &[a],
        &["100 of 100 tokens are used; it never resets by itself", "budget reset"],
    );
    let reasons: Vec<String> = limits().iter().map(|wait| wait["reason"].to_string()).collect();
    assert_eq!(reasons, ["\"budget\"", "\"quota_rate\""]);
}

fn usage_key(operator: &Operator, budget: &str) -> String {
    let Reply::Array(keys) = operator.call(&["KEYS", &format!("ff:budget:*{budget}")]) else {
        panic!("no keys")
    };
    let Reply::Bulk(key) = &keys[0] else { panic!("no key") };
    format!("{}:usage", text(key))
}

#[test]
fn a_skipped_task_names_the_upstream_and_how_that_ended() {
    let operator = Operator::new();
    let flow = r#"{"kind":"f","tasks":[
        {"name":"a","kind":"k"},{"name":"b","kind":"k","after":["a"]}]}"#;
    let submitted = operator.submitted(flow);
    let (a, b) = (&id_of(&submitted, "a"), &id_of(&submitted, "b"));
    operator.json(&["exec", "cancel", a, "--reason", "too late"]);
    operator.json(&["scan", "--once"]);
    says(
        &operator,
        &[b],
        &["it was skipped at", &format!("it needed {a}, which was cancelled: too late")],
    );
    let cause = &operator.json(&["why", b])[0]["skipped_for"][0];
    assert_eq!(
        (&cause["execution_id"], &cause["outcome"]),
        (&a.as_str().into(), &"cancelled".into())
    );
}

#[test]
fn a_flow_names_what_holds_it_back_and_not_what_only_waits() {
    let operator = Operator::new();
    let leaves = (0..120).map(|at| format!(r#"{{"name":"t{at}","kind":"k","lane":"gpu"}}"#));
    let chain = (0..30).map(|at| format!(r#"{{"name":"u{at}","kind":"k","after":["t{at}"]}}"#));
    let delayed = r#"{"name":"later","kind":"k","delay":"1h"}"#.to_owned();
    let tasks: Vec<String> = leaves.chain(chain).chain([delayed]).collect();
    let submitted = operator.submitted(&format!(r#"{{"kind":"f","tasks":[{}]}}"#, tasks.join(",")));
    let flow = submitted["flow_id"].as_str().expect("an id");
    register_worker(&operator, "w1", "mail", "");
    let why = &operator.json(&["why", flow])[0];
    let told: Vec<(&Value, &Value)> = why["causes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|cause| (&cause["reason"], &cause["count"]))
        .collect();
    assert_eq!(told, [(&"no_worker".into(), &120.into()), (&"delay".into(), &1.into())], "{why}");
    assert_eq!((&why["wait_for_others"], &why["running"]), (&30.into(), &0.into()));
    says(
        &operator,
        &[flow],
        &[
            "121 of its tasks do not move by themselves, 30 wait for others, 0 run, 0 have ended",
            "no worker: 120 tasks, such as {fp:",
            "no worker serves lane gpu; 1 worker serves lane mail",
            "in time: 1 task: {fp:",
            "no engine is running",
        ],
    );
    says(&operator, &[flow, "--limit", "1"], &["… and 1 more reasons; raise --limit"]);
    operator.json(&["flow", "cancel", flow]);
    says(&operator, &[flow], &["151 have ended", "nothing holds it back: its tasks have ended"]);
}

#[test]
fn everything_that_stands_still_is_listed_worst_first_and_bounded() {
    let operator = Operator::new();
    let told = text(&operator.run(&["why", "--all"]).stderr);
    assert!(told.contains("everything has moved within the last 1m"), "{told}");
    let submitted = operator.submitted(REPORT);
    let flow = r#"{"kind":"f","tasks":[
        {"name":"soon","kind":"k","delay":"10ms"},{"name":"later","kind":"k","delay":"1h"}]}"#;
    let timed = operator.submitted(flow);
    let mut others = operator.command(&["flow", "submit", "-", "--namespace", "tenant-b"]);
    with_input(&mut others, REPORT);
    assert!(operator.json(&["why", "--all"]).is_empty(), "all of it is fresh");

    let all = ["why", "--all", "--older-than", "0s"];
    let listed = Wait::at_most(Duration::from_secs(60)).until(|| {
        let rows = operator.json(&all);
        (rows.first()?["urgency"] == "overdue").then_some(rows)
    });
    let rows = listed.expect("it becomes overdue");
    let urgencies: Vec<&str> = rows.iter().filter_map(|row| row["urgency"].as_str()).collect();
    assert_eq!(urgencies, ["overdue", "no_worker", "no_worker", "upstream"], "{rows:?}");
    assert_eq!(rows[0]["execution_id"], id_of(&timed, "soon").as_str());
    assert_eq!(rows[3]["execution_id"], id_of(&submitted, "render").as_str());
    assert_eq!(operator.json(&[&all[..], &["--all-namespaces"]].concat()).len(), 7);
    let cut = operator.run(&[&all[..], &["--limit", "1"]].concat());
    let (shown, told) = (text(&cut.stdout), text(&cut.stderr));
    assert!(shown.starts_with("overdue: {fp:") && shown.contains(", for "), "{shown}");
    assert!(told.contains("3 more have not moved for 0s; raise --limit"), "{told}");
}
