//! Runs on which oracles once reported too much or too little.

use selvedge_sim::canary::{PlantedBug, WorldBug};
use selvedge_sim::plan::Plan;
use selvedge_sim::runner::{Outcome, RunOptions, RunResult, run};

fn outcome(plan: &str) -> Outcome {
    let plan: Plan = plan.parse().unwrap_or_else(|error| panic!("{error}\n{plan}"));
    run(&plan, &RunOptions::default()).expect("it can be run")
}

/// The run passed, or all findings are excused.
fn assert_fine(ended: &Outcome) {
    let fine = matches!(ended.result, RunResult::Passed | RunResult::Excused);
    assert!(fine, "{:?} {:?}", ended.violations, ended.pending);
}

/// Two shards have a split brain. The end of one says nothing about the other.
#[test]
fn acknowledgements_of_a_branch_are_checked_when_it_is_dropped() {
    let plan = "shards 2\nflow_partitions 2\nlength 20s\n\
        fault SplitBrainBranch at 1s to node-1 for 10s\n\
        fault SplitBrainBranch at 1s to node-2 for 3s\n\
        at 2s caller-1 create E1 in fp:0\nat 2s caller-2 create E2 in fp:0\n\
        at 2s caller-3 create E3 in fp:0\nat 2s caller-1 create E4 in fp:1\n\
        at 2s caller-2 create E5 in fp:1\nat 2s caller-3 create E6 in fp:1\n";
    for seed in [1, 2, 4, 6] {
        let ended = outcome(&format!("seed {seed}\n{plan}"));
        assert_eq!(ended.result, RunResult::Excused, "{seed}: {:?}", ended.violations);
        // Both say what the client was told: one of its call, the other of its procedure.
        let told = ["NoLostAck", "SuccessIsTrue"];
        assert!(ended.violations.iter().all(|found| told.contains(&found.oracle)));
    }
}

/// Calls reach the old primary after the split brain has ended: they are redirected to the new one.
#[test]
fn a_replaced_primary_acknowledges_nothing() {
    let plan = "patience 8s\nlength 20s\nfault SplitBrainBranch at 1s to node-1 for 2s\n\
        fault LateApply on 1st create_execution by caller-1 ms 2500\n\
        fault LateApply on 1st create_execution by caller-2 ms 2500\n\
        at 2s caller-1 create E1\nat 2s caller-2 create E2\n";
    for seed in 1..=3 {
        let ended = outcome(&format!("seed {seed}\n{plan}"));
        assert_eq!(ended.result, RunResult::Passed, "{seed}: {:?}", ended.violations);
    }
}

/// A record of a member is damaged, and the caller dies before it cancels the members. The pending
/// cancels of its flow are still due after their grace, and the damage does not excuse them.
#[test]
fn pending_cancels_of_a_damaged_flow_are_waited_for() {
    let ended = outcome(
        "seed 2\ninterval 700ms\nlength 6s\nfault WrongType at 2s\n\
         fault CrashAfterApply on 1st cancel_flow by caller-1\n\
         at 0s caller-1 submit F1 chain 3\nat 1s caller-1 cancel_flow F1\n",
    );
    assert_eq!(ended.result, RunResult::Excused);
    let told: Vec<&str> = ended.violations.iter().map(|found| found.oracle).collect();
    assert_eq!(told, ["RightKind"], "only the record itself: {:?}", ended.violations);
}

/// A slot moves away and back. The node that gets it back serves no calls before that.
#[test]
fn a_moving_slot_is_served_by_one_node() {
    let ended = outcome(
        "shards 2\nat 2.54s caller-1 submit F3 fan_in 6 any_of let_run\n\
         at 4.949s caller-1 create E2 delay 690ms priority 10 policy capped\n\
         fault SlotMove at 2.869s for 939ms\nfault SlotMove at 4.205s for 7.157s\n",
    );
    assert_eq!(ended.result, RunResult::Passed, "{:?}", ended.violations);
}

