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

/// Spoils one thing that other records hold: it is seen, repaired, and then in order.
fn is_repaired(spoil: impl Fn(&Operator, &str, &str, &str), what: &str) {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("a flow");
    let render = submitted["tasks"]["render"].as_str().expect("a task");
    let tag = &render[..=render.find('}').expect("a partition")];
    spoil(&operator, tag, flow, render);
    let seen = operator.run(&["fsck"]);
    assert_eq!(seen.status.code(), Some(5), "{}", text(&seen.stdout));
    assert!(text(&seen.stdout).contains(what), "{}", text(&seen.stdout));
    let repaired = operator.run(&["fsck", "--repair"]);
    assert!(repaired.status.success(), "{}", text(&repaired.stdout));
    let again = operator.run(&["fsck"]);
    assert!(again.status.success(), "{}", text(&again.stdout));
}

#[test]
fn an_index_of_another_kind_is_seen() {
    let spoil = |operator: &Operator, tag: &str, _: &str, _: &str| {
        operator.call(&["SET", &format!("ff:idx:{tag}:lease_expiry"), "x"]);
    };
    is_seen(
        spoil,
        "RightKind",
        "holds a string, expected a zset",
        "selvedge fsck --accept 'ff:idx",
    );
}

#[test]
fn a_flow_record_of_another_kind_is_seen() {
    let spoil = |operator: &Operator, tag: &str, flow: &str, _: &str| {
        let record = format!("ff:flow:{tag}:{flow}:core");
        operator.call(&["DEL", &record]);
        operator.call(&["SADD", &record, "x"]);
    };
    is_seen(spoil, "RightKind", "holds a set, expected a hash", "selvedge fsck --accept 'ff:flow");
}

#[test]
fn a_count_that_is_no_number_is_seen() {
    let spoil = |operator: &Operator, tag: &str, flow: &str, _: &str| {
        operator.call(&["HSET", &format!("ff:flow:{tag}:{flow}:core"), "graph_revision", "many"]);
    };
    is_seen(spoil, "RightKind", "graph_revision is `many`", "removes the field");
}

#[test]
fn a_policy_that_cannot_be_read_is_seen() {
    let spoil = |operator: &Operator, tag: &str, _: &str, render: &str| {
        operator.call(&["SET", &format!("ff:exec:{tag}:{render}:policy"), "{half"]);
    };
    is_seen(spoil, "RightKind", "neither the retries nor the limits", "selvedge fsck --accept");
}

#[test]
fn what_other_records_hold_is_repaired() {
    is_repaired(
        |operator, tag, flow, _| {
            operator.call(&["SREM", &format!("ff:idx:{tag}:flow_index"), flow]);
        },
        "is not in flow_index",
    );
    is_repaired(
        |operator, tag, flow, _| {
            operator.call(&["DEL", &format!("ff:flow:{tag}:{flow}:members")]);
        },
        "has 0 members",
    );
    is_repaired(
        |operator, tag, flow, render| {
            operator.call(&["DEL", &format!("ff:flow:{tag}:{flow}:in:{render}")]);
        },
        "lists, at the executions that they lead to, 0 edges, but its record counts 2",
    );
    is_repaired(
        |operator, tag, _, render| {
            operator.call(&["DEL", &format!("ff:exec:{tag}:{render}:deps:unresolved")]);
        },
        "lacks",
    );
    is_repaired(
        |operator, tag, _, render| {
            let meta = format!("ff:exec:{tag}:{render}:deps:meta");
            operator.call(&["DEL", &meta]);
            operator.call(&["SREM", &format!("ff:idx:{tag}:all_executions"), render]);
        },
        "is not in all_executions",
    );
    is_repaired(
        |operator, tag, _, render| {
            operator.call(&["ZADD", &format!("ff:idx:{tag}:lane:wrong:active"), "5", render]);
        },
        "active of wrong",
    );
    is_repaired(
        |operator, _, _, _| {
            operator.call(&["DEL", "ff:idx:lanes"]);
        },
        "does not list lane `default`",
    );
    is_repaired(
        |operator, tag, _, _| {
            operator.call(&["SADD", &format!("ff:idx:{tag}:worker:w-1:leases"), "junk"]);
        },
        "still lists `junk`",
    );
}

#[test]
fn what_is_lost_is_named_and_can_be_accepted() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("a flow");
    let render = submitted["tasks"]["render"].as_str().expect("a task");
    let fetch = submitted["tasks"]["fetch"].as_str().expect("a task");
    let tag = &render[..=render.find('}').expect("a partition")];
    operator.call(&["DEL", &format!("ff:flow:{tag}:{flow}:edgegroup:{render}")]);
    let told = text(&operator.run(&["fsck", "--repair"]).stdout);
    assert!(told.contains(&format!("lost: {render}: which of its dependencies")), "{told}");
    operator.call(&["HSET", &format!("ff:exec:{tag}:{fetch}:core"), "public_state", "odd"]);
    let ran = operator.run(&["fsck", "--repair"]);
    let told = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(5), "{told}");
    assert!(told.contains(&format!("selvedge fsck --accept '{fetch}'")), "{told}");
    let ran = operator.run(&["fsck", "--accept", fetch]);
    assert!(ran.status.success(), "{}", text(&ran.stdout));
    assert!(text(&ran.stdout).contains("ended it as cancelled"));
    assert!(operator.run(&["fsck"]).status.success());
    operator.fails(&mut operator.command(&["fsck", "--accept", fetch]), 3, &["there is no loss"]);
}

#[test]
fn unreadable_entries_are_reported_until_a_person_removes_them() {
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
    operator.run(&["fsck", "--accept", "ff:aside:{fp:3}"]);
    assert!(!text(&operator.run(&["fsck"]).stdout).contains("aside"));
}
