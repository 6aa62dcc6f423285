//! An error means that nothing was written: hostile calls, and failures in the middle of good ones.

use std::path::Path;

use selvedge_core::value::Value;
use selvedge_lua::host::Host;
use selvedge_lua::library::SOURCE;
use selvedge_tests::hostile::Campaign;
use selvedge_tests::hostile::inject::{Injected, inject};

#[test]
fn hostile_calls_never_break_a_function_and_errors_change_nothing() {
    let mut campaign = campaign();
    let findings: Vec<_> = (0..CALLS)
        .filter_map(|attack| campaign.run(SEED, attack, None))
        .take(SHOWN_MAX)
        .map(|finding| finding.to_string())
        .collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn a_failing_inner_command_is_never_taken_for_success() {
    let Campaign { mut host, corpus, contracts } = campaign();
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
fn planted_defects_are_found() {
    let planted = [
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
        ("reply[i + 2] = number.text(field)", "reply[i + 2] = field", "in the spec"),
    ];
    let mut campaign = campaign();
    for (sound, defect, fault) in planted {
        load(&mut campaign.host, &spoilt(sound, defect));
        let found = (0..CALLS).filter_map(|attack| campaign.run(SEED, attack, None));
        assert!(found.map(|finding| finding.fault).any(|found| found.contains(fault)), "{defect}");
    }
}

#[test]
fn a_swallowed_failure_is_found() {
    let Campaign { mut host, corpus, .. } = campaign();
    load(&mut host, &spoilt("  call = redis.call\n", "  call = redis.pcall\n"));
    let mut injected = Injected::default();
    for call in corpus.calls("ff_create_flow") {
        inject(call, &mut host, &mut injected);
    }
    assert!(injected.faults.iter().any(|fault| fault.contains("claims success")));
}

fn campaign() -> Campaign {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    Campaign::prepare(SOURCE, &root.join("lua"), &root.join("tests/spec"))
        .expect("the clone holds its own library and spec files")
}

/// Puts a library in place of the one that is there.
fn load(host: &mut Host, library: &str) {
    let reply = host.call(&["FUNCTION", "LOAD", "REPLACE", library]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
}

fn spoilt(sound: &str, defect: &str) -> String {
    assert!(SOURCE.contains(sound), "nothing to spoil: {sound}");
    SOURCE.replace(sound, defect)
}

/// The long run of the `hostile` binary makes ten times as many, and with any seed.
const CALLS: u64 = 20_000;

const SEED: u64 = 1;

/// A defect is mostly found more than once.
const SHOWN_MAX: usize = 10;
