//! Planted bugs: each is found in its story by its oracle, and no story fails without the bug.

use selvedge_sim::canary::{CANARIES, PlantedBug, hunt};
use selvedge_sim::plan::Plan;
use selvedge_sim::runner::{RunOptions, RunResult, run};

#[test]
fn every_canary_is_found_in_its_story() {
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
        // Without the bug in the simulator, the story may fail in another way.
        let own = matches!(canary.bug, PlantedBug::World(_));
        let fine = matches!(outcome.result, RunResult::Passed | RunResult::Excused);
        assert!(fine || own, "{}: {:?} {:?}", canary.name, outcome.violations, outcome.pending);
    }
}
