//! The library answers, publishes and writes the same in the host and in Valkey.

use std::path::Path;

use selvedge_lua::library::SOURCE;
use selvedge_tests::differential::campaign::Campaign;
use selvedge_tests::differential::pair::{Pair, PlayError};
use selvedge_tests::differential::{Step, steered};

#[test]
fn the_host_and_valkey_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let report = Campaign { operations: OPERATIONS, seed: 1 }
        .run(SOURCE, &root)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(report.modelled > 0, "the model judged nothing: {report}");
    assert!(report.messages > 0, "nothing was published: {report}");
}

#[test]
fn a_store_that_differs_is_noticed_and_shown_in_few_steps() {
    // Only the server counts more keys than it was given: the clock is one of them.
    let (answer, count) = ("known and \"refreshed\" or \"registered\"", "#redis.call('KEYS', '*')");
    for spoilt in [
        format!("return ok(tostring({count}))"),
        format!("redis.call('PUBLISH', 'news', {count}) return ok({answer})"),
        format!("redis.call('SET', 'count', {count}) return ok({answer})"),
    ] {
        assert_noticed(&format!("return ok({answer})"), &spoilt);
    }
}

/// Plays a tape with this line of the library in place of that one.
fn assert_noticed(line: &str, spoilt_line: &str) {
    let spoilt = steered(SOURCE).replace(line, spoilt_line);
    assert_ne!(spoilt, steered(SOURCE));
    let mut pair = Pair::start(&spoilt).expect("a server");
    let step = |line: &str| Step {
        now_us: 4_000_000_000_000_000,
        command: line.split(' ').map(|word| word.as_bytes().to_vec()).collect(),
    };
    let register = "FCALL ff_register_worker 3 alive caps workers i w lanes caps 60000 1";
    let tape = [step("SET a 1"), step(register), step("SET b 2")];
    let Err(PlayError::Diverged(divergence)) = pair.play(&tape) else {
        panic!("nobody noticed {spoilt_line}");
    };
    assert_eq!(divergence.steps.len(), 1, "{divergence}");
}

/// The binary `differential` makes as many as it is told, with any seed.
const OPERATIONS: u64 = 500;
