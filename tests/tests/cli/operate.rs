//! The command line as an operator uses it, on a real server.

use std::process::Stdio;

use selvedge_tests::bounded_output::BoundedOutput as _;
use serde_json::Value;

use crate::kit::{Operator, REPORT, text};

#[test]
fn a_flow_is_submitted_shown_listed_and_cancelled() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("an id");

    let shown = text(&operator.run(&["flow", "show", flow]).stdout);
    assert!(shown.contains("render  waiting_children  (after any of fetch, mirror)"), "{shown}");
    let mermaid = text(&operator.run(&["flow", "show", flow, "--mermaid"]).stdout);
    assert!(mermaid.starts_with("graph TD") && mermaid.contains("-->|any|"), "{mermaid}");
    assert_eq!(operator.json(&["flow", "list"])[0]["flow"], flow);
    assert_eq!(operator.json(&["lanes"])[0]["ready"], 2);

    let would = &operator.json(&["flow", "cancel", flow, "--dry-run"])[0];
    assert_eq!((&would["open"], &would["of"]), (&Value::from(3), &Value::from(3)));
    let done = &operator.json(&["flow", "cancel", flow])[0];
    assert_eq!(done["cancelled"], 3, "{done}");
    let shown = &operator.json(&["flow", "show", flow])[0];
    for task in shown["tasks"].as_array().expect("a list") {
        assert_eq!(task["state"], "cancelled", "{task}");
    }
}

#[test]
fn why_explains_what_an_execution_waits_for() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let (render, fetch) = (tasks["render"].as_str().unwrap(), tasks["fetch"].as_str().unwrap());

    let why = &operator.json(&["why", render])[0];
    let unblocked_by: Vec<&str> = why["waits"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|wait| wait["unblocked_by"].as_str())
        .collect();
    assert_eq!(unblocked_by, ["upstream", "upstream"], "{why}");
    let why = text(&operator.run(&["why", fetch]).stdout);
    assert!(why.contains("waits for any worker of lane default"), "{why}");

    operator.json(&["exec", "cancel", fetch, "--dry-run"]);
    assert_eq!(operator.json(&["exec", "show", fetch])[0]["state"], "waiting");
    let shown = text(&operator.run(&["exec", "show", fetch]).stdout);
    assert!(!shown.contains("none"), "nobody blocks it: {shown}");
    operator.json(&["exec", "cancel", fetch, "--reason", "not needed"]);
    let shown = &operator.json(&["exec", "show", fetch])[0];
    assert_eq!((&shown["state"], &shown["reason"]), (&"cancelled".into(), &"not needed".into()));
    operator.json(&["exec", "replay", fetch]);
    assert_eq!(operator.json(&["exec", "show", fetch])[0]["state"], "waiting");

    let ran = operator.run(&["exec", "signal", fetch, "approved"]);
    assert_eq!(ran.status.code(), Some(4), "it is not suspended: {}", text(&ran.stderr));
}

#[test]
fn a_ticket_signals_its_own_execution_only_and_its_token_is_never_shown() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let (render, fetch) = (tasks["render"].as_str().unwrap(), tasks["fetch"].as_str().unwrap());
    let token = format!("k1:{}", "ab".repeat(20));
    let ticket = format!("{render}/11111111-1111-4111-8111-111111111111/{token}");
    let ran = operator.run(&["exec", "signal", fetch, "approved", "--ticket", &ticket]);
    assert_eq!(ran.status.code(), Some(2));
    let told = text(&ran.stderr);
    assert!(told.contains(&format!("is for {render}, not for {fetch}")), "{told}");
    let ran = operator.run(&["exec", "show", &ticket]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(!text(&ran.stderr).contains(&token), "{}", text(&ran.stderr));
}

#[test]
fn read_only_commands_load_no_library() {
    let operator = Operator::new();
    let mut server = operator.server.connect().expect("it is up");
    let flow = "00000000-0000-4000-8000-000000000000";
    for look in [
        &["flow", "list"][..],
        &["lanes"],
        &["workers"],
        &["fsck"],
        &["secret", "list"],
        &["secret", "rotate", "--dry-run"],
        &["flow", "show", flow],
        &["flow", "cancel", flow, "--dry-run"],
        &["scan", "--once", "--dry-run"],
        &["demo", "--dry-run"],
        &["config", "show"],
    ] {
        operator.run(look);
        let libraries = server.call(&["FUNCTION", "LIST"]).expect("it answers");
        assert_eq!(libraries, selvedge_core::value::Value::Array(Vec::new()), "{look:?}");
    }
    operator.submitted(REPORT);
    assert_eq!(operator.json(&["flow", "list"]).len(), 1);
}

