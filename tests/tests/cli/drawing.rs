//! Flows as they are drawn: the state of the whole, and when a watch is over.

use std::io::Read as _;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::kit::{Operator, REPORT, text};

#[test]
fn a_flows_state_follows_its_tasks_without_an_engine() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("an id");
    assert_eq!(operator.json(&["flow", "show", flow])[0]["state"], "blocked");
    cancel_each(&operator, &submitted);
    assert_eq!(operator.json(&["flow", "show", flow])[0]["state"], "cancelled");
    let shown = text(&operator.run(&["flow", "show", flow]).stdout);
    assert!(shown.contains("report (cancelled)"), "{shown}");
}

#[test]
fn a_watch_ends_with_its_flow_although_it_shows_only_part_of_it() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().expect("an id");
    cancel_each(&operator, &submitted);
    let mut watch = operator.command(&["flow", "show", flow, "--watch", "--limit", "1"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("the binary is built");
    let mut drawn = watch.stdout.take().expect("piped");
    let (tell, told) = mpsc::channel();
    // Its output ends when it does.
    std::thread::spawn(move || {
        let mut text = String::new();
        tell.send(drawn.read_to_string(&mut text).is_ok())
    });
    let ended = told.recv_timeout(Duration::from_secs(20));
    let _ = watch.kill();
    watch.wait().expect("it is ours");
    assert_eq!(ended, Ok(true), "it watches a flow that has ended");
}

fn cancel_each(operator: &Operator, submitted: &Value) {
    for id in submitted["tasks"].as_object().expect("tasks").values() {
        operator.json(&["exec", "cancel", id.as_str().expect("an id")]);
    }
}
