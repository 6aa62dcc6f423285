//! Lists by filters, changes of many executions, and failures by reason.

use selvedge_tests::bounded_output::BoundedOutput as _;
use serde_json::Value;

use crate::kit::{Operator, text};

/// Writes `count` failed executions of a kind, as the functions leave them. They are spread over
/// partitions and end one millisecond after the other, the first at `from_ms`.
fn plant(operator: &Operator, kind: &str, count: u64, from_ms: u64) {
    let mut server = operator.server.connect().expect("it is up");
    server.call(&["SADD", "ff:idx:lanes", "default"]).expect("it answers");
    for n in 0..count {
        let (tag, at) = (format!("{{fp:{}}}", n % 7), (from_ms + n).to_string());
        let id = format!("{tag}:00000000-0000-4000-80{:02}-{n:012}", kind.len());
        let front = format!("ff:exec:{tag}:{id}");
        let reason = format!("order {n} has no route");
        let times = ["created_at", "completed_at", "last_transition_at", "last_mutation_at"];
        let core = format!("{front}:core");
        let mut record = vec!["HSET", &core, "execution_id", &id, "execution_kind", kind];
        record.extend(["failure_reason", &reason]);
        record.extend(FAILED.split_whitespace());
        record.extend(times.iter().flat_map(|name| [*name, at.as_str()]));
        let category = if n % 10 == 0 { "timeout" } else { "permanent" };
        let batch = if n % 4 == 0 { "a" } else { "b" };
        server.call(&record).expect("it answers");
        for words in [
            ["HSET", &format!("ff:attempt:{tag}:{id}:0"), "failure_category", category],
            ["HSET", &format!("{front}:tags"), "app.batch", batch],
            ["ZADD", &format!("{front}:attempts"), &at, "0"],
            ["ZADD", &format!("ff:idx:{tag}:lane:default:terminal"), &at, &id],
        ] {
            server.call(&words).expect("it answers");
        }
        let all = format!("ff:idx:{tag}:all_executions");
        server.call(&["SADD", &all, &id]).expect("it answers");
    }
}

/// What the record of a failed execution holds besides its id, kind, reason and times.
const FAILED: &str = "namespace default lane_id default lifecycle_phase terminal \
    ownership_state unowned eligibility_state not_applicable blocking_reason none \
    terminal_outcome failed attempt_state attempt_terminal public_state failed \
    total_attempt_count 1 current_attempt_index 0 priority 0 replay_count 0";

/// The object that a command prints to standard error.
fn note(operator: &Operator, arguments: &[&str]) -> (Vec<Value>, Value) {
    let ran = operator.run(&[arguments, &["--json"]].concat());
    let read = |bytes: &[u8]| {
        let lines = text(bytes);
        let read = lines.lines().map(|line| serde_json::from_str(line).expect("an object"));
        read.collect::<Vec<Value>>()
    };
    (read(&ran.stdout), read(&ran.stderr).into_iter().next_back().unwrap_or_default())
}

fn planted() -> Operator {
    let operator = Operator::new();
    operator.json(&["lanes"]);
    plant(&operator, "mail", 60, 1_700_000_000_000);
    plant(&operator, "invoice", 40, 1_700_000_000_020);
    operator
}

#[test]
fn pages_of_a_list_join_without_a_gap_and_newest_first() {
    let operator = planted();
    let filter = ["exec", "list", "--where", "state=failed", "--where", "kind=mail"];
    let whole = operator.json(&[&filter[..], &["--limit", "1000"]].concat());
    assert_eq!(whole.len(), 60);
    assert_eq!(whole[0]["moved_at"], 1_700_000_000_059_u64);
    assert_eq!(whole[0]["reason"], "order 59 has no route");
    let (mut joined, mut from, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let cursor = from.as_deref().map(|from| ["--from", from]);
        let arguments = [&filter[..], &["--limit", "7"], cursor.as_ref().map_or(&[], |at| at)];
        let (page, told) = note(&operator, &arguments.concat());
        joined.extend(page);
        match told["next"].as_str() {
            Some(next) => from = Some(next.to_owned()),
            None => break,
        }
        pages += 1;
    }
    assert!(pages >= 8, "{pages}");
    assert_eq!(joined, whole);
}