#[test]
fn fsck_finds_what_is_wrong_and_lets_the_engine_mend_it() {
    let operator = Operator::new();
    let tasks = &operator.submitted(REPORT)["tasks"];
    let fetch = tasks["fetch"].as_str().unwrap();
    let sound = operator.json(&["fsck"]);
    assert_eq!(sound.last().unwrap()["violations"], 0, "{sound:?}");

    // An index entry is lost, as an eviction or a hand could lose it.
    let tag = &fetch[..=fetch.find('}').unwrap()];
    let mut connection = operator.server.connect().expect("the server is up");
    let index = format!("ff:idx:{tag}:lane:default:eligible");
    connection.call(&["ZREM", &index, fetch]).expect("it answers");

    let why = text(&operator.run(&["why", fetch]).stdout);
    for words in ["missing from the eligible index", "index_reconciler", "fsck --repair"] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let broken = operator.run(&["fsck"]);
    assert_eq!(broken.status.code(), Some(5), "{}", text(&broken.stdout));
    assert!(text(&broken.stdout).contains("OneHome"), "{}", text(&broken.stdout));
    let mended = operator.run(&["fsck", "--repair"]);
    assert!(mended.status.success(), "{}{}", text(&mended.stdout), text(&mended.stderr));
    assert_eq!(operator.json(&["lanes"])[0]["ready"], 2);
    let why = text(&operator.run(&["why", fetch]).stdout);
    assert!(!why.contains("missing"), "{why}");
    // A record that lost a part of its state says which.
    let record = format!("ff:exec:{tag}:{fetch}:core");
    connection.call(&["HDEL", &record, "lifecycle_phase"]).expect("it answers");
    let why = text(&operator.run(&["why", fetch]).stdout);
    assert!(why.contains("it lacks lifecycle_phase"), "{why}");
}

