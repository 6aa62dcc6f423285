//! The library answers, publishes and writes the same in the host and in Valkey.

use std::path::Path;

use selvedge_lua::library::SOURCE;
use selvedge_tests::differential::host_and_valkey::{HostAndValkey, PlayError};
use selvedge_tests::differential::run::DifferentialRun;
use selvedge_tests::differential::{SequenceStep, steered};

#[test]
fn the_host_and_valkey_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let report = DifferentialRun { operations: OPERATIONS, seed: 1 }
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
        assert_noticed(ANSWER, &spoilt);
    }
}

/// In which order a set tells its members, and which of them it draws, is a store's own affair.
#[test]
fn sets_are_listed_and_drawn_from_in_one_order() {
    let asked = "{ call('SSCAN', 'many', '0', 'COUNT', '50'), try('SSCAN', 'many', '50', 'COUNT', '50'), \
                 call('SRANDMEMBER', 'many'), call('SRANDMEMBER', 'many', '3'), call('SPOP', 'many', '2'), \
                 call('SMEMBERS', 'many'), try('SMEMBERS', 'many') }";
    let library = spoilt(ANSWER, &format!("return ok(steady_json({asked}))"));
    let mut stores = HostAndValkey::start(&library).expect("a server");
    let many: Vec<_> = (0..300).map(|number| format!("member-{number}")).collect();
    let sequence = [step(&format!("SADD many {}", many.join(" "))), step(REGISTER), step(REGISTER)];
    let replies = stores.play(&sequence).unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(replies[1], replies[2], "nothing was drawn");
}

/// Its fields come in another order from each store, and so many sums must be exact.
#[test]
fn a_large_hash_has_one_digest_in_any_order() {
    let mut stores = HostAndValkey::start(&steered(SOURCE)).expect("a server");
    let some = |from: u32| {
        let fields: Vec<_> = (from..from + 5_000).map(|n| format!("field-{n} {n}")).collect();
        step(&format!("HSET large {}", fields.join(" ")))
    };
    let sequence: Vec<_> = (0..80_000).step_by(5_000).map(some).collect();
    stores.play(&sequence).unwrap_or_else(|error| panic!("{error}"));
}

/// Plays a sequence with this line of the library in place of that one.
fn assert_noticed(line: &str, spoilt_line: &str) {
    let mut stores = HostAndValkey::start(&spoilt(line, spoilt_line)).expect("a server");
    let sequence = [step("SET a 1"), step(REGISTER), step("SET b 2")];
    let Err(PlayError::Diverged(divergence)) = stores.play(&sequence) else {
        panic!("nobody noticed {spoilt_line}");
    };
    assert_eq!(divergence.steps.len(), 1, "{divergence}");
}

/// The library with this line in place of that one.
fn spoilt(line: &str, spoilt_line: &str) -> String {
    let spoilt = steered(SOURCE).replace(line, spoilt_line);
    assert_ne!(spoilt, steered(SOURCE));
    spoilt
}

fn step(line: &str) -> SequenceStep {
    SequenceStep {
        now_us: 4_000_000_000_000_000,
        command: line.split(' ').map(|word| word.as_bytes().to_vec()).collect(),
    }
}

const REGISTER: &str = "FCALL ff_register_worker 3 alive caps workers i w lanes caps 60000 1";

/// What `ff_register_worker` answers.
const ANSWER: &str = "return ok(known and \"refreshed\" or \"registered\")";

/// The binary `differential` makes as many as it is told, with any seed.
const OPERATIONS: u64 = 500;
