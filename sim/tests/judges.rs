//! What the judges may not hold against a run, and what no excuse may cover.

use selvedge_sim::canary::{Plant, WorldBug};
use selvedge_sim::plan::Plan;
use selvedge_sim::runner::{Outcome, RunOptions, Verdict, run};

fn outcome(plan: &str) -> Outcome {
    let plan: Plan = plan.parse().unwrap_or_else(|error| panic!("{error}\n{plan}"));
    run(&plan, &RunOptions::default()).expect("it can be run")
}

/// Nothing is wrong with a run, and nothing is left undone, but for what is excused.
fn assert_fine(ended: &Outcome) {
    let fine = matches!(ended.verdict, Verdict::Passed | Verdict::Excused);
    assert!(fine, "{:?} {:?}", ended.violations, ended.pending);
}

/// Two shards are split; the branch that is dropped first says nothing about the other one.
#[test]
fn what_a_branch_promised_is_judged_when_that_branch_is_dropped() {
    let plan = "shards 2\nflow_partitions 2\nlength 20s\n\
        fault SplitBrainBranch at 1s to node-1 for 10s\n\
        fault SplitBrainBranch at 1s to node-2 for 3s\n\
        at 2s caller-1 create E1 in fp:0\nat 2s caller-2 create E2 in fp:0\n\
        at 2s caller-3 create E3 in fp:0\nat 2s caller-1 create E4 in fp:1\n\
        at 2s caller-2 create E5 in fp:1\nat 2s caller-3 create E6 in fp:1\n";
    for seed in [1, 2, 4, 6] {
        let ended = outcome(&format!("seed {seed}\n{plan}"));
        assert_eq!(ended.verdict, Verdict::Excused, "{seed}: {:?}", ended.violations);
        assert!(ended.violations.iter().all(|found| found.oracle == "NoLostAck"));
    }
}

/// Calls reach the old primary when everybody knows the new one: they are sent on to it.
#[test]
fn a_node_that_knows_of_its_successor_promises_nothing() {
    let plan = "patience 8s\nlength 20s\nfault SplitBrainBranch at 1s to node-1 for 2s\n\
        fault LateApply on 1st create_execution by caller-1 ms 2500\n\
        fault LateApply on 1st create_execution by caller-2 ms 2500\n\
        at 2s caller-1 create E1\nat 2s caller-2 create E2\n";
    for seed in 1..=3 {
        let ended = outcome(&format!("seed {seed}\n{plan}"));
        assert_eq!(ended.verdict, Verdict::Passed, "{seed}: {:?}", ended.violations);
    }
}

/// A record of a member is damaged. The cancels that its flow owes are due after their grace all the
/// same: nobody comes to rest before, and the damage excuses no debt.
#[test]
fn a_debt_that_can_be_paid_is_waited_for() {
    let ended = outcome(
        "seed 2\ninterval 700ms\nlength 6s\nfault WrongType at 2s\n\
         at 0s caller-1 submit F1 chain 3\nat 1s caller-1 cancel_flow F1\n",
    );
    assert_eq!(ended.verdict, Verdict::Excused);
    let told: Vec<&str> = ended.violations.iter().map(|found| found.oracle).collect();
    assert_eq!(told, ["RightKind", "AttemptsHonest"], "the record itself, and nothing else");
}

/// A slot goes to and fro; the node that is about to get it back takes no calls before that.
#[test]
fn a_slot_on_its_way_is_served_at_one_place() {
    let ended = outcome(
        "shards 2\nat 2.54s caller-1 submit F3 fan_in 6 any_of let_run\n\
         at 4.949s caller-1 create E2 delay 690ms priority 10 policy capped\n\
         fault SlotMove at 2.869s for 939ms\nfault SlotMove at 4.205s for 7.157s\n",
    );
    assert_eq!(ended.verdict, Verdict::Passed, "{:?}", ended.violations);
}

