//! Every command stays in its namespace unless it is told otherwise.

use crate::kit::{Operator, REPORT, text, with_input};

#[test]
fn ids_of_other_namespaces_are_refused_with_the_namespace() {
    let operator = Operator::new();
    let mut submit =
        operator.command(&["flow", "submit", "-", "--json", "--namespace", "tenant-b"]);
    let submitted = with_input(&mut submit, REPORT);
    let submitted: serde_json::Value = serde_json::from_str(&submitted).expect("an object");
    let flow = submitted["flow_id"].as_str().expect("an id");
    let task = submitted["tasks"]["fetch"].as_str().expect("an id");
    for arguments in [
        &["flow", "show", flow][..],
        &["flow", "show", flow, "--mermaid"],
        &["flow", "cancel", flow],
        &["flow", "cancel", flow, "--dry-run"],
        &["exec", "show", task],
        &["exec", "cancel", task],
        &["exec", "cancel", task, "--dry-run"],
        &["exec", "replay", task],
        &["exec", "signal", task, "go"],
        &["why", task],
        &["why", flow],
    ] {
        let says = ["is in namespace tenant-b, not in default", "--all-namespaces"];
        operator.fails(&mut operator.command(arguments), 4, &says);
    }
    let shown = &operator.json(&["exec", "show", task, "--namespace", "tenant-b"])[0];
    assert_eq!((&shown["namespace"], &shown["state"]), (&"tenant-b".into(), &"waiting".into()));
    let shown = text(&operator.run(&["flow", "show", flow, "--all-namespaces"]).stdout);
    assert!(shown.contains("namespace tenant-b"), "{shown}");
    operator.json(&["why", task, "--all-namespaces"]);
    operator.json(&["exec", "cancel", task, "--all-namespaces"]);
    operator.json(&["flow", "cancel", flow, "--namespace", "tenant-b"]);
}

#[test]
fn lists_are_those_of_the_namespace() {
    let operator = Operator::new();
    operator.submitted(REPORT);
    let mut submit = operator.command(&["flow", "submit", "-", "--namespace", "tenant-b"]);
    with_input(&mut submit, REPORT);
    let namespaces = |more: &[&str]| {
        let rows = operator.json(&[&["flow", "list"][..], more].concat());
        let mut names: Vec<String> =
            rows.iter().map(|row| row["namespace"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(namespaces(&[]), ["default"]);
    assert_eq!(namespaces(&["--namespace", "tenant-b"]), ["tenant-b"]);
    assert_eq!(namespaces(&["--all-namespaces"]), ["default", "tenant-b"]);
    let told = text(&operator.run(&["flow", "list"]).stderr);
    assert!(told.contains("1 of other namespaces; --all-namespaces"), "{told}");
}

#[test]
fn workers_are_those_of_one_namespace() {
    let operator = Operator::new();
    operator.fails(
        &mut operator.command(&["workers", "--all-namespaces"]),
        2,
        &["registered by namespace", "--namespace"],
    );
    let shown = text(&operator.run(&["workers"]).stdout);
    assert!(shown.contains("NAMESPACE"), "{shown}");
}
