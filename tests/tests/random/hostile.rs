//! An error means that nothing was written: hostile calls, and failures in the middle of good ones.

use std::path::Path;

use selvedge_core::value::Value;
use selvedge_lua::host::Host;
use selvedge_lua::library::SOURCE;
use selvedge_tests::hostile::HostileRunner;
use selvedge_tests::hostile::fail_inner_commands::{Injected, inject};

#[test]
fn hostile_calls_never_break_a_function_and_errors_change_nothing() {
    let mut runner = runner();
    let findings: Vec<_> = (0..CALLS / 2)
        .filter_map(|attack| runner.run(SEED, attack, None))
        .take(SHOWN_MAX)
        .map(|finding| finding.to_string())
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn a_failing_inner_command_is_never_taken_for_success() {
    let HostileRunner { mut host, corpus, contracts, .. } = runner();
    let mut injected = Injected::default();
    for function in contracts.keys() {
        let calls = corpus.calls(function);
        assert!(!calls.is_empty(), "no spec case calls {function}");
        calls.iter().for_each(|call| inject(call, &mut host, &mut injected));
    }
    let Injected { failures, faults } = injected;
    assert!(failures > 1_000, "only {failures} failures were injected");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn a_call_in_a_slot_that_moves_sees_all_of_it_or_is_refused() {
    let mut runner = runner();
    runner.migrate();
    let findings: Vec<_> = (0..CALLS / 2)
        .filter_map(|attack| runner.run(SEED, attack, None))
        .take(SHOWN_MAX)
        .map(|finding| finding.to_string())
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn functions_that_do_not_look_for_a_moving_slot_are_found() {
    // Without the look, functions still fail at the first key that is elsewhere, if only one node
    // notices that and nothing was written before.
    let library = with_defect("if whole_slot and not (last and", "if false and not (last and");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let mut runner =
        HostileRunner::prepare(&library, &root.join("lua"), &root.join("tests/spec")).unwrap();
    runner.migrate();
    let mut faults: Vec<_> = (0..CALLS / 4)
        .filter_map(|attack| runner.run(SEED, attack, None))
        .map(|finding| finding.fault)
        .take(20)
        .collect();
    faults.retain(|fault| !fault.starts_with("an error after a write"));
    assert!(!faults.is_empty(), "nobody took what had moved for missing");
}

#[test]
fn defects_put_into_the_library_are_found() {
    let defects = [
        (
            "local words = type(reply) == \"table\" and reply.err",
            "local words = nil",
            "a script error after a write",
        ),
        ("if n == nil or n ~= n or", "if n ~= n or", "a script error"),
        (
            "local function err(",
            "local function err(...) call('SET', 'x', 'y') return \
         envelope(0, ...) end local function _(",
            "something was written",
        ),
        (
            "local time = call(\"TIME\")",
            "for i = 1, 999 do call('TIME') end \
         local time = call(\"TIME\")",
            "inner commands",
        ),
        ("err(\"execution_not_found\")", "err(\"nobody\")", "does not list this code"),
        ("ok(\"unblocked\")", "ok(\"freed\")", "does not list this reply"),
        ("reply[i] = number.text(reply[i])", "reply[i] = reply[i]", "in the spec"),
    ];
    let mut runner = runner();
    for (sound, defect, fault) in defects {
        load(&mut runner.host, &with_defect(sound, defect));
        let found = (0..CALLS).filter_map(|attack| runner.run(SEED, attack, None));
        assert!(found.map(|finding| finding.fault).any(|found| found.contains(fault)), "{defect}");
    }
}

#[test]
fn a_swallowed_failure_is_found() {
    let HostileRunner { mut host, corpus, .. } = runner();
    load(&mut host, &with_defect("  call = redis.call\n", "  call = redis.pcall\n"));
    let mut injected = Injected::default();
    for call in corpus.calls("ff_create_flow") {
        inject(call, &mut host, &mut injected);
    }
    assert!(injected.faults.iter().any(|fault| fault.contains("claims success")));
}

fn runner() -> HostileRunner {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    HostileRunner::prepare(SOURCE, &root.join("lua"), &root.join("tests/spec"))
        .expect("the clone holds its own library and spec files")
}

/// Puts a library in place of the one that is there.
fn load(host: &mut Host, library: &str) {
    let reply = host.call(&["FUNCTION", "LOAD", "REPLACE", library]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
}

fn with_defect(sound: &str, defect: &str) -> String {
    assert!(SOURCE.contains(sound), "not in the library: {sound}");
    SOURCE.replace(sound, defect)
}

/// Half of them for the library as it is, of which `./test full` makes twenty times as many.
const CALLS: u64 = 20_000;

const SEED: u64 = 1;

/// A defect is usually found more than once.
const SHOWN_MAX: usize = 10;
