//! `-- write; nothing below can fail` stands only where it is true.

use std::path::Path;

use selvedge_core::value::Value;
use selvedge_lua::library::SOURCE;
use selvedge_tests::hostile::HostileRunner;
use selvedge_tests::hostile::write_marker::{Checked, MARKER, check, with_commands};

#[test]
fn nothing_fails_below_a_write_marker() {
    let (checked, markers) = checked(SOURCE, |_| true);
    let faults: Vec<_> = checked.faults.into_values().collect();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    let missed: Vec<_> = (1..=markers).filter(|number| !checked.passed.contains(number)).collect();
    assert!(missed.is_empty(), "no spec case passes these markers: {missed:?}");
    assert!(checked.failures > 1_000, "only {} commands were failed", checked.failures);
}

#[test]
fn misplaced_markers_are_found() {
    // A key is checked and a refusal is decided below the marker.
    let late = SOURCE
        .replace(&format!("    {MARKER}\n    claim.carry_out(k,"), "    claim.carry_out(k,")
        .replace(
            "    local planned\n    planned, refused = claim.plan(k,",
            &format!("    local planned\n    {MARKER}\n    planned, refused = claim.plan(k,"),
        );
    let (checked, _) = checked(&late, |function| function == "ff_issue_grant_and_claim");
    assert!(checked.faults.contains_key("ff_issue_grant_and_claim refuses below the marker"));
}

/// Checks the calls of these functions that the spec files make, with this library.
fn checked(library: &str, wanted: impl Fn(&str) -> bool) -> (Checked, usize) {
    let (library, markers) = with_commands(library);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let mut runner = HostileRunner::prepare(SOURCE, &root.join("lua"), &root.join("tests/spec"))
        .expect("the clone holds its own library and spec files");
    let reply = runner.host.call(&["FUNCTION", "LOAD", "REPLACE", &library]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    let mut checked = Checked::default();
    for function in runner.contracts.keys().filter(|function| wanted(function)) {
        for call in runner.corpus.calls(function) {
            check(call, &mut runner.host, &mut checked);
        }
    }
    (checked, markers)
}
