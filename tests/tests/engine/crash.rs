//! The crash window: an engine dies at any command between the note of a sibling-cancel debt and
//! its drain. Whoever comes next finishes, and every sibling is cancelled exactly once.

use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_lua::host::Snapshot;
use selvedge_tests::rig::{Crash, EPOCH_MS, Rig};

use crate::flows::{ANY_OF, Flows, Graph, OWING, group_key, of_flow};
use crate::kit::{World, only};

/// Upstreams of the group that fires: the first succeeds, the others are to be cancelled.
const UPSTREAMS: std::ops::RangeInclusive<usize> = 1..=4;
const SIBLINGS: std::ops::RangeInclusive<usize> = 2..=4;
/// Members of a group of another flow that has not fired.
const BYSTANDERS: std::ops::RangeInclusive<usize> = 11..=12;

fn config() -> EngineConfig {
    only(&[
        ScannerName::DependencyReconciler,
        ScannerName::EdgeCancelDispatcher,
        ScannerName::EdgeCancelReconciler,
    ])
}

/// An upstream has ended and nobody has heard of it yet: the group fires in the sweep itself.
fn scene() -> (Rig, Snapshot) {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(UPSTREAMS).some_of(0, UPSTREAMS, ANY_OF));
    rig.submit(&Graph::new().numbered(1).roots(BYSTANDERS).some_of(10, BYSTANDERS, ANY_OF));
    rig.complete(1);
    // Nothing for the other scanners: the sweep is about these.
    for index in ["all_executions", "flow_index", "lane:default:terminal"] {
        rig.run(&format!("DEL ff:idx:{{fp:0}}:{index}"));
    }
    let snapshot = rig.host.snapshot();
    (rig, snapshot)
}

/// The longest that a recovery may take: one interval of every scanner, and jitter.
const RECOVERY_MS: u64 = 18_000;

/// Whether the group has fired and owes nothing any more.
fn settled(rig: &mut Rig) -> bool {
    rig.state(0) == "waiting" && rig.size(OWING) == 0
}

/// Runs one engine after the other, each but the last dying at its crash, until the debt is paid.
/// Answers how many commands they sent together.
fn run(rig: &mut Rig, snapshot: &Snapshot, crashes: &[Crash]) -> usize {
    rig.rewind(snapshot, EPOCH_MS);
    for &crash in crashes {
        rig.crash(crash);
    }
    for _ in 0..=crashes.len() {
        rig.start(config());
        let end = rig.now_ms() + RECOVERY_MS;
        while rig.living() > 0 && rig.now_ms() < end && !settled(rig) {
            rig.run_for(500);
        }
        if rig.living() > 0 {
            break;
        }
    }
    assert!(settled(rig), "{crashes:?}: {:#?}", rig.trace);
    rig.commands
}

/// What must hold in the end, whatever happened.
fn check(rig: &mut Rig, story: &str) {
    for sibling in SIBLINGS {
        let cancels = rig.traced(&[&format!("cancel_execution E{sibling} -> cancelled")]);
        assert_eq!(cancels, 1, "{story}: E{sibling} in {:#?}", rig.trace);
        assert_eq!(rig.state(sibling), "cancelled", "{story}");
    }
    assert_eq!(rig.size(OWING), 0, "{story}: {:#?}", rig.trace);
    assert_eq!(rig.field(&group_key(0), "cancel_siblings_pending_flag"), "", "{story}");
    assert_eq!(rig.field(&group_key(0), "cancel_siblings_pending_members"), "", "{story}");
    assert_eq!(rig.state(0), "waiting", "{story}: the child may run");
    for bystander in BYSTANDERS {
        assert_eq!(rig.state(bystander), "waiting", "{story}");
    }
    let other = of_flow(1, &format!("edgegroup:{}", crate::kit::execution(10)));
    assert_eq!(rig.field(&other, "group_state"), "pending", "{story}");
}

/// Every way to die at one of these commands.
fn deaths(commands: std::ops::Range<usize>) -> impl Iterator<Item = Crash> {
    commands.flat_map(|at| [Crash::Before(at), Crash::After(at)])
}

#[test]
fn an_engine_may_die_at_any_command_and_another_finishes() {
    let (mut rig, snapshot) = scene();
    let commands = run(&mut rig, &snapshot, &[]);
    check(&mut rig, "nobody dies");
    let mut swept = 0;
    for first in deaths(0..commands) {
        run(&mut rig, &snapshot, &[first]);
        check(&mut rig, &format!("{first:?}"));
        rig.run_for(RECOVERY_MS);
        check(&mut rig, &format!("{first:?}, and then a while"));
        swept += 1;
    }
    println!("{swept} crash points over {commands} commands");
    assert!(swept >= 30, "only {swept} crash points: the story has become too short");
}

/// Dying after a command leaves the same as dying before the next, so one of the two stands for
/// each boundary here; the single deaths show both.
#[test]
fn two_engines_may_die_at_any_two_boundaries_and_a_third_finishes() {
    let (mut rig, snapshot) = scene();
    let commands = run(&mut rig, &snapshot, &[]);
    let mut swept = 0;
    for first in 0..=commands {
        let together = run(&mut rig, &snapshot, &[Crash::Before(first)]);
        for second in first + 1..=together {
            run(&mut rig, &snapshot, &[Crash::Before(first), Crash::Before(second)]);
            check(&mut rig, &format!("before {first} and before {second}"));
            swept += 1;
        }
    }
    println!("{swept} pairs of crash points");
    assert!(swept >= 500, "only {swept} pairs");
}