/// A record is damaged, and the record that belongs with it tells of it too: the damage explains
/// either.
#[test]
fn damage_explains_what_is_wrong_with_the_other_half() {
    let plan = "signals no\ntask E0 does suspend\nat 1s caller-1 create E0\n";
    let suspension =
        "ff:exec:{fp:0}:{fp:0}:d471743f-69f6-43b3-a125-9d35a2139495:suspension:current";
    let waitpoint = "ff:wp:{fp:0}:3940206c-56c5-4c86-8832-148dbd3b356c";
    for damage in [
        format!("WrongType at 5s about {suspension}"),
        format!("Eviction at 5s about {suspension}"),
        format!("Eviction at 5s about {waitpoint}"),
        format!("Eviction at 5s about {waitpoint}:condition"),
    ] {
        let ended = outcome(&format!("{plan}fault {damage}\n"));
        assert_eq!(ended.verdict, Verdict::Excused, "{damage}: {:?}", ended.violations);
    }
}

/// A slow engine closes the edges of a cancelled flow long after its members have ended. That leaves
/// a note of siblings to cancel, all of whom have ended, and somebody has to take it away.
#[test]
fn a_note_that_is_left_at_rest_is_taken_away_at_rest() {
    let ended = outcome(
        "flow_partitions 7\nlink 20ms..700ms\nwindow 1\ndispatch_queue 3\n\
         at 490ms caller-2 submit F0 chunk 4 policy capped diamond 4 quorum 3 cancel_remaining\n\
         at 2.885s caller-2 cancel_flow F0\n",
    );
    assert_eq!(ended.verdict, Verdict::Passed, "{:?}", ended.violations);
}

/// The reply to a suspension is lost, and the worker asks again: it is told of the waitpoint, so that
/// the signal of the plan comes, and the wait ends.
#[test]
fn a_lost_reply_to_a_suspension_leaves_nobody_waiting() {
    let ended = outcome(
        "seed 12\nworkers 2\ntask pay.approve does suspend complete\n\
         at 1s caller-1 submit pay : check, approve <- check, send <- approve\n\
         at 3s signaller-1 signal pay.approve yes\n\
         fault ReplyLost on 1st suspend_execution\nfault ReplyLost on 1st deliver_signal\n",
    );
    assert_eq!(ended.verdict, Verdict::Passed, "{:?}", ended.violations);
    assert!(ended.unsignalled.is_empty() && ended.unstruck.is_empty(), "{:?}", ended.unsignalled);
}

/// A key of a stranger keeps somebody from being purged until the engines leave him alone for ten
/// cycles, as the contract has it. That the stranger is gone meanwhile they see after that.
#[test]
fn who_could_not_be_purged_is_looked_at_again_after_a_while() {
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
    assert_eq!(ended.verdict, Verdict::Passed, "{:?}", ended.violations);
}

/// A node comes back empty, without functions; budgets and quotas are put back all the same.
#[test]
fn an_empty_node_gets_its_accounts_back() {
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
    assert_eq!(ended.verdict, Verdict::Excused, "{:?} {:?}", ended.violations, ended.pending);
}

/// Where nobody works, work waits, and that is no fault of anybody; what has a deadline still ends.
#[test]
fn work_that_nobody_is_there_to_do_may_wait() {
    let ended = outcome(
        "workers 0\n\
         at 0s caller-1 create E1\n\
         at 0s caller-1 create E2 delay 5s\n\
         at 0s caller-1 create E3 policy deadline\n\
         at 0s caller-1 submit F1 chain 3\n",
    );
    assert_eq!(ended.verdict, Verdict::Passed, "{:?} {:?}", ended.violations, ended.pending);
}

