//! A dry run judges by the rules of the real call, and changes nothing.

use selvedge_core::value::Value;

use crate::kit::{Operator, REPORT, text};
use crate::signals::suspended;

/// Runs a command dry and then really: both must end with this code and these words; the dry run
/// leaves the record as it was.
fn both_end(operator: &Operator, id: &str, arguments: &[&str], code: i32, says: &str) {
    let before = operator.json(&["exec", "show", id]);
    let dry = operator.run(&[arguments, &["--dry-run"]].concat());
    assert_eq!(operator.json(&["exec", "show", id]), before, "{arguments:?} wrote");
    for ran in [dry, operator.run(arguments)] {
        let told = format!("{}{}", text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(says), "{arguments:?} / {says}: {told}");
    }
}

#[test]
fn a_dry_run_of_replay_refuses_what_replay_refuses() {
    let operator = Operator::new();
    let submitted = operator.submitted(REPORT);
    let flow = submitted["flow_id"].as_str().unwrap();
    let id = submitted["tasks"]["fetch"].as_str().unwrap();
    let record = format!("ff:exec:{}:{id}:core", &id[..=id.find('}').unwrap()]);
    both_end(&operator, id, &["exec", "replay", id], 4, "execution_not_terminal");
    both_end(&operator, id, &["exec", "cancel", id], 0, "cancel");
    operator.call(&["HSET", &record, "replay_count", "10"]);
    both_end(&operator, id, &["exec", "replay", id], 4, "max_replays_exhausted");
    operator.call(&["HSET", &record, "replay_count", "0"]);
    both_end(&operator, id, &["exec", "replay", id], 0, "replay");
    operator.json(&["flow", "cancel", flow]);
    both_end(&operator, id, &["exec", "replay", id], 4, "flow_already_terminal");
}

#[test]
fn an_ended_execution_cannot_be_cancelled_not_even_in_a_dry_run() {
    let operator = Operator::new();
    let id = operator.submitted(REPORT)["tasks"]["fetch"].as_str().unwrap().to_owned();
    operator.json(&["exec", "cancel", &id]);
    let record = format!("ff:exec:{}:{id}:core", &id[..=id.find('}').unwrap()]);
    operator.call(&["HSET", &record, "terminal_outcome", "success", "public_state", "completed"]);
    both_end(&operator, &id, &["exec", "cancel", &id], 4, "it has ended");
}

#[test]
fn a_dry_run_of_signal_refuses_what_signal_refuses() {
    let operator = Operator::new();
    let id = suspended(&operator).to_string();
    let signal = ["exec", "signal", &id];
    let named = |name| [&signal[..], &[name]].concat();
    both_end(&operator, &id, &named("aproved"), 4, "nothing waited for it");
    let forged = format!("{id}/{}/k1:{}", waitpoint(&operator, &id), "ab".repeat(20));
    let with_ticket = [&named("approved")[..], &["--ticket", &forged]].concat();
    both_end(&operator, &id, &with_ticket, 4, "invalid_token");
    both_end(&operator, &id, &named("approved"), 0, "resumed");
    both_end(&operator, &id, &named("approved"), 4, "is not suspended");
}

fn waitpoint(operator: &Operator, id: &str) -> String {
    let (tag, _) = id.split_once('}').expect("an id begins with its partition");
    let record = format!("ff:exec:{tag}}}:{id}:core");
    let reply = operator.call(&["HGET", &record, "current_waitpoint_id"]);
    let Value::Bulk(waitpoint) = reply else { panic!("no waitpoint: {reply:?}") };
    text(&waitpoint)
}