#[test]
fn a_large_flow_is_cut_with_a_hint_how_to_see_the_rest() {
    let operator = Operator::new();
    let leaves = (0..30).map(|at| format!(r#"{{"name":"t{at}","kind":"k"}}"#));
    let after: Vec<String> = (0..30).map(|at| format!("\"t{at}\"")).collect();
    let last = format!(r#"{{"name":"last","kind":"k","after":[{}]}}"#, after.join(","));
    let tasks: Vec<String> = leaves.chain([last]).collect();
    let flow = operator.submitted(&format!(r#"{{"kind":"f","tasks":[{}]}}"#, tasks.join(",")));
    let flow = flow["flow_id"].as_str().unwrap();
    let shown = text(&operator.run(&["flow", "show", flow, "--limit", "10"]).stdout);
    let advice = format!("… and 21 more; `selvedge flow show {flow} --limit 31` shows them");
    assert!(shown.contains(&advice), "{shown}");
    assert_eq!(operator.json(&["flow", "show", flow, "--limit", "10"])[0]["omitted"], 21);
    let drawn = text(&operator.run(&["flow", "show", flow, "--mermaid", "--limit", "10"]).stdout);
    assert!(drawn.contains(&format!("cut[\"{advice}\"]")), "{drawn}");
    let shown = text(&operator.run(&["flow", "show", flow]).stdout);
    assert!(shown.contains("t13, t14, t15 and 22 more)") && !shown.contains("…"), "{shown}");
}

#[test]
fn more_upstreams_than_are_read_are_counted() {
    let operator = Operator::new();
    let leaves = (0..70).map(|at| format!(r#"{{"name":"t{at}","kind":"k"}}"#));
    let after: Vec<String> = (0..70).map(|at| format!("\"t{at}\"")).collect();
    let last = format!(r#"{{"name":"last","kind":"k","after":[{}]}}"#, after.join(","));
    let tasks: Vec<String> = leaves.chain([last]).collect();
    let flow = operator.submitted(&format!(r#"{{"kind":"f","tasks":[{}]}}"#, tasks.join(",")));
    let flow = flow["flow_id"].as_str().unwrap();
    let shown = text(&operator.run(&["flow", "show", flow]).stdout);
    assert!(shown.contains("and 62 more)"), "{shown}");
    let drawn = text(&operator.run(&["flow", "show", flow, "--mermaid"]).stdout);
    assert!(drawn.contains("[\"6 more\"] -.->"), "{drawn}");
}

#[test]
fn errors_and_remarks_are_json_too() {
    let operator = Operator::new();
    for (arguments, code, says) in [
        (&["exec", "show", "nonsense"][..], 2, "not a valid execution id"),
        (&["exec", "show", "{fp:1}:550e8400-e29b-41d4-a716-446655440000"], 3, "there is no"),
        (&["lanes", "--store", "valkey://127.0.0.1:1"], 1, "cannot reach"),
        (&["lanes", "--store", "nonsense://"], 2, "unknown scheme"),
        (&["no-such-command"], 2, "no-such-command"),
    ] {
        let ran = operator.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}");
        let told: Value = serde_json::from_slice(&ran.stderr).expect("an object");
        assert_eq!(told["exit_code"], code, "{told}");
        assert!(told["error"].as_str().is_some_and(|error| error.contains(says)), "{told}");
    }
    operator.submitted(REPORT);
    operator.submitted(REPORT);
    let ran = operator.run(&["flow", "list", "--limit", "1", "--json"]);
    let remark: Value = serde_json::from_slice(&ran.stderr).expect("an object");
    assert_eq!(remark["is_truncated"], true, "{remark}");
}

#[test]
fn a_user_without_permission_is_refused() {
    let operator = Operator::new();
    operator.json(&["secret", "rotate"]);
    let reader = ["ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@read", "+@connection"];
    operator.call(&[&reader[..], &["+info", "+time", "+function", "+fcall"]].concat());
    for arguments in [&["secret", "rotate"][..], &["demo"]] {
        let mut command = operator.command(arguments);
        let url = operator.url("reader:pw@");
        operator.fails(command.args(["--store", &url]), 4, &["no permissions", "lets this user"]);
    }
}

#[test]
fn scan_runs_and_names_every_scanner() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    let rows = operator.json(&["scan", "--once"]);
    assert_eq!(rows.len(), selvedge_core::engine::ScannerName::ALL.len());
    let projector = rows.iter().find(|row| row["scanner"] == "flow_projector").unwrap();
    assert_eq!(projector["processed"], 1, "{projector}");
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    for arguments in [&["library"][..], &["config", "show"], &["lanes"], &["completions", "bash"]] {
        let mut child = operator
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        drop(child.stdout.take());
        let ended = child.bounded_output();
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {}", text(&ended.stderr));
        assert!(ended.stderr.is_empty(), "{arguments:?}: {}", text(&ended.stderr));

        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let ended = operator
            .command(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built")
            .bounded_output();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        assert!(text(&ended.stderr).contains("No space left"), "{}", text(&ended.stderr));
    }
}

#[test]
fn signing_keys_are_rotated_and_never_shown() {
    let operator = Operator::new();
    let secret = "ab".repeat(32);
    let file = std::env::temp_dir().join(format!("selvedge-secret-{}", operator.server.port()));
    std::fs::write(&file, &secret).expect("the temporary folder takes a file");
    let path = file.to_string_lossy();
    let rotated = operator.run(&["secret", "rotate", "--secret-file", &path, "--grace", "1h"]);
    std::fs::remove_file(&file).expect("it is there");
    assert!(rotated.status.success(), "{}", text(&rotated.stderr));
    let told = format!("{}{}", text(&rotated.stdout), text(&rotated.stderr));
    assert!(told.contains("signs on 256 partitions") && !told.contains(&secret[..8]), "{told}");
    assert!(told.contains("there was no key before"), "{told}");
    let first = operator.json(&["secret", "list"]);
    assert_eq!(first.len(), 256);
    let again = text(&operator.run(&["secret", "rotate", "--grace", "1h"]).stdout);
    assert!(again.contains("tokens of the former key verify for 1h"), "{again}");
    assert_ne!(operator.json(&["secret", "list"]), first, "another key signs now");

    let shown = operator
        .command(&["config", "show"])
        .env("SELVEDGE_WAITPOINT_SECRET", &secret)
        .bounded_output();
    let shown = text(&shown.stdout);
    assert!(shown.contains("given") && !shown.contains(&secret[..8]), "{shown}");
    assert!(shown.contains("lease_expiry every"), "{shown}");
}

#[test]
fn shells_get_their_completions() {
    let operator = Operator::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&operator.run(&["completions", shell]).stdout);
        assert!(script.contains("fsck") && script.contains("flow"), "{shell}: {script}");
    }
}
