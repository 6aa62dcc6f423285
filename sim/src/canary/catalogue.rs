//! All canaries.

use super::{Canary, ClientBug, EngineBug, Patch, PlantedBug, WhyBug, WorkerBug, WorldBug};

macro_rules! canaries {
    ($( $name:ident: $oracle:literal, $bug:expr $(, $story:literal)?; )+) => {
        /// All canaries.
        pub const CANARIES: &[Canary] = &[$( Canary {
            name: stringify!($name),
            oracle: $oracle,
            bug: $bug,
            story: canaries!(@story $( $story )?),
        }, )+];
    };
    (@story) => { None };
    (@story $story:literal) => { Some($story) };
}

macro_rules! lua {
    ($( $from:literal => $to:literal ),+) => {
        PlantedBug::Lua(&[$( Patch { from: $from, to: $to } ),+])
    };
}

canaries! {
    // Records.
    retry_count_not_a_number: "RightKind", lua!(
        "  attempt.finish(k.attempt, \"ended_success\", now)"
            => "  call(\"HSET\", k.exec_core, \"retry_count\", \"many\")\n  attempt.finish(k.attempt, \"ended_success\", now)"),
        "at 0s caller-1 create E1\n";
    wrong_public_state: "VectorWhole", lua!(
        "\"pending_first_attempt\", \"waiting\")" => "\"pending_first_attempt\", \"delayed\")"),
        "at 0s caller-1 create E1\n";
    old_index_entry_kept: "OneHome", lua!(
        "key ~= to then\n      call(\"ZREM\", key, id)"
            => "key ~= to then\n      call(\"ZSCORE\", key, id)"),
        "at 0s caller-1 create E1 delay 2s\n";
    lease_outlives_its_release: "OneHolder", lua!(
        "  lease.remove_record(k.lease_current)\n  call(\"ZREM\", k.lease_expiry, id)"
            => "  call(\"ZREM\", k.lease_expiry, id)"),
        "task E1 does slow\nat 0s caller-1 create E1\n";
    fence_not_compared: "OneHolder", lua!(
        "  if (core.current_lease_id or \"\") ~= fence.lease_id\n    or (core.current_lease_epoch or \"\") ~= fence.lease_epoch\n    or (core.current_attempt_id or \"\") ~= fence.attempt_id then"
            => "  if core.current_lease_id == nil then"),
        "workers 2\nfault WorkerZombie on 1st claim_many by worker-1 ms 4000\nfault WorkerZombie on 1st claim_many by worker-2 ms 4000\nat 0s caller-1 create E1\n";
    lapsed_lease_accepted: "OneHolder", lua!(
        "  if lease.lapsed(core, now) then\n    return lease.mark_expired"
            => "  if lease.lapsed(core, 0) then\n    return lease.mark_expired"),
        "interval 15s\npush no\nfault WorkerZombie on 1st claim_many by worker-1 ms 50\nat 0s caller-1 create E1\n";
    attempt_left_open: "AttemptsHonest", lua!(
        "\"attempt_state\", attempt_state, \"ended_at\", number.text(now),"
            => "\"ended_at\", number.text(now),"),
        "at 0s caller-1 create E1\n";
    claim_note_without_ttl: "NoOrphans", lua!(
        "    call(\"SET\", k.claim_note, claim.note(found.plans), \"PX\",\n      number.digits(math.max(numbers.ttl, claim.NOTE_MS)))"
            => "    call(\"SET\", k.claim_note, claim.note(found.plans))"),
        "at 0s caller-1 create E1\n";
    replay_marked_as_first_attempt: "LegalTransition", lua!(
        "state.eligible(\"pending_replay_attempt\")" => "state.eligible(\"pending_first_attempt\")"),
        "at 0s caller-1 create E1\nat 10s caller-1 replay E1\n";
    epoch_not_increased: "FenceNeverRepeats", lua!(
        "number.floor(core.current_lease_epoch, 0)) + 1" => "number.floor(core.current_lease_epoch, 0)) + 0"),
        "task E1 does die\nat 0s caller-1 create E1\n";
    write_before_a_refusal: "ErrorMeansUntouched", lua!(
        "    local refused = refusal(k, core, a, now)\n    if refused then return refused end"
            => "    local refused = refusal(k, core, a, now)\n    if refused then\n      call(\"HSET\", k.exec_core, \"last_refused_at\", now)\n      return refused\n    end"),
        "at 0s caller-1 create E1\nat 10s caller-1 cancel E1\n";
    projection_reads_the_wrong_type: "ErrorMeansUntouched", lua!(
        "local total = call(\"SCARD\", k.members)" => "local total = call(\"GET\", k.members)"),
        "at 0s caller-1 submit F1 chain 2\n";
    work_without_a_bound: "BoundedWork", lua!(
        "  attempt.finish(k.attempt, \"ended_success\", now)"
            => "  for _ = 1, 3000 do call(\"EXISTS\", k.attempt) end\n  attempt.finish(k.attempt, \"ended_success\", now)"),
        "at 0s caller-1 create E1\n";
    moved_keys_stay: "OneCopy", PlantedBug::World(WorldBug::MovedKeysStay),
        "shards 2\nfault SlotMovesByKeys at 1s for 3s\nat 0s caller-1 create E1\n";
    moving_slot_not_noticed: "ErrorMeansUntouched", lua!(
        "if whole_slot and not (last and" => "if false and not (last and"),
        "shards 2\ninterval 200ms\nlength 13m\nfault SlotMovesByKeys at 1s for 20s\nat 0s caller-1 submit F1 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 31s for 20s\nat 30s caller-1 submit F2 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 61s for 20s\nat 60s caller-1 submit F3 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 91s for 20s\nat 90s caller-1 submit F4 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 121s for 20s\nat 120s caller-1 submit F5 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 151s for 20s\nat 150s caller-1 submit F6 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 181s for 20s\nat 180s caller-1 submit F7 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 211s for 20s\nat 210s caller-1 submit F8 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 241s for 20s\nat 240s caller-1 submit F9 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 271s for 20s\nat 270s caller-1 submit F10 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 301s for 20s\nat 300s caller-1 submit F11 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 331s for 20s\nat 330s caller-1 submit F12 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 361s for 20s\nat 360s caller-1 submit F13 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 391s for 20s\nat 390s caller-1 submit F14 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 421s for 20s\nat 420s caller-1 submit F15 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 451s for 20s\nat 450s caller-1 submit F16 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 481s for 20s\nat 480s caller-1 submit F17 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 511s for 20s\nat 510s caller-1 submit F18 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 541s for 20s\nat 540s caller-1 submit F19 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 571s for 20s\nat 570s caller-1 submit F20 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 601s for 20s\nat 600s caller-1 submit F21 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 631s for 20s\nat 630s caller-1 submit F22 diamond 3 any_of cancel_remaining\nfault SlotMovesByKeys at 661s for 20s\nat 660s caller-1 submit F23 fan_in 4 any_of cancel_remaining\nfault SlotMovesByKeys at 691s for 20s\nat 690s caller-1 submit F24 diamond 3 any_of cancel_remaining\n";
    write_into_another_slot: "OneSlot", lua!(
        "  attempt.finish(k.attempt, \"ended_success\", now)"
            => "  call(\"SET\", \"ff:elsewhere:{fp:9999}\", now)\n  attempt.finish(k.attempt, \"ended_success\", now)"),
        "at 0s caller-1 create E1\n";

    // Dependencies and groups.
    edge_stays_unresolved: "GroupCounts", lua!(
        "try(\"SREM\", k.unresolved," => "try(\"SISMEMBER\", k.unresolved,",
        "try(\"SREM\", unresolved, edge_id)" => "try(\"SISMEMBER\", unresolved, edge_id)"),
        "at 0s caller-1 submit F1 chain 2\n";
    group_gives_up_too_soon: "GroupCounts", lua!(
        "if upstreams >= needed and lost > upstreams - needed then" => "if lost > 0 then"),
        "task F1.0 does fail_for_good\nat 0s caller-1 submit F1 fan_in 3 any_of let_run\n";
    child_not_blocked: "NoRunBeforeParents", lua!(
        "plan.holds = core.lifecycle_phase == \"runnable\""
            => "plan.holds = core.lifecycle_phase == \"nowhere\""),
        "at 0s caller-1 build F1 chain 3\n";
    every_outcome_is_success: "EdgeByTruth", lua!(
        "upstream_outcome = core.terminal_outcome, now_ms = all.now"
            => "upstream_outcome = \"success\", now_ms = all.now"),
        "task F1.0 does fail_for_good\nat 0s caller-1 submit F1 chain 2\n";
    pending_group_not_indexed: "PendingCancelsIndexed", lua!(
        "call(\"SADD\", plan.sibling_cancels.index, plan.sibling_cancels.tuple)" => "call(\"EXISTS\", plan.sibling_cancels.index)"),
        "at 0s caller-1 submit F1 fan_in 4 any_of cancel_remaining\n";
    drain_before_the_cancels: "PendingCancelsFinished", lua!(
        "      if are_running then\n        return text.append(ok(\"siblings_running\"), open)"
            => "      if #open > 9999 then\n        return text.append(ok(\"siblings_running\"), open)");
    unknown_result_taken_for_success: "PendingCancelsFinished", PlantedBug::Engine(EngineBug::UnknownIsSuccess),
        "length 60s\nwork 40s\nfault CrashAfterApply on 1st cancel_flow by caller-1\nfault RequestLost on 1st cancel_execution by engine-1\nat 0s caller-1 submit F1 chain 3\nat 500ms caller-1 cancel_flow F1\n";
    cancelled_flow_still_claimable: "CancelledStaysStill", lua!(
        "return flow.covers_members(stored)" => "return false");

    // Waiting and signals.
    condition_created_closed: "SuspendedHasWaker", lua!(
        "cond.satisfied_count, \"closed\", \"0\"" => "cond.satisfied_count, \"closed\", \"1\""),
        "task E1 does suspend\nat 0s caller-1 create E1\n";
    signal_counted_twice: "SignalCountsOnce", lua!(
        "cond.satisfied_count = cond.satisfied_count + 1" => "cond.satisfied_count = cond.satisfied_count + 2"),
        "task E1 does suspend\nat 0s caller-1 create E1\n";
    repeated_claim_not_recognised: "RepeatIsHarmless", lua!(
        "    local note = call(\"GET\", k.claim_note)\n    if note then\n      local reply" => "    local note = nil\n    if note then\n      local reply"),
        "fault DuplicateDelivery on 1st claim_many ms 20\nat 0s caller-1 create E1\nat 0s caller-1 create E2\nat 0s caller-1 create E3\nat 0s caller-1 create E4\nat 0s caller-1 create E5\nat 0s caller-1 create E6\nat 0s caller-1 create E7\nat 0s caller-1 create E8\n";
    promoted_too_early: "NotBeforeDue", lua!(
        "    if due > now then\n      if score ~= due" => "    if due > now + 3600000 then\n      if score ~= due",
        "local page = call(\"ZRANGEBYSCORE\", key, \"-inf\", number.digits(cutoff), \"WITHSCORES\","
            => "local page = call(\"ZRANGEBYSCORE\", key, \"-inf\", \"+inf\", \"WITHSCORES\","),
        "at 0s caller-1 create E1 delay 20s\n";
    purged_too_early: "NotBeforeDue", lua!(
        "if due and (due > now or not ended) and" => "if due and (due > now + 86400000 or not ended) and"),
        "interval 1s\nat 0s caller-1 create E1 policy brief\nat 0s caller-1 create E2 delay 20s\n";
    reset_too_early: "NotBeforeDue", lua!(
        "    if due > now then\n      return ok(\"not_yet_due\"" => "    if due > now + 3600000 then\n      return ok(\"not_yet_due\"",
        "local page = call(\"ZRANGEBYSCORE\", key, \"-inf\", number.digits(cutoff), \"WITHSCORES\","
            => "local page = call(\"ZRANGEBYSCORE\", key, \"-inf\", \"+inf\", \"WITHSCORES\","),
        "at 0s caller-1 create E1 policy budget\n";

    // Budgets and quotas.
    quota_slot_not_released: "LedgerAdds", lua!(
        "in_use > call(\"SCARD\", k.admitted_set) then" => "in_use > 99 then");
    spend_counted_twice: "LedgerAdds", lua!(
        "  if call(\"EXISTS\", dedup_key) == 0 then" => "  if call(\"EXISTS\", dedup_key) < 2 then"),
        "fault DuplicateDelivery on 1st record_usage ms 20\nat 0s caller-1 create E1 policy budget\n";
    usage_above_a_limit_not_counted: "LedgerAdds", lua!(
        "  if breached and not has_happened then" => "  if breached then"),
        "at 0s caller-1 create E1 policy budget\nat 0s caller-1 create E2 policy budget\nat 0s caller-1 create E3 policy budget\nat 0s caller-1 create E4 policy budget\nat 0s caller-1 create E5 policy budget\nat 0s caller-1 create E6 policy budget\n";
    budget_not_asked: "BudgetsStop", PlantedBug::Worker(WorkerBug::UsageIgnored),
        "at 0s caller-1 create E1 policy budget\nat 0s caller-1 create E2 policy budget\nat 0s caller-1 create E3 policy budget\nat 0s caller-1 create E4 policy budget\nat 0s caller-1 create E5 policy budget\nat 8s caller-1 create E6 policy budget\n";
    spend_rounded_up_in_cluster: "LedgerAdds", lua!(
        "    local sum = tally.after[entry.dimension] + entry.delta"
            => "    local sum = tally.after[entry.dimension] + entry.delta + 1"),
        "shards 2\nflow_partitions 2\nat 2s caller-1 create E1 policy budget\n";

    // Answers to callers.
    cancel_of_ended_execution_succeeds: "MatchesModel", lua!(
        "    local refused = refusal(k, core, a, now)\n    if refused then return refused end"
            => "    local refused = refusal(k, core, a, now)\n    if refused and core.lifecycle_phase == \"terminal\" then\n      return ok(\"cancelled\", \"active\")\n    end\n    if refused then return refused end"),
        "at 0s caller-1 create E1\nat 10s caller-1 cancel E1\n";
    lost_commit_not_recorded: "NoLostAck", PlantedBug::World(WorldBug::LossNotRecorded),
        "at 0s caller-1 create E1\nfault FailoverLosesSuffix at 20s to node-1 commits 999\n";
    lost_flow_not_recorded: "NoLostAck", PlantedBug::World(WorldBug::LossNotRecorded),
        "work 40s\nat 0s caller-1 submit F1 chain 2\nfault FailoverLosesSuffix at 2s to node-1 commits 999\n";
    lost_edge_not_recorded: "AllSettle", PlantedBug::World(WorldBug::LossNotRecorded),
        "engines 5\nat 6.603s caller-1 build F5 diamond 4 quorum 3 let_run\nfault FailoverLosesSuffix at 7.228s commits 5\n";

    // The client's procedures.
    push_not_followed_by_a_read: "EndsNoticed", PlantedBug::Client(ClientBug::PushIgnored),
        "at 0s caller-1 create E1 delay 3s\nat 1s caller-1 wait E1\n";
    end_missed_between_subscription_and_read: "EndsNoticed",
        PlantedBug::Client(ClientBug::GapIgnored),
        "link 300ms\nidle 1s\nwork 1s\nlength 40s\nat 0s caller-1 create E1\nat 2s caller-1 wait E1\nat 2200ms caller-1 wait E1\nat 2400ms caller-1 wait E1\nat 2600ms caller-1 wait E1\nat 2800ms caller-1 wait E1\nat 3s caller-1 wait E1\nat 3200ms caller-1 wait E1\nat 3400ms caller-1 wait E1\nat 3600ms caller-1 wait E1\nat 3800ms caller-1 wait E1\nat 4s caller-1 wait E1\n";
    end_of_a_flow_found_by_polling_only: "EndsNoticed", PlantedBug::Client(ClientBug::OnlyPolls),
        "length 40s\nat 0s caller-1 submit F1 chain 3\nat 100ms caller-1 wait F1\n";
    never_polls_while_pushes_are_silent: "EndsNoticed", PlantedBug::Client(ClientBug::NeverPolls),
        "length 60s\nfault PushesSilent at 500ms for 20s\nat 0s caller-1 create E1 delay 2s\nat 400ms caller-1 wait E1\n";
    end_noticed_before_it_came: "EndsNoticed", PlantedBug::Client(ClientBug::EndImagined),
        "length 40s\ntask E1 does fail_for_good\nat 0s caller-1 create E1 delay 5s\nat 1s caller-1 wait E1\n";
    chunk_resumed_at_the_wrong_place: "SuccessIsTrue", PlantedBug::Client(ClientBug::ChunkSkipped),
        "at 0s caller-1 submit F1 chunk 2 fan_out 6\n";
    sealing_given_up_early: "SuccessIsTrue", PlantedBug::Client(ClientBug::SealingGivenUp),
        "workers 0\nlength 5s\nbound 60s\nat 0s caller-1 submit F1 chunk 200 fan_out 700\n";
    repeat_with_another_id: "SuccessIsTrue", PlantedBug::Client(ClientBug::RepeatWithAnotherId),
        "fault RequestLost on 1st create_execution by caller-1\nat 0s caller-1 create E1\n";
    refusal_taken_for_success: "SuccessIsTrue", PlantedBug::Client(ClientBug::RefusalIsSuccess),
        "at 0s caller-1 create E1\nat 10s caller-1 cancel E1\n";
    silence_taken_for_success: "SuccessIsTrue", PlantedBug::Client(ClientBug::SilenceIsSuccess),
        "fault RequestLost on 1st cancel_execution by caller-1\nat 0s caller-1 create E1\nat 100ms caller-1 cancel E1\n";
    limit_not_checked_before_the_start: "SuccessIsTrue",
        PlantedBug::Client(ClientBug::LimitNotChecked),
        "at 0s caller-1 create E1 policy missing\n";

    // The worker's machine.
    lost_claim_not_asked_again: "LeasesKept", PlantedBug::Worker(WorkerBug::ClaimNotAskedAgain),
        "fault ReplyLost on 1st claim by worker-1\nat 0s caller-1 create E1\n";
    renewal_never_sent: "LeasesKept", PlantedBug::Worker(WorkerBug::RenewalNeverSent),
        "task E1 does slow\nat 0s caller-1 create E1\n";
    report_not_repeated_after_silence: "LeasesKept",
        PlantedBug::Worker(WorkerBug::SilentReportIsSuccess),
        "fault RequestLost on 1st end_and_claim\nat 0s caller-1 create E1\n";
    report_under_the_wrong_fence: "LeasesKept",
        PlantedBug::Worker(WorkerBug::ReportUnderWrongFence),
        "at 0s caller-1 create E1\n";
    drain_forgets_a_handler: "LeasesKept", PlantedBug::Worker(WorkerBug::DrainForgetsReports),
        "task E1 does slow\nfault WorkerDrain at 2s\nat 0s caller-1 create E1\n";
    renewal_failure_taken_for_success: "HandlersStopped",
        PlantedBug::Worker(WorkerBug::RenewalFailureIsSuccess),
        "task E1 does hang\nat 0s caller-1 create E1\nat 2s caller-1 cancel E1\n";
    silent_renewal_taken_for_success: "HandlersStopped",
        PlantedBug::Worker(WorkerBug::RenewalFailureIsSuccess),
        "task E1 does hang\nfault Loading at 2s for 8s\nat 0s caller-1 create E1\n";
    no_cancellation_when_the_lease_is_gone: "HandlersStopped",
        PlantedBug::Worker(WorkerBug::CancellationForgotten),
        "task E1 does hang\nat 0s caller-1 create E1\nat 2s caller-1 cancel E1\n";
    lost_lease_noticed_by_renewal_only: "HandlersStopped",
        PlantedBug::Worker(WorkerBug::LostIgnored),
        "lease 30s\ntask E1 does hang\nat 0s caller-1 create E1\nat 2s caller-1 cancel E1\n";
    slot_kept_after_a_panic: "QuotaSlotsGivenBack", PlantedBug::Worker(WorkerBug::PanicKeepsSlot),
        "task E1 does panic panic panic panic\nat 0s caller-1 create E1 policy quota\n";
    slot_of_an_unclaimed_execution_kept: "QuotaSlotsGivenBack",
        PlantedBug::Worker(WorkerBug::UnclaimedSlotKept),
        "fault CancelRace on 1st check_admission_and_record\nat 0s caller-1 create E1 policy quota\n";
    refused_admission_asked_again_at_once: "AdmissionsPaced",
        PlantedBug::Worker(WorkerBug::RefusedAdmissionNotBlocked),
        "at 0s caller-1 create E1 policy quota\nat 0s caller-1 create E2 policy quota\nat 0s caller-1 create E3 policy quota\nat 0s caller-1 create E4 policy quota\nat 0s caller-1 create E5 policy quota\n";
    partition_starved_by_wrap_around: "ClaimedSoon",
        PlantedBug::Worker(WorkerBug::LastPartitionSkipped),
        "flow_partitions 2\nbound 60s\nat 0s caller-1 create E1 in fp:1\n";
    kind_not_compared: "OnlyWhatSuits", lua!(
        "and not work_filter.suits(filter, v[15] or \"\", kind) then" => "and false then"),
        "workers 2\nkinds 2\nat 0s caller-1 submit F1 fan_out 20\n";
    namespace_not_compared: "OnlyWhatSuits", lua!(
        "or filter:find(\"\\n\\t\" .. kind .. \"\\n\", 1, true)"
            => "or filter:find(\"\\t\" .. kind .. \"\\n\", 1, true)"),
        "workers 2\ntenants 2\nat 0s caller-1 create E1\nat 0s caller-1 create E2\nat 0s caller-1 create E3\nat 0s caller-1 create E4\nat 0s caller-1 create E5\nat 0s caller-1 create E6\n";
    one_failed_claim_stops_all: "ClaimedSoon", PlantedBug::Worker(WorkerBug::OneFailureStopsAll),
        "shards 2\nflow_partitions 2\nlength 90s\nfault SlowPartition at 1s to node-1 times 5000 for 80s\nat 0s caller-1 create E1 in fp:0 delay 30s\nat 0s caller-1 create E2 in fp:1 delay 30s\n";
    permit_leaked_after_a_failed_claim: "ClaimedSoon",
        PlantedBug::Worker(WorkerBug::PermitLeaked),
        "fault RequestLost on 1st claim by worker-1\nbound 60s\nat 0s caller-1 create E1\n";
    ready_push_ignored: "ClaimedSoon", PlantedBug::Worker(WorkerBug::ReadyIgnored),
        "idle 20s\nlength 60s\nat 30s caller-1 create E1\n";
    gap_not_followed_by_a_survey: "ClaimedSoon", PlantedBug::Worker(WorkerBug::GapIgnored),
        "idle 20s\nlength 60s\nflow_partitions 2\nat 0s caller-1 create E1 in fp:0\nat 0s caller-1 create E2 in fp:1\n";
    panic_not_reported: "AllSettle", PlantedBug::Worker(WorkerBug::PanicNotReported),
        "bound 60s\ntask E1 does panic\nat 0s caller-1 create E1\n";
    capacity_ignored: "CapacityKept", PlantedBug::Worker(WorkerBug::CapacityIgnored),
        "fault CapacityDropped at 2s for 28s\nat 20s caller-1 create E1\n";

    // Liveness.
    lost_leases_never_requeued: "WorkComesBack",
        PlantedBug::Engine(EngineBug::NeverCalls("requeue_lost_lease")),
        "bound 200s\ntask E1 does die\nat 0s caller-1 create E1\n";
    delayed_never_promoted: "WindowMoves", PlantedBug::Engine(EngineBug::NeverCalls("promote_delayed")),
        "bound 200s\nat 0s caller-1 create E1 delay 2s\n";
    pending_group_never_cleared: "NoPendingCancels", lua!(
        "  call(\"HDEL\", group_key, \"cancel_siblings_pending_flag\", \"cancel_siblings_pending_members\")\n  return call(\"SREM\", pending_key, tuple) == 1"
            => "  return call(\"SISMEMBER\", pending_key, tuple) == 1"),
        "at 0s caller-1 submit F1 fan_in 3 any_of cancel_remaining\n";
    child_never_released: "WakeupsArrive", lua!(
        "  if plan.release then\n    dependency.release(k," => "  if plan.release and k.never then\n    dependency.release(k,",
        "  if own then\n    state.write(" => "  if own and own.never then\n    state.write(",
        "define(\"ff_promote_blocked_to_eligible\"," => "define(\"ff_promote_nobody\","),
        "bound 200s\nat 0s caller-1 submit F1 chain 2\n";
    poison_never_set_aside: "UnreadableSetAside", PlantedBug::Engine(EngineBug::NeverCalls("set_aside")),
        "fault PoisonTuple at 2s\nat 0s caller-1 create E1\n";
    summary_counts_one_completion: "SummaryTrue", lua!(
        "    progress[bucket] = progress[bucket] + 1"
            => "    progress[bucket] = progress[bucket] + (bucket == \"completed\" and progress.completed > 0 and 0 or 1)"),
        "at 0s caller-1 submit F1 chain 3\n";
    lost_upstream_never_noticed: "AllSettle", PlantedBug::Engine(EngineBug::NeverCalls("resolve_lost")),
        "bound 60s\nfault RecordLost at 1s about F1.0\ntask F1.0 does slow\nat 0s caller-1 submit F1 chain 2\n";
    lost_upstream_left_at_rest: "NoLostUpstream", PlantedBug::Engine(EngineBug::NeverCalls("resolve_lost")),
        "bound 200s\nfault RecordLost at 1s about F1.0\ntask F1.0 does slow\nat 0s caller-1 submit F1 chain 2\n";
    edges_never_resolved: "AllSettle", PlantedBug::Engine(EngineBug::NeverCalls("resolve_outgoing")),
        "bound 60s\nat 0s caller-1 submit F1 fan_out 9\n";
    partition_never_claimed: "OldestAgeBounded", PlantedBug::World(WorldBug::PartitionNotClaimed),
        "flow_partitions 2\nbound 60s\nat 0s caller-1 create E1 in fp:0\nat 0s caller-1 create E2 in fp:1\nat 30s caller-1 create E3 in fp:0 delay 5s\n";
    one_batch_for_all_nodes: "CadenceKept", PlantedBug::World(WorldBug::OneBatchAtATime),
        "shards 2\nflow_partitions 2\nlength 90s\nfault SlowPartition at 1s to node-1 times 5000 for 80s\nat 0s caller-1 create E1 in fp:0 delay 30s\nat 0s caller-1 create E2 in fp:1 delay 30s\n";
    never_purged: "PurgedInTime",
        PlantedBug::Engine(EngineBug::NeverCalls("purge_execution")),
        "interval 1s\nat 0s caller-1 create E1 policy brief\nat 0s caller-1 create E2 delay 60s\n";
    due_time_not_told: "CadenceKept", lua!(
        "  if wait < push.SLEEP_MS and is_first_message(index)"
            => "  if wait < 0 and is_first_message(index)"),
        "length 100s\nbound 200s\nat 42s caller-1 create E1 delay 2s\nat 55s caller-1 create E2 delay 2s\nat 68s caller-1 create E3 delay 2s\nat 81s caller-1 create E4 delay 2s\n";
    audit_sees_nothing: "OneHome", lua!(
        "audit.is_wrong[id] = not is_right(audit, k, id)" => "audit.is_wrong[id] = false"),
        "workers 0\nlength 10s\nbound 200s\nfault OperatorEdit at 2s\nat 0s caller-1 create E1\nat 0s caller-1 create E2\n";
    needless_repair_write: "QuietAtRest", lua!(
        "audit.is_wrong[id] = not is_right(audit, k, id)" => "audit.is_wrong[id] = true",
        "    if #changes == 0 then\n      local edges"
            => "    if #changes == 0 then\n      call(\"HSET\", k.exec_core, \"last_looked_at\", number.now())\n      local edges"),
        "at 0s caller-1 create E1\n";

    // What `why` says.
    why_says_at_once: "WhyIsTrue", PlantedBug::Why(WhyBug::AtOnce),
        "at 0s caller-1 create E1 delay 20s\n";
    why_forgets_limits: "WhyIsTrue", PlantedBug::Why(WhyBug::LimitsForgotten),
        "at 0s caller-1 create E1 delay 40s policy deadline\n";
    why_denies_workers: "WhyIsTrue", PlantedBug::Why(WhyBug::NobodyCanRunIt),
        "work 2s\nat 0s caller-1 create E1\nat 0s caller-1 create E2\nat 0s caller-1 create E3\nat 0s caller-1 create E4\n";
    why_forgets_upstreams: "WhyIsTrue", PlantedBug::Why(WhyBug::UpstreamForgotten),
        "work 5s\nat 0s caller-1 submit F1 chain 3\n";
}