/// In a split the new primary comes back empty. What the old one answers is true of its branch.
#[test]
fn who_is_lost_on_one_branch_may_end_on_the_other() {
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

/// The reply to a claim is held up, and a node forgets the claim meanwhile. The worker asks again
/// under the same lease id, and gets somebody else: there is still one holder of that lease.
#[test]
fn a_claim_that_was_lost_may_be_repeated() {
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

/// Plans that no seed draws, and whose verdict was wrong once.
#[test]
fn what_everybody_does_right_passes() {
    for (plan, verdict) in [
        // Admitted, and then bound to a parent before it was claimed: the slot goes back.
        (
            "habits delay:1\nlink 50ms..400ms\nat 1s caller-1 build F1 policy quota diamond 9\n",
            Verdict::Passed,
        ),
        // What the old primary wrote before a split goes with the new one's suffix, and is named.
        (
            "at 1s caller-1 create E1\nfault SplitBrainBranch at 10s for 1s\n\
             fault FailoverLosesSuffix at 15s commits 999\n",
            Verdict::Excused,
        ),
        // What is due by a clock that was set back is not due yet.
        (
            "at 7s caller-1 create E2 delay 120s\nfault ServerClockJump at 19s ms -9000\n",
            Verdict::Passed,
        ),
        // A follower of an empty node has no functions, and gets its accounts all the same.
        (
            "fault AmnesiaRestart at 10s\nfault FailoverLosesSuffix at 20s commits 999\n\
             at 25s caller-1 create E1 policy budget\n",
            Verdict::Passed,
        ),
        // Its edge is applied when the child is suspended already, and nobody hears of its parent's
        // end: it is not among the blocked, and is found all the same.
        (
            "workers 2\nsignals no\npush no\nlink 600ms..600ms\nidle 100ms..100ms\n\
             work 10ms..10ms\ntask F1.1 does suspend\ntask F1.0 does slow\n\
             at 1s caller-1 build F1 chain 2\n",
            Verdict::Passed,
        ),
        // Nobody wants the result of the parent, so that it keeps nobody waiting.
        (
            "push no\ntask F2.0 does complete\nat 1s caller-1 submit F2 diamond 2\n\
             fault WrongType at 5s about ff:exec:{fp:0}:{fp:0}:df531d2f-2ecb-49fa-9725-c0d78e361d76:result\n",
            Verdict::Excused,
        ),
        // Whoever is slow is known to be from the moment on in which it is.
        (
            "at 1s caller-1 create E1 delay 8s\n\
             fault SlowPartition at 5s to node-1 for 20s times 10000\n",
            Verdict::Passed,
        ),
        // A deadline that comes when the run is over is not waited for.
        (
            "signals no\ntask E1 does suspend\nat 1s caller-1 create E1 deadline 24h\n",
            Verdict::Passed,
        ),
        ("workers 0\nat 1s caller-1 create E1 deadline 24h\n", Verdict::Passed),
        // Who looks at every execution in each round makes as many calls as there are.
        ("interval 3s\nfault OversizeGroup at 17.131s members 1025\n", Verdict::Passed),
        // Everything heals, however long it was said to last.
        ("at 3s caller-1 submit F1 chain 3\nfault EnginePause at 1s for 11m\n", Verdict::Passed),
        ("at 3s caller-1 submit F1 chain 3\nfault StopMidScan at 2s for 3h\n", Verdict::Passed),
        ("at 3s caller-1 submit F1 chain 3\nfault SwizzleClog at 2s for 3h\n", Verdict::Passed),
    ] {
        let ended = outcome(plan);
        assert_eq!(ended.verdict, verdict, "{plan}{:?} {:?}", ended.violations, ended.pending);
    }
}

/// Somebody of a partition that no worker asks waits, while others of its lane that stand behind it
/// are served: it is told then, and not only in the end.
#[test]
fn who_is_passed_over_by_those_behind_it_starves() {
    let plan: Plan = "flow_partitions 2\nbound 60s\nat 0s caller-1 create E1 in fp:1\n\
                      at 29s caller-1 create E2 in fp:0 delay 50s\n"
        .parse()
        .expect("a plan");
    let plant = Some(Plant::World(WorldBug::PartitionForgotten));
    let ended = run(&plan, &RunOptions { plant, ..RunOptions::default() }).expect("it can be run");
    let told: Vec<&str> = ended.violations.iter().map(|found| found.what.as_str()).collect();
    assert!(told.iter().any(|what| what.contains("others behind it are served")), "{told:?}");
}