/// A record is damaged, and so a related record is wrong too. The damage excuses both.
#[test]
fn damage_also_excuses_related_records() {
    let plan = "signals no\ntask E0 does suspend\nat 1s caller-1 create E0\n";
    let suspension =
        "ff:exec:{fp:0}:{fp:0}:d471743f-69f6-43b3-a125-9d35a2139495:suspension:current";
    let waitpoint = "ff:wp:{fp:0}:26f7ee47-847f-4f7f-8ecc-21b9b49c5a39";
    for damage in [
        format!("WrongType at 5s about {suspension}"),
        format!("Eviction at 5s about {suspension}"),
        format!("Eviction at 5s about {waitpoint}"),
        format!("Eviction at 5s about {waitpoint}:condition"),
    ] {
        let ended = outcome(&format!("{plan}fault {damage}\n"));
        assert_eq!(ended.result, RunResult::Excused, "{damage}: {:?}", ended.violations);
    }
}

/// A slow engine closes the edges of a cancelled flow long after its members have ended. That
/// leaves a group with siblings to cancel, all of which have ended, and it must be cleared.
#[test]
fn a_group_that_becomes_pending_at_rest_is_cleared_at_rest() {
    let ended = outcome(
        "flow_partitions 7\nlink 20ms..700ms\nwindow 1\ndispatch_queue 3\n\
         at 490ms caller-2 submit F0 chunk 4 policy capped diamond 4 quorum 3 cancel_remaining\n\
         at 2.885s caller-2 cancel_flow F0\n",
    );
    assert_eq!(ended.result, RunResult::Passed, "{:?}", ended.violations);
}

/// The reply to a suspension is lost, and the worker repeats it. It gets the same waitpoint, so the
/// signal of the plan is sent and the wait ends.
#[test]
fn a_suspension_with_a_lost_reply_is_still_signalled() {
    let ended = outcome(
        "seed 12\nworkers 2\ntask pay.approve does suspend complete\n\
         at 1s caller-1 submit pay : check, approve <- check, send <- approve\n\
         at 3s signaller-1 signal pay.approve yes\n\
         fault ReplyLost on 1st suspend_execution\nfault ReplyLost on 1st deliver_signal\n",
    );
    assert_eq!(ended.result, RunResult::Passed, "{:?}", ended.violations);
    assert!(
        ended.unsignalled.is_empty() && ended.unused_faults.is_empty(),
        "{:?}",
        ended.unsignalled
    );
}

/// A foreign key makes purges of an execution fail, so that engines skip it for ten cycles, as the
/// contract says. It is purged after that.
#[test]
fn an_execution_whose_purge_failed_is_purged_later() {
    let ended = outcome(
        "seed 1104\n\
         engines 2\n\
         shards 1\n\
         workers 3\n\
         habits complete:4,suspend:11,suspend_ahead:9,delay:6,die:10\n\
         flow_partitions 1\n\
         tenants 1\n\
         interval 250ms\n\
         length 12s\n\
         lease 2s\n\
         signals yes\n\
         at 1564ms caller-1 submit F0 policy quota diamond 4 quorum 2 let_run\n\
         at 1634ms caller-1 submit F1 policy brief chain 3\n\
         at 199ms caller-2 create E0 policy deadline\n\
         at 2345ms caller-2 create E1 policy capped\n\
         at 4040ms caller-3 replay E0\n\
         at 7745ms caller-3 cancel E0\n\
         fault PoisonHead at 9397ms\n\
         fault ForeignKey at 3683ms\n",
    );
    assert_eq!(ended.result, RunResult::Passed, "{:?}", ended.violations);
}

