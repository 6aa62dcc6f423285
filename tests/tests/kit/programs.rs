//! The test programs refuse options with which they would check nothing.

use std::process::Command;

use selvedge_tests::bounded_output::BoundedOutput as _;

#[test]
fn a_run_that_checks_nothing_is_refused() {
    for (program, arguments, reason) in [
        (LIVE, "--schedules 0", "--schedules must be 1 to 100000, not 0"),
        (LIVE, "--shcedules 3", "there is no --shcedules"),
        (DIFFERENTIAL, "--operations 0", "--operations must be 1 to"),
        (CONFORMANCE, "--sequences 0", "--sequences must be 1 to"),
        (HISTORY, "--histories 0", "--histories must be 1 to"),
        (HOSTILE, "--calls 0", "--calls must be 1 to"),
        (HOSTILE, "--function ff_nothing", "there is no function ff_nothing"),
        (SPEC, "--store host nothing_of_that_name", "no case has `nothing_of_that_name`"),
    ] {
        let output = Command::new(program).args(arguments.split(' ')).bounded_output();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{program} {arguments} succeeds");
        assert!(stderr.contains(reason), "{program} {arguments}: {stderr}");
    }
}

const CONFORMANCE: &str = env!("CARGO_BIN_EXE_conformance");
const DIFFERENTIAL: &str = env!("CARGO_BIN_EXE_differential");
const HISTORY: &str = env!("CARGO_BIN_EXE_history");
const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
const LIVE: &str = env!("CARGO_BIN_EXE_live");
const SPEC: &str = env!("CARGO_BIN_EXE_spec");
