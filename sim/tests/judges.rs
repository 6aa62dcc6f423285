//! What the judges may not hold against a run, and what no excuse may cover.

use selvedge_sim::plan::Plan;
use selvedge_sim::runner::{Outcome, RunOptions, Verdict, run};

fn outcome(plan: &str) -> Outcome {
    let plan: Plan = plan.parse().unwrap_or_else(|error| panic!("{error}\n{plan}"));
    run(&plan, &RunOptions::default()).expect("it can be run")
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
