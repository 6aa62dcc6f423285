//! The library and `core`'s types declare the same functions: name, keys, arguments and flags,
//! compared both ways on the in-process host and on real servers.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::call::library::{LibrarySignatures, Version};
use selvedge_core::call::{Function, signatures};
use selvedge_core::value::Value;
use selvedge_lua::library;
use selvedge_tests::spec;

/// The functions of the wire contract.
const CONTRACT: &str = "
    ff_version
    ff_renew_lease ff_mark_lease_expired_if_due ff_revoke_lease
    ff_create_execution ff_claim_execution ff_complete_execution ff_cancel_execution
    ff_delay_execution ff_move_to_waiting_children ff_fail_execution ff_reclaim_execution
    ff_expire_execution ff_set_execution_tags
    ff_issue_claim_grant ff_change_priority ff_register_worker ff_heartbeat_worker
    ff_update_progress ff_promote_delayed ff_issue_reclaim_grant ff_issue_grant_and_claim
    ff_suspend_execution ff_resume_execution ff_create_pending_waitpoint ff_expire_suspension
    ff_close_waitpoint ff_rotate_waitpoint_hmac_secret ff_list_waitpoint_hmac_kids
    ff_deliver_signal ff_buffer_signal_for_pending_waitpoint ff_claim_resumed_execution
    ff_append_frame ff_read_attempt_stream ff_read_summary
    ff_create_budget ff_report_usage_and_check ff_record_spend ff_release_budget ff_reset_budget
    ff_unblock_execution ff_block_execution_for_admission
    ff_create_quota_policy ff_check_admission_and_record ff_release_admission
    ff_create_flow ff_add_execution_to_flow ff_cancel_flow ff_ack_cancel_member
    ff_stage_dependency_edge ff_set_edge_group_policy ff_apply_dependency_to_child
    ff_resolve_dependency ff_drain_sibling_cancel_group ff_reconcile_sibling_cancel_group
    ff_evaluate_flow_eligibility ff_promote_blocked_to_eligible ff_replay_execution
    ff_set_flow_tags";

/// One line per function, so that a difference reads as one.
fn typed() -> BTreeSet<String> {
    signatures()
        .iter()
        .map(|s| line(s.name, &s.keys.join(","), &s.args.join(","), s.reads_only))
        .collect()
}

fn line(name: &str, keys: &str, args: &str, reads_only: bool) -> String {
    format!("{name}({keys}; {args}){}", if reads_only { " no-writes" } else { "" })
}

#[test]
fn every_function_of_the_contract_has_a_type() {
    let contract: BTreeSet<&str> = CONTRACT.split_whitespace().collect();
    let typed: BTreeSet<&str> = signatures().iter().map(|signature| signature.name).collect();
    assert_eq!(typed.len(), signatures().len(), "two types share a name");
    let missing: Vec<_> = contract.difference(&typed).collect();
    assert!(missing.is_empty(), "without a type: {missing:?}");
}

#[test]
fn library_and_types_agree_on_every_store() {
    for name in ["host", "valkey", "redis"] {
        let mut store = spec::start(name, library::SOURCE).unwrap();
        let version = store.call(&Version.command()).unwrap();
        assert_eq!(Version::parse(version).unwrap(), library::VERSION, "{name}");

        let reply = store.call(&LibrarySignatures.command()).unwrap();
        let declared: BTreeSet<String> = LibrarySignatures::parse(reply)
            .unwrap()
            .iter()
            .map(|s| line(&s.name, &s.keys.join(","), &s.args.join(","), s.reads_only))
            .collect();
        let typed = typed();
        let only_lua: Vec<_> = declared.difference(&typed).collect();
        let only_core: Vec<_> = typed.difference(&declared).collect();
        assert!(
            only_lua.is_empty() && only_core.is_empty(),
            "{name}: only in the library: {only_lua:#?}\nonly in core: {only_core:#?}"
        );

        let listed = flags_by_name(&store.call(&words("FUNCTION LIST")).unwrap());
        let expected: BTreeMap<String, bool> =
            signatures().iter().map(|s| (s.name.to_owned(), s.reads_only)).collect();
        assert_eq!(listed, expected, "{name}: what the server registered");
    }
}

fn words(command: &str) -> Vec<Vec<u8>> {
    command.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// `FUNCTION LIST` as function name → whether it is flagged `no-writes`.
fn flags_by_name(listing: &Value) -> BTreeMap<String, bool> {
    let mut flags = BTreeMap::new();
    for library in elements(listing) {
        for function in elements(member(library, "functions")) {
            let mut flagged = elements(member(function, "flags")).iter().map(text);
            flags.insert(text(member(function, "name")), flagged.any(|flag| flag == "no-writes"));
        }
    }
    flags
}

fn elements(value: &Value) -> &[Value] {
    let Value::Array(elements) = value else { panic!("an array was expected, not {value:?}") };
    elements
}

/// The value after `name` in a flat list of names and values.
fn member<'a>(pairs: &'a Value, name: &str) -> &'a Value {
    elements(pairs)
        .chunks_exact(2)
        .find(|pair| text(&pair[0]) == name)
        .map(|pair| &pair[1])
        .unwrap_or_else(|| panic!("no {name} in {pairs:?}"))
}

fn text(value: &Value) -> String {
    if let Value::Status(text) = value {
        return text.clone();
    }
    let Value::Bulk(bytes) = value else { panic!("a text was expected, not {value:?}") };
    String::from_utf8_lossy(bytes).into_owned()
}
