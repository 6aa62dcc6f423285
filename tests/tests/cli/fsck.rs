//! What `fsck` sees of a keyspace that somebody spoilt, and what it says to do about it.

use crate::kit::{Operator, REPORT, text};

/// Spoils one thing, and asks twice: with and without `--repair`.
fn is_seen(spoil: impl Fn(&Operator, &str, &str, &str), oracle: &str, what: &str, to_do: &str) {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("a flow");
    let render = submitted["tasks"]["render"].as_str().expect("a task");
    let tag = &render[..=render.find('}').expect("a partition")];
    operator.json(&["fsck"]);
    spoil(&operator, tag, flow, render);
    for arguments in [&["fsck"][..], &["fsck", "--repair"]] {
        let ran = operator.run(arguments);
        let told = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(5), "{arguments:?}: {told}");
        assert!(told.contains(oracle) && told.contains(what), "{arguments:?}: {told}");
        assert_eq!(told.contains(to_do), arguments.len() > 1, "{arguments:?}: {told}");
    }
}

#[test]
fn an_index_of_another_kind_is_seen() {
    let spoil = |operator: &Operator, tag: &str, _: &str, _: &str| {
        operator.call(&["SET", &format!("ff:idx:{tag}:lease_expiry"), "x"]);
    };
    is_seen(spoil, "RightKind", "holds a string, expected a zset", "RENAME the key");
}

#[test]
fn a_flow_record_of_another_kind_is_seen() {
    let spoil = |operator: &Operator, tag: &str, flow: &str, _: &str| {
        let record = format!("ff:flow:{tag}:{flow}:core");
        operator.call(&["DEL", &record]);
        operator.call(&["SADD", &record, "x"]);
    };
    is_seen(spoil, "RightKind", "holds a set, expected a hash", "RENAME the key");
}

#[test]
fn a_count_that_is_no_number_is_seen() {
    let spoil = |operator: &Operator, tag: &str, flow: &str, _: &str| {
        operator.call(&["HSET", &format!("ff:flow:{tag}:{flow}:core"), "graph_revision", "many"]);
    };
    is_seen(spoil, "RightKind", "graph_revision is `many`", "HSET the field");
}

#[test]
fn a_group_that_is_gone_is_seen() {
    let spoil = |operator: &Operator, tag: &str, flow: &str, render: &str| {
        operator.call(&["DEL", &format!("ff:flow:{tag}:{flow}:edgegroup:{render}")]);
    };
    is_seen(spoil, "GroupCounts", "2 edges lead to its execution", "submit it again");
}

#[test]
fn a_flow_that_no_index_lists_is_seen() {
    let spoil = |operator: &Operator, tag: &str, flow: &str, _: &str| {
        operator.call(&["SREM", &format!("ff:idx:{tag}:flow_index"), flow]);
    };
    is_seen(spoil, "OneHome", "is not in flow_index", "SADD the flow");
}

#[test]
fn an_index_entry_without_a_reader_is_seen() {
    let spoil = |operator: &Operator, tag: &str, _: &str, _: &str| {
        operator.call(&["SADD", &format!("ff:idx:{tag}:worker:w-1:leases"), "junk"]);
    };
    is_seen(spoil, "PoisonAside", "still lists `junk`", "SREM it by hand");
}

#[test]
fn poisoned_entries_are_reported_until_a_person_removes_them() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    operator.call(&["ZADD", "ff:idx:{fp:3}:lease_expiry", "5", "junk"]);
    assert_eq!(operator.run(&["fsck"]).status.code(), Some(5));
    for arguments in [&["fsck", "--repair"][..], &["fsck"]] {
        let ran = operator.run(arguments);
        let told = text(&ran.stdout);
        assert!(ran.status.success(), "{arguments:?}: {told}");
        assert!(told.contains("set aside in ff:aside:{fp:3}"), "{arguments:?}: {told}");
    }
    operator.call(&["DEL", "ff:aside:{fp:3}"]);
    assert!(!text(&operator.run(&["fsck"]).stdout).contains("aside"));
}
