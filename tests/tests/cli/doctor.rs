//! `selvedge doctor` on servers that are as they should be, and with one thing wrong.

use std::process::Command;
use std::time::Duration;

use selvedge::{Client, Context, Engine, Failed, Flow, Task, Worker};
use selvedge_lua::library;
use selvedge_tests::bounded_output::BoundedOutput as _;
use selvedge_tests::cluster::Cluster;
use selvedge_tests::server::Server;
use selvedge_tests::wait::Wait;
use serde_json::Value;

use crate::kit::{Operator, text};

/// The findings of a run that are not `ok`, as severity, check, server and text, and the exit code.
fn findings(url: &str, arguments: &[&str]) -> (Vec<String>, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_command"));
    command.args(["doctor", "--json"]).args(arguments).env("SELVEDGE_URL", url);
    let ran = command.bounded_output();
    let lines = text(&ran.stdout);
    assert!(!lines.is_empty(), "{}", text(&ran.stderr));
    let told = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let of = |object: &Value, name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let wrong = told.filter(|object| object["check"].is_string() && object["severity"] != "ok");
    let line = |object: Value| {
        let [severity, check, what] = ["severity", "check", "what"].map(|name| of(&object, name));
        assert!(severity == "note" || object["why"] != "", "no reason: {object}");
        format!("{severity} {check}: {what}")
    };
    (wrong.map(line).collect(), ran.status.code())
}

fn has(findings: &[String], start: &str) -> bool {
    findings.iter().any(|finding| finding.starts_with(start))
}

/// A server with the settings that its documentation lists as defaults.
fn with_defaults() -> Operator {
    let operator = Operator::new();
    operator.call(&["CONFIG", "SET", "save", "3600 1 300 100 60 10000"]);
    operator
}

fn load_library(server: &Server, text: &str) {
    let mut admin = server.connect().expect("it is up");
    let reply = admin.call(&["FUNCTION", "LOAD", "REPLACE", text]).expect("it answers");
    assert!(!matches!(reply, selvedge_core::value::Value::Error(_)), "{reply:?}");
}

#[test]
fn a_default_valkey_keeps_snapshots_only_and_lacks_the_library() {
    let operator = with_defaults();
    let (told, code) = findings(&operator.url(""), &[]);
    assert_eq!(code, Some(5));
    assert!(has(&told, "warning persistence: snapshots only"), "{told:#?}");
    assert!(has(&told, "warning library: not installed"), "{told:#?}");
    assert!(has(&told, "note stream nodes: stream-node-max-bytes 4096"), "{told:#?}");
    assert!(has(&told, "note partitions: not stored yet"), "{told:#?}");
    assert!(has(&told, "note access: user \"default\" may do more"), "{told:#?}");
    assert!(!told.iter().any(|finding| finding.starts_with("error")), "{told:#?}");
    let mended = ["CONFIG", "SET", "appendonly", "yes", "stream-node-max-bytes", "1024"];
    operator.call(&mended);
    load_library(&operator.server, library::SOURCE);
    let (told, code) = findings(&operator.url(""), &[]);
    assert_eq!(code, Some(0), "{told:#?}");
}

#[test]
fn eviction_and_missing_persistence_are_errors() {
    let operator = with_defaults();
    operator.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (told, code) = findings(&operator.url(""), &[]);
    assert!(has(&told, "error eviction policy: allkeys-lru"), "{told:#?}");
    assert_eq!(code, Some(5));
    operator.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction", "save", ""]);
    let (told, _) = findings(&operator.url(""), &[]);
    assert!(has(&told, "error persistence: none"), "{told:#?}");
    assert!(!has(&told, "error eviction policy"), "{told:#?}");
}

#[test]
fn rights_of_a_user_are_checked_by_an_administrator_and_by_itself() {
    let operator = with_defaults();
    let rule = |rights: &[&str]| {
        operator.call(&[&["ACL", "SETUSER", "app", "on", "nopass", "~ff:*"], rights].concat());
    };
    rule(&["resetchannels", "+@all"]);
    for (url, arguments) in
        [(operator.url(""), &["--user", "app"][..]), (operator.url("app:x@"), &[][..])]
    {
        let (told, code) = findings(&url, arguments);
        assert!(has(&told, "error access: user \"app\" lacks channels &ff:*"), "{url}: {told:#?}");
        assert_eq!(code, Some(5));
    }
    rule(&["&ff:*"]);
    let (told, _) = findings(&operator.url(""), &["--user", "app"]);
    assert!(!has(&told, "error access"), "{told:#?}");
    rule(&["-zadd", "-acl"]);
    let (told, _) = findings(&operator.url(""), &["--user", "app"]);
    assert!(has(&told, "error access: user \"app\" lacks commands +zadd"), "{told:#?}");
    let (told, code) = findings(&operator.url(""), &["--user", "nobody"]);
    assert!(has(&told, "error access: there is no user \"nobody\""), "{told:#?}");
    assert_eq!(code, Some(5));
    let (told, _) = findings(&operator.url("app:x@"), &[]);
    assert!(has(&told, "note access: the rights of user \"app\" cannot be checked"), "{told:#?}");
}