#[test]
fn every_condition_selects() {
    let operator = planted();
    for (conditions, count) in [
        (&["tag.app.batch=a"][..], 25),
        (&["category=timeout"], 10),
        (&["reason~ORDER 7 "], 2),
        (&["reason=order 7 has no route", "kind=mail,invoice"], 2),
        (&["age>1d", "kind=invoice"], 40),
        (&["age<1d"], 0),
        (&["state=waiting,active"], 0),
        (&["lane=other"], 0),
        (&["category=timeout", "tag.app.batch=a"], 5),
    ] {
        let given: Vec<&str> = conditions.iter().flat_map(|one| ["--where", *one]).collect();
        let listed = operator.json(&[&["exec", "list", "--limit", "999"], &given[..]].concat());
        assert_eq!(listed.len(), count, "{conditions:?}");
        let counted = operator.json(&[&["exec", "list", "--count"], &given[..]].concat());
        assert_eq!(counted[0]["count"], count, "{conditions:?}");
    }
    let other = ["exec", "list", "--namespace", "other"];
    assert!(operator.json(&other).is_empty());
    operator.fails(
        &mut operator.command(&["exec", "list", "--where", "colour=red"]),
        2,
        &["colour"],
    );
    operator.fails(&mut operator.command(&["exec", "list", "--from", "x"]), 2, &["not a cursor"]);
}

#[test]
fn failures_are_grouped_by_reason_and_not_by_the_numbers_in_it() {
    let operator = planted();
    let groups = operator.json(&["failures"]);
    let seen: Vec<(u64, &str)> = groups
        .iter()
        .map(|group| (group["count"].as_u64().unwrap(), group["category"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(90, "permanent"), (10, "timeout")]);
    assert_eq!(groups[0]["reason"], "order # has no route");
    assert_eq!(groups[0]["newest_at"], 1_700_000_000_059_u64);
    assert_eq!(groups[1]["oldest_at"], 1_700_000_000_000_u64);
    assert_eq!(operator.json(&["failures", "--where", "kind=invoice"])[0]["count"], 36);
}

#[test]
fn many_are_replayed_once_each_however_often_the_run_stops() {
    let operator = planted();
    let filter = ["exec", "replay", "--where", "kind=mail"];
    let (_, would) = note(&operator, &[&filter[..], &["--dry-run"]].concat());
    assert_eq!((&would["count"], &would["is_exact"]), (&60.into(), &true.into()), "{would}");
    operator.fails(&mut operator.command(&filter), 2, &["--dry-run", "--yes"]);
    for expected in [25, 25, 10] {
        let (ran, _) = note(&operator, &[&filter[..], &["--yes", "--max", "25"]].concat());
        assert_eq!(ran[0]["replayed"], expected, "{ran:?}");
        assert_eq!((&ran[0]["refused"], &ran[0]["failed"]), (&0.into(), &0.into()));
    }
    let again = [&filter[..], &["--yes"]].concat();
    operator.fails(&mut operator.command(&again), 4, &["nothing to do"]);
    assert_eq!(
        operator.json(&["exec", "list", "--where", "state=waiting", "--limit", "99"]).len(),
        60
    );
    let cancel = ["exec", "cancel", "--where", "kind=mail", "--yes"];
    assert_eq!(operator.json(&cancel)[0]["cancelled"], 60);
    assert!(operator.json(&["fsck"]).len() < 2, "sound");
}

#[test]
fn a_run_that_reached_its_cap_says_so_and_goes_on_from_its_cursor() {
    let operator = planted();
    let purge = ["exec", "purge", "--where", "state=failed", "--yes"];
    let first = [&purge[..], &["--max", "30"]].concat();
    operator.fails(&mut operator.command(&first), 5, &["--max", "--from"]);
    let (ran, _) = note(&operator, &first);
    let next = ran[0]["next"].as_str().expect("there are more");
    let ran = operator.json(&[&purge[..], &["--from", next]].concat());
    assert_eq!((&ran[0]["purged"], &ran[0]["next"]), (&40.into(), &Value::Null));
    let left = operator.call(&["KEYS", "ff:exec:*"]);
    assert_eq!(left, selvedge_core::value::Value::Array(Vec::new()));
}

#[test]
fn refusals_are_counted_with_their_reason() {
    let operator = planted();
    // A record that lost its lane, and one whose replays are used up.
    operator.call(&[
        "HSET",
        "ff:exec:{fp:0}:{fp:0}:00000000-0000-4000-8004-000000000000:core",
        "lane_id",
        "",
    ]);
    let ran = operator
        .command(&["exec", "purge", "--where", "kind=mail", "--yes", "--json"])
        .bounded_output();
    assert_eq!(ran.status.code(), Some(5));
    let report: Value = serde_json::from_slice(&ran.stdout).expect("an object");
    assert_eq!((&report["purged"], &report["refused"]), (&59.into(), &1.into()), "{report}");
    assert_eq!(report["refusals"][0]["reason"], "its record names no lane");
}

#[test]
fn one_execution_is_purged_by_its_id() {
    let operator = planted();
    let id = "{fp:1}:00000000-0000-4000-8004-000000000001";
    assert_eq!(operator.json(&["exec", "purge", id, "--dry-run"])[0]["would"], "purge");
    assert_eq!(operator.json(&["exec", "purge", id])[0]["done"], "purged");
    operator.fails(&mut operator.command(&["exec", "purge", id]), 3, &["there is no"]);
    operator.fails(&mut operator.command(&["exec", "purge"]), 2, &["required", "ID"]);
}
