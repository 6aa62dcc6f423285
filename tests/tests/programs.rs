//! No program of this package praises a run that could show nothing.

use std::process::Command;

#[test]
fn a_run_that_could_show_nothing_is_refused() {
    for (program, words, reason) in [
        (LIVE, "--schedules 0", "--schedules must be 1 to 100000, not 0"),
        (LIVE, "--seconds 0", "--seconds must be 4 to 3600, not 0"),
        (LIVE, "--at-once 0", "--at-once must be 1 to 64, not 0"),
        (LIVE, "--shape ring", "live [--schedules N]"),
        (LIVE, "--shcedules 3", "there is no --shcedules"),
        (LIVE, "--schedules", "live [--schedules N]"),
        (DIFFERENTIAL, "--operations 0", "--operations must be 1 to"),
        (DIFFERENTIAL, "--seed 18446744073709551615", "--seed must be 0 to"),
        (CONFORMANCE, "--sequences 0", "--sequences must be 1 to"),
        (CONFORMANCE, "--steps 0", "--steps must be 1 to"),
        (CONFORMANCE, "--seed 18446744073709551615", "--seed must be 0 to"),
        (HISTORY, "--histories 0", "--histories must be 1 to"),
        (HISTORY, "--length 0", "--length must be 1 to"),
        (HISTORY, "--length 18446744073709551615", "--length must be 1 to"),
        (HISTORY, "--seed 18446744073709551614", "--seed must be 0 to"),
        (HOSTILE, "--calls 0", "--calls must be 1 to"),
        (HOSTILE, "--function ff_nothing", "there is no function ff_nothing"),
        (HOSTILE, "--inject --function ff_nothing", "there is no function ff_nothing"),
        (SPEC, "--arm host nothing_of_that_name", "no case has `nothing_of_that_name`"),
        (SPEC, "--arm paper", "no arm paper; there are host, valkey, redis"),
        (PLANTED, "no_bug_of_that_name", "has any of these words"),
    ] {
        let told = Command::new(program).args(words.split(' ')).output().expect("a program");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        assert!(!told.status.success(), "{program} {words} is content: {stdout}");
        assert!(stderr.contains(reason), "{program} {words}: {stderr}");
    }
}

/// `| head -1` ends with the first line, and the program as it would have ended without it.
#[test]
fn whoever_stops_listening_does_no_harm() {
    for (program, words) in
        [(HISTORY, "--histories 3"), (HOSTILE, "--calls 3"), (SPEC, "--arm host promote")]
    {
        let mut told = Command::new(program);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let told = told.args(words.split(' ')).stdout(writer).output().expect("a program");
        assert!(
            told.status.success(),
            "{program} {words}: {}",
            String::from_utf8_lossy(&told.stderr)
        );
    }
}

const CONFORMANCE: &str = env!("CARGO_BIN_EXE_conformance");
const DIFFERENTIAL: &str = env!("CARGO_BIN_EXE_differential");
const HISTORY: &str = env!("CARGO_BIN_EXE_history");
const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
const LIVE: &str = env!("CARGO_BIN_EXE_live");
const PLANTED: &str = env!("CARGO_BIN_EXE_planted");
const SPEC: &str = env!("CARGO_BIN_EXE_spec");
