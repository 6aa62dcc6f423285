//! Stories, sweeps and some seeds, which every change has to pass.

use std::collections::BTreeMap;

use selvedge_sim::event::{EventKind, HandlerStep};
use selvedge_sim::failure::Failure;
use selvedge_sim::plan::{Mode, Plan, Seed};
use selvedge_sim::runner::{Outcome, RunOptions, RunResult, run};
use selvedge_sim::soak::soak;
use selvedge_sim::story::{STORIES, Story, Sweep, sweep};

use crate::sim;

#[test]
fn every_story_passes() {
    for story in STORIES {
        let plan = story.plan().unwrap_or_else(|error| panic!("{}: {error}", story.name));
        assert!(!story.about().is_empty(), "{} has no leading comment", story.name);
        let outcome = run(&plan, &RunOptions::default()).unwrap();
        assert_eq!(Failure::of(&outcome), None, "{}", story.name);
    }
}

/// With an engine crash at every boundary between the first cancel and the drain, and at every
/// pair.
#[test]
fn siblings_are_cancelled_despite_crashes_at_any_boundary() {
    swept("siblings-cancelled");
}

#[test]
fn a_lost_lease_is_requeued_despite_crashes_at_any_boundary() {
    let swept = swept("lease-lost");
    let without_recovery = swept.singles * (swept.singles - 1) / 2;
    assert!(swept.pairs > without_recovery, "no crash during a recovery: {swept:?}");
}

#[test]
fn workers_die_in_stories_about_them() {
    let swept = swept("worker-claims-renews-reports");
    assert!(swept.singles > 2 * swept.calls, "no death before an effect: {swept:?}");
}

/// A worker with 64 permits, and one of three nodes that stands still for ten seconds.
#[test]
fn a_paused_node_does_not_slow_claims_on_the_others() {
    let story = Story::find("one-node-of-three-paused").expect("a story").plan().expect("a plan");
    let mut calm = story.clone();
    calm.faults.clear();
    let [with, without] = [&story, &calm].map(|plan| {
        let options = RunOptions { keep_events: Some(usize::MAX), ..RunOptions::default() };
        let outcome = run(plan, &options).expect("it can be run");
        assert_eq!(outcome.result, RunResult::Passed, "{:?}", outcome.violations);
        starts_by_node(&outcome)
    });
    assert_eq!(with[0], 0, "the paused node answered: {with:?}");
    assert!(without[0] > 20, "nothing was ready on the paused node: {without:?}");
    for node in [1, 2] {
        assert!(with[node] > 20, "{with:?}");
        assert!(with[node] * 20 >= without[node] * 19, "{with:?} claims, {without:?} without it");
    }
}

/// How many handlers were started on each node while the first one stands still.
fn starts_by_node(outcome: &Outcome) -> [usize; 3] {
    let mut node_of = BTreeMap::new();
    let mut starts = [0; 3];
    for event in outcome.trace.tail() {
        if let EventKind::Applied(applied) = &event.kind
            && let Some(Ok(key)) = applied.argv.get(3).map(|key| str::from_utf8(key))
            && let Some(at) = key.find("{fp:")
            && let Some((tag, _)) = key[at..].split_once('}')
        {
            node_of.insert(format!("{tag}}}"), usize::from(applied.node) - 1);
        }
        let EventKind::Handler { execution, step: HandlerStep::Started, .. } = &event.kind else {
            continue;
        };
        if (5_100..15_000).contains(&event.at_ms) {
            starts[node_of[&execution.partition().to_string()]] += 1;
        }
    }
    starts
}

fn swept(name: &str) -> Sweep {
    let story = Story::find(name).expect("a story");
    let (plan, workers) = (story.plan().expect("a plan"), story.is_about_workers());
    let swept = sweep(&plan, workers, &RunOptions::default(), |_, _| {}).expect("it can be run");
    assert!(swept.singles >= 4 && swept.pairs >= 6, "{name}: nothing was swept: {swept:?}");
    let output: Vec<String> =
        swept.failures.iter().map(|(plan, failure)| format!("{failure:?}\n{plan}")).collect();
    assert!(output.is_empty(), "{}", output.join("\n"));
    swept
}

/// Lite seeds, and some swarm seeds, on several threads.
#[test]
fn seeds_pass_with_any_number_of_threads() {
    let run =
        |mode, seeds, jobs| soak(mode, Seed::from(0), seeds, jobs, &RunOptions::default(), |_| {});
    for (mode, seeds) in [(Mode::Lite, 200), (Mode::Swarm, 40)] {
        let done = run(mode, seeds, 2);
        assert_eq!((done.seeds, done.calls > 5_000), (seeds, true));
        assert!(done.failed.is_empty(), "{mode:?}: {:?}", done.failed);
        assert!(done.broken.is_empty() && done.nondeterministic.is_empty(), "{done:?}");
    }
    assert_eq!(run(Mode::Lite, 6, 1), run(Mode::Lite, 6, 3));
}

#[test]
fn two_processes_give_the_same_runs() {
    let (code, output) = sim(&["double", "--seed", "100", "--seeds", "6", "--lite"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("6 seeds, each the same in two processes"), "{output}");
}

#[test]
fn a_wrong_plan_is_refused_with_its_line() {
    let folder = std::env::temp_dir().join(format!("selvedge-plans-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (text, says) in [
        ("engines 2\nworkrs 3\n", ":2"),
        ("at soon caller-1 create E1\n", "soon"),
        ("fault Nothing at 1s\n", "not a fault of the catalogue"),
        ("fault EnginePause on 1st drain\n", "at a time"),
        ("at 1s caller-1 submit F1 chain\n", "line 1"),
    ] {
        let path = folder.join("bad.plan");
        std::fs::write(&path, text).unwrap();
        let (code, output) = sim(&["replay", &path.to_string_lossy()]);
        assert_eq!(code, 2, "{text}: {output}");
        let says = says.trim_start_matches(':');
        assert!(output.contains(says), "{text}: {output}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_run_is_written_as_a_page() {
    let path = std::env::temp_dir().join(format!("selvedge-page-{}.html", std::process::id()));
    let (code, output) = sim(&["show", "lease-lost", "--page", &path.to_string_lossy()]);
    assert_eq!(code, 0, "{output}");
    let page = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(page.contains("engine-1") && page.contains("worker-1"), "no lanes");
    assert!(page.contains("lease-lost: Passed after"), "no result");
}

#[test]
fn a_failure_is_shrunk_to_what_it_needs() {
    use selvedge_sim::failure::Class;
    use selvedge_sim::shrink_plan::shrink_plan;
    // Its worker dies repeatedly, so it does not end in time.
    let plan = Plan::parse(
        "task E1 does die die die\nlength 2s\nbound 5s\nlanes 2\nat 1s caller-1 create E1\nat 1s caller-1 create E2\n\
         at 1.5s caller-1 submit F1 chain 3\nfault ReplyLost on 1st create_execution\n",
    )
    .unwrap();
    let outcome = run(&plan, &RunOptions::default()).unwrap();
    let failure = Failure::of(&outcome).expect("it is not done in time");
    assert_eq!(failure.class, Class::Liveness);
    let shrunk = shrink_plan(&plan, &failure, &RunOptions::default(), 200);
    assert!(shrunk.plan.lines() <= 4, "{}", shrunk.plan);
}