/// A node restarts empty, without functions. Its budgets and quotas are created again.
#[test]
fn an_empty_node_is_provisioned_again() {
    let ended = outcome(
        "seed 1020\n\
         engines 1\n\
         shards 1\n\
         workers 4\n\
         habits complete:13,suspend_timed:6,fail:17\n\
         flow_partitions 1\n\
         tenants 2\n\
         interval 0s\n\
         length 12s\n\
         lease 2s\n\
         signals no\n\
         at 755ms caller-1 submit F0 policy budget diamond 4 quorum 2 let_run\n\
         at 2684ms caller-1 submit F1 policy retry fan_in 3\n\
         at 628ms caller-1 submit F2 policy budget chain 3\n\
         at 2149ms caller-2 create E0 policy retry\n\
         at 2567ms caller-2 create E1 policy quota\n\
         at 1ms caller-2 create E2 policy budget\n\
         at 1627ms caller-2 create E3 policy deadline\n\
         at 2905ms caller-2 cancel_flow F0\n\
         at 3507ms caller-3 cancel E0\n\
         fault PoisonHead at 4699ms\n\
         fault AmnesiaRestart at 1319ms\n",
    );
    assert_eq!(ended.result, RunResult::Excused, "{:?} {:?}", ended.violations, ended.pending);
}

/// Without workers, executions may wait. Those with a deadline still end.
#[test]
fn executions_may_wait_without_workers() {
    let ended = outcome(
        "workers 0\n\
         at 0s caller-1 create E1\n\
         at 0s caller-1 create E2 delay 5s\n\
         at 0s caller-1 create E3 policy deadline\n\
         at 0s caller-1 submit F1 chain 3\n",
    );
    assert_eq!(ended.result, RunResult::Passed, "{:?} {:?}", ended.violations, ended.pending);
}

/// During a split brain the new primary restarts empty. The replies of the old one are correct for
/// its branch.
#[test]
fn an_execution_lost_on_one_branch_may_end_on_the_other() {
    let ended = outcome(
        "seed 1112\n\
         engines 2\n\
         shards 1\n\
         workers 3\n\
         habits complete:17,suspend:3,delay:17,slow:3,die:7\n\
         flow_partitions 1\n\
         tenants 2\n\
         interval 0s\n\
         length 12s\n\
         lease 5s\n\
         signals yes\n\
         at 1841ms caller-1 submit F0 policy timeout fan_in 3 quorum 2 cancel_remaining\n\
         at 2902ms caller-1 submit F1 policy deadline fan_out 4\n\
         at 2968ms caller-2 create E0 policy quota\n\
         at 6285ms caller-2 cancel_flow F0\n\
         at 2649ms caller-3 replay E0\n\
         fault SplitBrainBranch at 6861ms\n\
         fault AmnesiaRestart at 9984ms\n\
         fault AmnesiaRestart at 7107ms\n",
    );
    assert_fine(&ended);
}

/// The reply to a claim is late, and a node loses the claim meanwhile. The worker repeats it with
/// the same lease id and gets another execution: the lease still has one holder.
#[test]
fn a_lost_claim_may_be_repeated() {
    let ended = outcome(
        "seed 40014\n\
         engines 2\n\
         workers 2\n\
         at 1.515s caller-1 build F0 policy timeout diamond 3\n\
         at 2.055s caller-2 build F1 chain 5\n\
         fault ServerClockJump at 1.275s ms 25765\n\
         fault AmnesiaRestart at 828ms ms 1155\n\
         fault AmnesiaRestart at 1.771s ms 132\n\
         fault SwizzleClog at 1.534s for 6.691s\n\
         fault SwizzleClog at 1.225s for 2.032s\n",
    );
    assert_fine(&ended);
}

