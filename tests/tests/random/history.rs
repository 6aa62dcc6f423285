//! Random histories violate no oracle.

use selvedge_lua::library::SOURCE;
use selvedge_tests::history::run::HistoryRun;

#[test]
fn random_histories_violate_no_oracle() {
    let options = HistoryRun { seed: 0, histories: 300, length: 60, jobs: 1, migrating: false };
    let tally = options.run(SOURCE).unwrap_or_else(|failure| panic!("{failure}"));
    // A function that was always refused was not tested.
    let idle: Vec<_> = tally.iter().filter(|(_, [accepted, _])| *accepted == 0).collect();
    assert!(idle.is_empty(), "never accepted: {idle:?}");
}

#[test]
fn random_histories_violate_no_oracle_while_slots_move() {
    let options = HistoryRun { seed: 0, histories: 300, length: 60, jobs: 1, migrating: true };
    options.run(SOURCE).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_library_that_works_on_half_of_a_slot_trips_an_oracle() {
    let sound = "if whole_slot and not (last and";
    assert_eq!(SOURCE.matches(sound).count(), 1, "not in the library: {sound}");
    let library = SOURCE.replace(sound, "if false and not (last and");
    let options = HistoryRun { seed: 0, histories: 300, length: 60, jobs: 1, migrating: true };
    let failure = options.run(&library).expect_err("nothing was found");
    assert!(!failure.is_empty());
}

/// The simulator's canaries show that every oracle can fail (`cargo sim canary`). These show that
/// histories reach the oracles: one of states, one of transitions, one of single calls.
#[test]
fn a_broken_library_trips_its_oracle() {
    for (oracle, sound, broken) in [
        ("VectorWhole", "    attempt_state, \"waiting\")", "    attempt_state, \"delayed\")"),
        (
            "LegalTransition",
            "state.eligible(\"pending_replay_attempt\")",
            "state.eligible(\"pending_first_attempt\")",
        ),
        (
            "ErrorMeansUntouched",
            "      return err(\"already_member_of_different_flow:\" .. owner)",
            "      call(\"HSET\", k.flow_core, \"x.y\", owner)\n      \
             return err(\"already_member_of_different_flow:\" .. owner)",
        ),
    ] {
        assert_eq!(SOURCE.matches(sound).count(), 1, "not in the library: {sound}");
        let library = SOURCE.replace(sound, broken);
        let options = HistoryRun { seed: 0, histories: 300, length: 60, jobs: 1, migrating: false };
        assert!(options.trips(&library, oracle), "{oracle} found nothing");
    }
}
