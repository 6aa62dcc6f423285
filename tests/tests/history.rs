//! Random histories keep every oracle, and every oracle can fail.

use selvedge_lua::library::SOURCE;
use selvedge_tests::history::campaign::Campaign;

#[test]
fn random_histories_keep_every_oracle() {
    let campaign = Campaign { seed: 0, histories: 300, length: 60 };
    let tally = campaign.run(SOURCE).unwrap_or_else(|downfall| panic!("{downfall}"));
    // A function that was always refused has shown nothing.
    let idle: Vec<_> = tally.iter().filter(|(_, [accepted, _])| *accepted == 0).collect();
    assert!(idle.is_empty(), "never accepted: {idle:?}");
}

/// Puts a bug into the library, and demands that the oracle named after it speaks up.
fn trips(oracle: &str, sound: &str, broken: &str) {
    assert_eq!(SOURCE.matches(sound).count(), 1, "the library has other words for `{sound}`");
    let library = SOURCE.replace(sound, broken);
    let campaign = Campaign { seed: 0, histories: 300, length: 60 };
    assert!(campaign.trips(&library, oracle), "{oracle} did not notice");
}

macro_rules! planted {
    ($( $test:ident: $oracle:literal, $sound:literal => $broken:literal; )+) => {
        $( #[test] fn $test() { trips($oracle, $sound, $broken); } )+
    };
}

planted! {
    a_wrong_public_word_trips_vector_whole: "VectorWhole",
        "    attempt_state, \"waiting\")" => "    attempt_state, \"delayed\")";
    a_move_that_leaves_the_old_entry_trips_one_home: "OneHome",
        "key ~= to then\n      call(\"ZREM\", key, id)" => "key ~= to then\n      call(\"ZSCORE\", key, id)";
    a_lease_that_outlives_its_release_trips_one_holder: "OneHolder",
        "  call(\"DEL\", k.lease_current)\n  call(\"ZREM\", k.lease_expiry, id)" => "  call(\"ZREM\", k.lease_expiry, id)";
    an_end_that_leaves_the_attempt_open_trips_attempts_honest: "AttemptsHonest",
        "local fields = { \"attempt_state\", attempt_state, \"ended_at\", now }" => "local fields = { \"ended_at\", now }";
    an_edge_that_stays_unresolved_trips_group_counts: "GroupCounts",
        "try(\"SREM\", k.unresolved," => "try(\"SISMEMBER\", k.unresolved,";
    a_slot_that_is_not_counted_back_trips_ledger_adds: "LedgerAdds",
        "in_use > call(\"SCARD\", k.admitted_set) then" => "in_use > 99 then";
    a_release_that_gives_all_back_trips_ledger_adds: "LedgerAdds",
        "text.append(back, { name, math.max(0, left) })" => "text.append(back, { name, 0 })";
    a_condition_born_closed_trips_suspended_has_waker: "SuspendedHasWaker",
        "cond.satisfied_count, \"closed\", \"0\"" => "cond.satisfied_count, \"closed\", \"1\"";
    a_debt_without_an_entry_trips_debt_has_note: "DebtHasNote",
        "call(\"SADD\", plan.debt.index, plan.debt.tuple)" => "call(\"EXISTS\", plan.debt.index)";
    a_payload_left_behind_trips_no_orphans: "NoOrphans",
        "call(\"DEL\", k.payload, k.result," => "call(\"DEL\", k.result,";
    a_replay_as_if_it_were_the_first_run_trips_legal_transition: "LegalTransition",
        "state.eligible(\"pending_replay_attempt\")" => "state.eligible(\"pending_first_attempt\")";
    an_epoch_that_stands_still_trips_fence_never_repeats: "FenceNeverRepeats",
        "number.floor(core.current_lease_epoch, 0)) + 1," => "number.floor(core.current_lease_epoch, 0)) + 0,";
    a_child_that_is_not_held_trips_no_run_before_parents: "NoRunBeforeParents",
        "plan.holds = core.lifecycle_phase == \"runnable\"" => "plan.holds = core.lifecycle_phase == \"nowhere\"";
    a_cancel_that_bars_nobody_trips_cancelled_stays_still: "CancelledStaysStill",
        "return core.public_flow_state == \"cancelled\"" => "return core.public_flow_state == \"never\"";
    a_token_that_nobody_checks_trips_signal_counts_once: "SignalCountsOnce",
        "if not same_digest(signed, shown) then" => "if signed == nil then";
    a_repeat_that_nobody_knows_trips_signal_counts_once: "SignalCountsOnce",
        "if not text.set(held.signal_id) then\n    return nil" => "if true then\n    return nil";
    an_end_that_is_not_the_end_trips_legal_transition: "LegalTransition",
        "if core.lifecycle_phase == \"terminal\" then\n    return lease.not_active(core)" => "if core.lifecycle_phase == \"over\" then\n    return lease.not_active(core)";
    a_move_that_forgets_the_new_entry_trips_one_home: "OneHome",
        "call(\"ZADD\", to, number.digits(score), id)" => "call(\"ZSCORE\", to, id)";
    a_write_before_a_refusal_trips_error_means_untouched: "ErrorMeansUntouched",
        "      return err(\"already_member_of_different_flow:\" .. owner)" => "      call(\"HSET\", k.flow_core, \"x.y\", owner)\n      return err(\"already_member_of_different_flow:\" .. owner)";
}
