//! A bounded campaign: what every change has to pass.

use std::process::Command;

use selvedge_sim::campaign::{Mode, campaign};
use selvedge_sim::failure::Failure;
use selvedge_sim::plan::{Plan, Seed};
use selvedge_sim::runner::{RunOptions, run};
use selvedge_sim::story::{STORIES, Story, Sweep, sweep};

fn sim(arguments: &[&str]) -> (i32, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_selvedge-sim"))
        .args(arguments)
        .output()
        .expect("the binary is built");
    let told = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&told).into_owned())
}

#[test]
fn every_story_ends_well() {
    for story in STORIES {
        let plan = story.plan().unwrap_or_else(|error| panic!("{}: {error}", story.name));
        assert!(!story.about().is_empty(), "{} says not what it is about", story.name);
        let outcome = run(&plan, &RunOptions::default()).unwrap();
        assert_eq!(Failure::of(&outcome), None, "{}", story.name);
    }
}

/// An engine dies at every boundary of the mission's crash window, and at every pair of them.
#[test]
fn siblings_are_cancelled_whenever_an_engine_dies() {
    swept("siblings-cancelled");
}

#[test]
fn a_lost_lease_comes_back_whenever_an_engine_dies() {
    let swept = swept("lease-lost");
    let of_the_calm_run = swept.singles * (swept.singles - 1) / 2;
    assert!(swept.pairs > of_the_calm_run, "nobody died over a recovery: {swept:?}");
}

fn swept(name: &str) -> Sweep {
    let story = Story::find(name).expect("a story").plan().expect("a plan");
    let swept = sweep(&story, &RunOptions::default(), |_, _| {}).expect("it can be run");
    assert!(swept.singles >= 4 && swept.pairs >= 6, "{name}: nothing was swept: {swept:?}");
    let told: Vec<String> =
        swept.failures.iter().map(|(plan, failure)| format!("{failure:?}\n{plan}")).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    swept
}

/// Small worlds in which engines die, on all cores; and one of the large ones is drawn differently
/// by every seed, so that a few of them are worth a look on every change.
#[test]
fn seeds_pass_however_many_threads_run_them() {
    let run = |mode, seeds, jobs| {
        campaign(mode, Seed::from(0), seeds, jobs, &RunOptions::default(), |_| {})
    };
    for (mode, seeds) in [(Mode::Lite, 200), (Mode::Swarm, 40)] {
        let done = run(mode, seeds, 2);
        assert_eq!((done.seeds, done.calls > 5_000), (seeds, true));
        assert!(done.failed.is_empty(), "{mode:?}: {:?}", done.failed);
        assert!(done.broken.is_empty() && done.nondeterministic.is_empty(), "{done:?}");
    }
    assert_eq!(run(Mode::Lite, 6, 1), run(Mode::Lite, 6, 3));
}

#[test]
fn two_processes_deal_the_same_runs() {
    let (code, told) = sim(&["double", "--seed", "100", "--seeds", "6", "--lite"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("6 seeds, each the same in two processes"), "{told}");
}

#[test]
fn a_plan_that_makes_no_sense_is_told_with_its_line() {
    let folder = std::env::temp_dir().join(format!("selvedge-plans-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (text, says) in [
        ("engines 2\nworkrs 3\n", ":2"),
        ("at soon caller-1 create E1\n", "soon"),
        ("fault Nothing at 1s\n", "no fault of the catalogue"),
        ("fault EnginePause on 1st drain\n", "strikes at a time"),
        ("at 1s caller-1 submit F1 chain\n", "line 1"),
    ] {
        let path = folder.join("bad.plan");
        std::fs::write(&path, text).unwrap();
        let (code, told) = sim(&["replay", &path.to_string_lossy()]);
        assert_eq!(code, 2, "{text}: {told}");
        let says = says.trim_start_matches(':');
        assert!(told.contains(says), "{text}: {told}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_run_becomes_a_page() {
    let path = std::env::temp_dir().join(format!("selvedge-page-{}.html", std::process::id()));
    let (code, told) = sim(&["show", "lease-lost", "--page", &path.to_string_lossy()]);
    assert_eq!(code, 0, "{told}");
    let page = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(page.contains("engine-1") && page.contains("worker-1"), "no lanes");
    assert!(page.contains("lease-lost: Passed after"), "no verdict");
}

#[test]
fn a_failure_is_shrunk_to_what_it_needs() {
    use selvedge_sim::failure::Class;
    use selvedge_sim::shrink::shrink;
    // Its worker dies again and again, so it is not done in time: little else is needed.
    let plan = Plan::parse(
        "task E1 does die die die\nlength 2s\nbound 5s\nlanes 2\nat 1s caller-1 create E1\nat 1s caller-1 create E2\n\
         at 1.5s caller-1 submit F1 chain 3\nfault ReplyLost on 1st create_execution\n",
    )
    .unwrap();
    let outcome = run(&plan, &RunOptions::default()).unwrap();
    let failure = Failure::of(&outcome).expect("it is not done in time");
    assert_eq!(failure.class, Class::Liveness);
    let shrunk = shrink(&plan, &failure, &RunOptions::default(), 200);
    assert!(shrunk.plan.lines() <= 4, "{}", shrunk.plan);
}