/// Plans that no seed generates, and whose result was wrong once.
#[test]
fn plans_with_a_known_result() {
    for (plan, expected) in [
        // Admitted, and then blocked by an edge before the claim: the slot is released.
        (
            "habits delay:1\nlink 50ms..400ms\nat 1s caller-1 build F1 policy quota diamond 9\n",
            RunResult::Passed,
        ),
        // Commits of the old primary before the split brain are lost by the later failover.
        (
            "at 1s caller-1 create E1\nfault SplitBrainBranch at 10s for 1s\n\
             fault FailoverLosesSuffix at 15s commits 999\n",
            RunResult::Excused,
        ),
        // By a clock that was set back, it is not due yet.
        (
            "at 7s caller-1 create E2 delay 120s\nfault ServerClockJump at 19s ms -9000\n",
            RunResult::Passed,
        ),
        // The replica of an empty node has no functions, and is provisioned all the same.
        (
            "fault AmnesiaRestart at 10s\nfault FailoverLosesSuffix at 20s commits 999\n\
             at 25s caller-1 create E1 policy budget\n",
            RunResult::Passed,
        ),
        // The edge is applied when the child is already suspended, and the completion is not
        // pushed: the child is not in the blocked index, and must be found anyway.
        (
            "workers 2\nsignals no\npush no\nlink 600ms..600ms\nidle 100ms..100ms\n\
             work 10ms..10ms\ntask F1.1 does suspend\ntask F1.0 does slow\n\
             at 1s caller-1 build F1 chain 2\n",
            RunResult::Passed,
        ),
        // The result of the parent is not needed, so its damage blocks nothing.
        (
            "push no\ntask F2.0 does complete\nat 1s caller-1 submit F2 diamond 2\n\
             fault WrongType at 5s about ff:exec:{fp:0}:{fp:0}:df531d2f-2ecb-49fa-9725-c0d78e361d76:result\n",
            RunResult::Excused,
        ),
        // A shard counts as slow from the moment on at which it is.
        (
            "at 1s caller-1 create E1 delay 8s\n\
             fault SlowPartition at 5s to node-1 for 20s times 10000\n",
            RunResult::Passed,
        ),
        // A deadline after the end of the run is not waited for.
        (
            "signals no\ntask E1 does suspend\nat 1s caller-1 create E1 deadline 24h\n",
            RunResult::Passed,
        ),
        ("workers 0\nat 1s caller-1 create E1 deadline 24h\n", RunResult::Passed),
        // A scanner that visits every execution makes as many calls in each cycle.
        ("interval 3s\nfault OversizeGroup at 17.131s members 1025\n", RunResult::Passed),
        // All faults end with the fault phase.
        ("at 3s caller-1 submit F1 chain 3\nfault EnginePause at 1s for 11m\n", RunResult::Passed),
        ("at 3s caller-1 submit F1 chain 3\nfault StopMidScan at 2s for 3h\n", RunResult::Passed),
        ("at 3s caller-1 submit F1 chain 3\nfault SwizzleClog at 2s for 3h\n", RunResult::Passed),
    ] {
        let ended = outcome(plan);
        assert_eq!(ended.result, expected, "{plan}{:?} {:?}", ended.violations, ended.pending);
    }
}

/// No worker claims from one partition, while executions of the same lane behind it are claimed.
/// This is reported at once, not only at the end.
#[test]
fn an_execution_starves_when_those_behind_it_are_claimed() {
    // More wait there than the worker can run, so it may take its time.
    let plan: Plan = "flow_partitions 2\nbound 60s\ncapacity 1\nat 0s caller-1 create E1 in fp:1\n\
                      at 0s caller-1 create E3 in fp:1\n\
                      at 29s caller-1 create E2 in fp:0 delay 50s\n"
        .parse()
        .expect("a plan");
    let bug = Some(PlantedBug::World(WorldBug::PartitionNotClaimed));
    let ended = run(&plan, &RunOptions { bug, ..RunOptions::default() }).expect("it can be run");
    let told: Vec<&str> = ended.violations.iter().map(|found| found.what.as_str()).collect();
    assert!(told.iter().any(|what| what.contains("others behind it were claimed")), "{told:?}");
}
