//! What the command says when something is refused, and its exit code.

use std::time::Duration;

use selvedge_tests::wait::Wait;

use crate::kit::{Operator, REPORT, text};

/// A flow of one task, under an idempotency key.
fn keyed(payload: &str) -> String {
    format!(
        r#"{{"kind":"f","idempotency_key":"k","tasks":[{{"name":"a","kind":"w","payload":"{payload}"}}]}}"#
    )
}

#[test]
fn an_idempotency_key_belongs_to_one_content() {
    let operator = Operator::new();
    let first = operator.submitted(&keyed("one"));
    assert_eq!(first["submitted_before"], false, "{first}");
    let again = operator.submitted(&keyed("one"));
    assert_eq!((&again["submitted_before"], &again["flow_id"]), (&true.into(), &first["flow_id"]));
    let two_tasks = keyed("one").replace("]}", r#",{"name":"b","kind":"w"}]}"#);
    for other in [keyed("two"), two_tasks] {
        let ran = operator.submit(&other);
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(4), "{told}");
        assert!(told.contains("submitted before with other content"), "{told}");
        assert!(told.contains(first["flow_id"].as_str().expect("an id")), "{told}");
    }
    let shown = operator.json(&["flow", "show", first["flow_id"].as_str().expect("an id")]);
    assert_eq!(shown[0]["tags"], serde_json::json!({}), "nobody gave it a tag");
    assert_eq!(operator.json(&["fsck"]).last().expect("a summary")["violations"], 0);
}

#[test]
fn a_refusal_is_a_sentence() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let id = tasks["fetch"].as_str().expect("an id");
    operator.json(&["exec", "cancel", id]);
    let record = format!("ff:exec:{}:{id}:core", &id[..=id.find('}').expect("an id")]);
    operator.call(&["HSET", &record, "terminal_outcome", "success", "public_state", "completed"]);
    let told = operator.fails(
        &mut operator.command(&["exec", "cancel", id]),
        4,
        &["refused: it has ended, with the outcome success (execution_not_active)"],
    );
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_second_cancel_has_the_same_exit_code_everywhere() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("an id");
    let task = submitted["tasks"]["fetch"].as_str().expect("an id");
    for cancel in [["exec", "cancel", task], ["flow", "cancel", flow]] {
        assert!(operator.run(&cancel).status.success(), "{cancel:?}");
        for more in [&[][..], &["--dry-run"]] {
            let again = [&cancel[..], more].concat();
            operator.fails(&mut operator.command(&again), 4, &["cancelled"]);
        }
    }
}

#[test]
fn a_key_of_another_type_is_named() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let id = tasks["fetch"].as_str().expect("an id");
    let tag = &id[..=id.find('}').expect("an id")];
    let record = format!("ff:exec:{tag}:{id}:core");
    operator.call(&["DEL", &record]);
    operator.call(&["SET", &record, "not a hash"]);
    // By a plain read, and by a function of the library.
    for arguments in [["exec", "show", id], ["exec", "replay", id]] {
        let named =
            format!("WRONGTYPE Operation against a key holding the wrong kind of value: {record}");
        operator.fails(&mut operator.command(&arguments), 4, &[&named, "selvedge fsck"]);
    }
    let index = format!("ff:idx:{tag}:all_executions");
    operator.call(&["DEL", &index]);
    operator.call(&["SET", &index, "not a set"]);
    let flow = keyed("x").replace(r#""idempotency_key":"k","#, "");
    // Any other partition is fine, so one is found that is not.
    let told = Wait::at_most(Duration::from_secs(60)).until(|| {
        let ran = operator.submit(&flow);
        (!ran.status.success()).then(|| text(&ran.stderr))
    });
    let told = told.expect("some flow comes into that partition");
    assert!(told.contains(&index), "{told}");
}

#[test]
fn a_missing_right_is_named() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    let reader = ["ACL", "SETUSER", "reader", "on", "nopass", "~*", "&*", "+@all", "-hset"];
    operator.call(&reader);
    let url = operator.url("reader@");
    let mut submit = operator.command(&["demo", "--store", &url]);
    operator.fails(&mut submit, 4, &["missing right: +hset"]);
    operator.call(&["ACL", "SETUSER", "reader", "-hgetall"]);
    let mut show =
        operator.command(&["exec", "show", "{fp:1}:550e8400-e29b-41d4-a716-446655440000"]);
    operator.fails(show.args(["--store", &url]), 4, &["missing right: +hgetall"]);
}

#[test]
fn tls_errors_name_the_variable_to_set() {
    let operator = Operator::new();
    let lanes = || operator.command(&["lanes", "--store", "valkeys://127.0.0.1:1"]);
    for (variable, file, named) in [
        ("SELVEDGE_TLS_CA_FILE", "/nowhere/ca.pem", "SELVEDGE_TLS_CA_FILE"),
        ("SELVEDGE_TLS_CERT_FILE", "/nowhere/c.pem", "SELVEDGE_TLS_KEY_FILE"),
        ("SELVEDGE_TLS_KEY_FILE", "/nowhere/k.pem", "SELVEDGE_TLS_CERT_FILE"),
    ] {
        operator.fails(lanes().env(variable, file), 2, &["TLS: ", named]);
    }
    let mut both = lanes();
    both.env("SELVEDGE_TLS_CERT_FILE", "/nowhere/c.pem");
    both.env("SELVEDGE_TLS_KEY_FILE", "/nowhere/k.pem");
    operator.fails(&mut both, 2, &["/nowhere/c.pem", "SELVEDGE_TLS_CERT_FILE names it"]);
}

#[test]
fn serve_on_a_store_of_its_own_is_refused() {
    let operator = Operator::new();
    let mut serve = operator.command(&["serve", "--store", "memory://"]);
    operator.fails(&mut serve, 2, &["exists only inside one process", "--store valkey://HOST"]);
    let ran = operator.submit(r#"{"kind":"pay\u202efdp","tasks":[{"name":"a","kind":"w"}]}"#);
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("U+202E"), "{}", text(&ran.stderr));
}

#[test]
fn a_diagram_shows_names_and_not_markup() {
    let operator = Operator::new();
    let named = "a\\\"]; click n0 <b>#quot;`x`";
    let flow = format!(r#"{{"kind":"f","tasks":[{{"name":"{named}","kind":"w"}}]}}"#);
    let submitted = operator.submitted(&flow);
    let flow = submitted["flow_id"].as_str().expect("an id");
    let drawn = text(&operator.run(&["flow", "show", flow, "--mermaid"]).stdout);
    let lines: Vec<&str> = drawn.lines().collect();
    let label = "a#34;#93;; click n0 #60;b#62;#35;quot;#96;x#96;";
    assert_eq!(lines[1], format!("  n0[\"{label}<br/>waiting\"]:::waiting"), "{drawn}");
    assert!(lines[2].starts_with("  classDef waiting fill:"), "{drawn}");
    assert_eq!(lines.len(), 3, "{drawn}");
}