#[test]
fn every_probe_is_a_valid_command() {
    let operator = with_defaults();
    let (told, _) = findings(&operator.url(""), &[]);
    assert!(!has(&told, "error access"), "the default user may do everything: {told:#?}");
}

/// The rules that are printed suffice: an engine, a worker and a client run a flow with them.
#[test]
fn the_printed_rules_suffice_for_each_role() {
    let operator = with_defaults();
    for role in ["engine", "worker", "client"] {
        let printed = operator.run(&["doctor", "--print-acl", role]);
        let rule = text(&printed.stdout).replace(">PASSWORD", ">pw");
        let words: Vec<&str> = rule.split_whitespace().collect();
        let reply = operator.call(&words);
        assert_eq!(reply, selvedge_core::value::Value::Status("OK".into()), "{rule}");
    }
    let url = |role: &str| operator.url(&format!("selvedge-{role}:pw@"));
    let ran = operator.command(&["demo", "--store", &url("engine")]).bounded_output();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let engine = Client::connect(&url("engine")).await.expect("it connects");
        let engine = Engine::builder(engine.store().clone()).start().await.expect("it starts");
        let echo = |task: Context| async move { Ok::<_, Failed>(task.payload().to_vec()) };
        let worker = Client::connect(&url("worker")).await.expect("it connects");
        let worker = Worker::builder(worker).lane("rights").handler("echo", echo);
        let worker = tokio::spawn(worker.run_until(std::future::pending()));
        let client = Client::connect(&url("client")).await.expect("it connects");
        let flow = Flow::new("rights")
            .task(Task::new("first", "echo").lane("rights").payload("1"))
            .task(Task::new("second", "echo").lane("rights").payload("2").after(["first"]));
        let flow = client.submit(flow).await.expect("it is accepted");
        assert_eq!(client.wait(&flow["second"]).await.expect("it ends").result, b"2");
        worker.abort();
        engine.shutdown(Duration::from_secs(5)).await.expect("it stops");
    });
    let log = operator.call(&["ACL", "LOG"]);
    assert_eq!(log, selvedge_core::value::Value::Array(Vec::new()), "refused rights");
}

#[test]
fn a_cluster_with_a_missing_replica_and_different_libraries() {
    let mut cluster = Cluster::with_replicas(3, 1).expect("a cluster");
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let url = format!("valkey://{}?cluster=true", hosts.join(","));
    for node in cluster.primaries() {
        load_library(node, library::SOURCE);
    }
    let (told, _) = findings(&url, &[]);
    let about = |told: &[String], check: &str| told.iter().any(|line| line.contains(check));
    assert!(!about(&told, "cluster replicas") && !about(&told, "library"), "{told:#?}");
    assert!(!about(&told, "cluster state") && !about(&told, "clocks"), "{told:#?}");

    let older = library::SOURCE.replace(
        &format!("ok(\"{}\", \"{}\")", library::REVISION, library::DIGEST),
        "ok(\"0\", \"another\")",
    );
    load_library(&cluster.primaries()[1], &older);
    cluster.nodes_mut().last().expect("a replica").kill_9().expect("it runs");
    let noticed = Wait::at_most(Duration::from_secs(30)).until(|| {
        let (told, code) = findings(&url, &[]);
        assert_eq!(code, Some(5));
        assert!(has(&told, "error library: the servers have different libraries"), "{told:#?}");
        let complete = has(&told, "warning cluster replicas: 0 of 1 replicas")
            && has(&told, "warning cluster: the replica does not answer");
        complete.then_some(())
    });
    assert!(noticed.is_some(), "{:#?}", findings(&url, &[]));
}

#[test]
fn a_primary_that_is_down_is_named_and_the_others_are_checked() {
    let mut cluster = Cluster::start(3).expect("a cluster");
    let hosts: Vec<String> =
        cluster.primaries().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let url = format!("valkey://{}?cluster=true", hosts.join(","));
    cluster.nodes_mut().nth(1).expect("a primary").kill_9().expect("it runs");
    let (told, code) = findings(&url, &[]);
    assert_eq!(code, Some(5));
    assert!(has(&told, "error connection: the server does not answer"), "{told:#?}");
    let checked = told.iter().filter(|line| line.starts_with("warning library: not installed"));
    assert_eq!(checked.count(), 2, "{told:#?}");
}
