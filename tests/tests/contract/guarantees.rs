//! Guarantees to users, each as one spec case, on the in-process host, on Valkey and on Redis.

#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed, and says so")]

use std::path::Path;

use selvedge_lua::library::SOURCE;
use selvedge_tests::spec::suite::Suite;
use selvedge_tests::spec::{STORES, run_on, start};

/// Runs the one case that tells the promise, on every store.
fn kept(promise: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("spec");
    let suite = Suite::read(&folder).unwrap();
    for name in STORES {
        let mut store = start(name, SOURCE).unwrap();
        let tally = run_on(&suite, &format!("promise: {promise}"), &mut *store);
        let failures: Vec<String> = tally.failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "on {name}:\n{}", failures.join("\n"));
        assert_eq!(tally.cases, 1, "{name} has not one case `{promise}`");
    }
}

macro_rules! promises {
    ($( $test:ident: $promise:literal; )+) => {
        $( #[test] fn $test() { kept($promise); } )+
    };
}

promises! {
    a_dead_workers_execution_is_claimable_again_with_no_operator:
        "a dead worker's execution is claimable again with no operator";
    a_past_delay_until_is_never_lost: "a past delay_until is never lost";
    a_resume_with_delay_comes_back: "a resume with delay comes back";
    a_quorum_never_fires_while_its_edges_are_still_being_added:
        "a quorum never fires while its edges are still being added";
    one_executions_signal_or_token_never_resumes_another:
        "one execution's signal or token never resumes another";
}
