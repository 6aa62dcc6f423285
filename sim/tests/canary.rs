//! Every planted bug with a story is found in it, by the oracle that is meant for it.

use selvedge_sim::canary::{CANARIES, Plant, hunt};
use selvedge_sim::plan::Plan;
use selvedge_sim::runner::{RunOptions, Verdict, run};

#[test]
fn every_canary_is_caught_in_its_story() {
    let missed: Vec<String> = CANARIES
        .iter()
        .filter(|canary| canary.story.is_some())
        .filter_map(|canary| hunt(canary, 0).err())
        .collect();
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn no_story_fails_without_its_bug() {
    for canary in CANARIES {
        let Some(story) = canary.story else { continue };
        let plan: Plan = story.parse().unwrap();
        let outcome = run(&plan, &RunOptions::default()).unwrap();
        // A world that is itself the bug has nothing to be compared with.
        let own = matches!(canary.plant, Plant::World(_));
        let fine = matches!(outcome.verdict, Verdict::Passed | Verdict::Excused);
        assert!(fine || own, "{}: {:?} {:?}", canary.name, outcome.violations, outcome.pending);
    }
}
