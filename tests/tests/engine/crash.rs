//! The crash window: an engine dies at any command between the note of a sibling-cancel debt and
//! its drain. Whoever comes next finishes, and every sibling is cancelled exactly once. Before
//! every single command it is checked that no note went while a sibling still ran, and that a group
//! which has not fired is left alone. `stories/crash.txt` tells who finished after which death.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::rc::Rc;

use selvedge_core::engine::{Answer, EngineConfig, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, Snapshot};
use selvedge_tests::rig::{Crash, EPOCH_MS, Rig};

use crate::flows::{ANY_OF, Flows, Graph, OWING, group_key, of_flow};
use crate::kit::{World, core, execution, only};
use crate::snapshot::assert_snapshot;

/// Members of a group of another flow that has not fired.
const BYSTANDERS: RangeInclusive<usize> = 1_011..=1_012;
/// The child of that group.
const BYSTANDER_CHILD: usize = 1_010;

const DRAIN: &[u8] = b"ff_drain_sibling_cancel_group_checked";

/// Who comes after a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rescue {
    /// An engine with all that is needed.
    Whole,
    /// One whose reconciler never comes again.
    Dispatcher,
    /// One whose dispatcher gets nothing done, and then another.
    ReconcilerFirst,
}

impl Rescue {
    fn config(self) -> EngineConfig {
        use ScannerName::{DependencyReconciler, EdgeCancelDispatcher, EdgeCancelReconciler};
        only(match self {
            Self::Dispatcher => &[DependencyReconciler, EdgeCancelDispatcher],
            Self::Whole | Self::ReconcilerFirst => {
                &[DependencyReconciler, EdgeCancelDispatcher, EdgeCancelReconciler]
            }
        })
    }
}

/// A child that needs one of its upstreams, and what is to become of the others.
struct Scene {
    rig: Rig,
    start: Snapshot,
    siblings: RangeInclusive<usize>,
    /// Every command, by name, of the run under way.
    sent: Rc<RefCell<Vec<String>>>,
}

/// Commands of ours that are only asked for the check.
fn phase(host: &mut Host, n: usize) -> Value {
    host.call(&["HGET", &core(&execution(n)), "lifecycle_phase"])
}

impl Scene {
    /// An upstream has ended and nobody has heard of it yet: the group fires in the sweep itself.
    fn new(upstreams: usize) -> Self {
        let mut rig = Rig::new();
        rig.submit(&Graph::new().roots(1..=upstreams).some_of(0, 1..=upstreams, ANY_OF));
        let other = Graph::new().numbered(1).roots(BYSTANDERS);
        rig.submit(&other.some_of(BYSTANDER_CHILD, BYSTANDERS, ANY_OF));
        rig.complete(1);
        // Nothing for the other scanners: the sweep is about these.
        for index in ["all_executions", "flow_index", "lane:default:terminal"] {
            rig.run(&format!("DEL ff:idx:{{fp:0}}:{index}"));
        }
        let start = rig.host.snapshot();
        let sent = Rc::new(RefCell::new(Vec::new()));
        Self { rig, start, siblings: 2..=upstreams, sent }
    }

    /// Looks before every command whether a note went too early.
    fn watched(mut self) -> Self {
        let (siblings, sent) = (self.siblings.clone(), self.sent.clone());
        self.rig.meddler = Some(Box::new(move |host, command| {
            let name =
                if command.argv[0] == b"FCALL" { &command.argv[1] } else { &command.argv[0] };
            sent.borrow_mut().push(String::from_utf8_lossy(name).replace("ff_", ""));
            let fired = host.call(&["HGET", &group_key(0), "group_state"]);
            let noted = host.call(&["SCARD", OWING]);
            if fired == Value::Bulk(b"satisfied".to_vec()) && noted == Value::Int(0) {
                for n in siblings.clone() {
                    let ended = Value::Bulk(b"terminal".to_vec());
                    assert_eq!(phase(host, n), ended, "the note is gone and E{n} runs");
                }
            }
            for n in BYSTANDERS {
                assert_eq!(phase(host, n), Value::Bulk(b"runnable".to_vec()), "a bystander");
            }
        }));
        self
    }

    /// Whether the group has fired and owes nothing any more.
    fn settled(&mut self) -> bool {
        self.rig.state(0) == "waiting" && self.rig.size(OWING) == 0
    }

    /// Lets engines run until the debt is paid, the last one died, or it takes too long.
    fn go_on(&mut self) {
        let end = self.rig.now_ms() + RECOVERY_MS;
        while self.rig.living() > 0 && self.rig.now_ms() < end && !self.settled() {
            self.rig.run_for(500);
        }
    }

    /// Runs one engine after the other, each but the last dying at its crash, until the debt is
    /// paid. Answers how many commands they sent together.
    fn run(&mut self, crashes: &[Crash], rescue: Rescue) -> usize {
        self.rig.rewind(&self.start, EPOCH_MS);
        self.sent.borrow_mut().clear();
        for &crash in crashes {
            self.rig.crash(crash);
        }
        self.rig.start(Rescue::Whole.config());
        self.go_on();
        for _ in crashes {
            if self.rig.living() == 0 {
                if rescue == Rescue::ReconcilerFirst {
                    self.reconcile_only();
                }
                self.rig.start(rescue.config());
                self.go_on();
            }
        }
        assert!(self.settled(), "{crashes:?}, {rescue:?}: {:#?}", self.rig.trace);
        self.rig.commands
    }

    /// An engine whose dispatcher gets nothing done: its reconciler finishes what is paid, and
    /// leaves alone what is not.
    fn reconcile_only(&mut self) {
        let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
        self.rig.rule = Some(Box::new(move |command| (command.argv[1] == DRAIN).then(loading)));
        let running = |scene: &mut Self| {
            let siblings = scene.siblings.clone();
            siblings.filter(|&n| scene.rig.state(n) == "waiting").count()
        };
        let before = running(self);
        let engine = self.rig.start(Rescue::Whole.config());
        self.rig.run_for(RECOVERY_MS);
        self.rig.kill(engine);
        self.rig.rule = None;
        assert_eq!(running(self), before, "the reconciler cancels nobody");
        let paid = before == 0;
        assert_eq!(self.rig.size(OWING) == 0, paid, "{before} run: {:#?}", self.rig.trace);
    }

    /// What must hold in the end, whatever happened.
    fn check(&mut self, story: &str) {
        let rig = &mut self.rig;
        for sibling in self.siblings.clone() {
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
        let other = of_flow(1, &format!("edgegroup:{}", execution(BYSTANDER_CHILD)));
        assert_eq!(rig.field(&other, "group_state"), "pending", "{story}");
    }

    /// A run in words: where the first engine died, and what the others did then.
    fn tell(&self, died_before: usize) -> (String, String) {
        let about = |line: &&String| line.contains("cancel") || line.contains("dies");
        let lines: Vec<&str> = self.rig.trace.iter().filter(about).map(String::as_str).collect();
        let death = lines.iter().position(|line| line.ends_with("dies")).unwrap_or(lines.len());
        let cancelled = lines[..death].iter().filter(|line| line.ends_with("runnable")).count();
        let next = self.sent.borrow().get(died_before).cloned().unwrap_or_default();
        let rest = lines.iter().skip(death + 1).fold(String::new(), |mut rest, line| {
            writeln!(rest, "  {line}").unwrap();
            rest
        });
        (format!("engine-1 dies before {next}, {cancelled} of 3 cancelled"), rest)
    }
}

/// The runs in words, those alike together.
fn written(runs: Vec<(String, String)>) -> String {
    let mut told: Vec<((String, String), usize)> = Vec::new();
    for run in runs {
        match told.last_mut() {
            Some((last, count)) if *last == run => *count += 1,
            Some(_) | None => told.push((run, 1)),
        }
    }
    told.into_iter().fold(String::new(), |mut text, ((death, rest), count)| {
        writeln!(text, "{death} ({count} x)\n{}", rest.trim_end()).unwrap();
        text
    })
}

/// The longest that a recovery may take: one interval of every scanner, and jitter.
const RECOVERY_MS: u64 = 18_000;

/// Every way to die at one of these commands.
fn deaths(commands: usize) -> impl Iterator<Item = Crash> {
    (0..commands).flat_map(|at| [Crash::Before(at), Crash::After(at)])
}

#[test]
fn an_engine_may_die_at_any_command_and_another_finishes() {
    let mut scene = Scene::new(4).watched();
    let commands = scene.run(&[], Rescue::Whole);
    scene.check("nobody dies");
    let mut swept = 0;
    let mut told = Vec::new();
    for death in deaths(commands) {
        for rescue in [Rescue::Whole, Rescue::Dispatcher] {
            scene.run(&[death], rescue);
            scene.check(&format!("{death:?}, {rescue:?}"));
            if let (Crash::Before(at), Rescue::Whole) = (death, rescue) {
                told.push(scene.tell(at));
            }
            scene.rig.run_for(RECOVERY_MS);
            scene.check(&format!("{death:?}, {rescue:?}, and then a while"));
            swept += 1;
        }
    }
    println!("{swept} runs, a death at each of {commands} commands");
    assert!(swept >= 60, "only {swept} runs: the story has become too short");
    assert_snapshot("stories/crash.txt", &written(told));
}

#[test]
fn the_reconciler_of_another_engine_finishes_what_is_paid_and_leaves_what_is_not() {
    let mut scene = Scene::new(4).watched();
    let commands = scene.run(&[], Rescue::Whole);
    let (mut paid, mut unpaid) = (0, 0);
    for death in deaths(commands) {
        scene.run(&[death], Rescue::ReconcilerFirst);
        scene.check(&format!("{death:?}"));
        paid += scene.rig.traced(&["-> completed_drain"]);
        unpaid += usize::from(scene.rig.traced(&["-> no_op siblings_running"]) > 0);
    }
    println!("{paid} finished by the reconciler, {unpaid} left to the dispatcher");
    assert!(paid >= 2 && unpaid >= 6, "{paid} paid, {unpaid} unpaid");
}

/// Dying after a command leaves the same as dying before the next, so one of the two stands for
/// each boundary here; the single deaths show both.
#[test]
fn two_engines_may_die_at_any_two_boundaries_and_a_third_finishes() {
    let mut scene = Scene::new(4).watched();
    let commands = scene.run(&[], Rescue::Whole);
    let mut swept = 0;
    for first in 0..=commands {
        let together = scene.run(&[Crash::Before(first)], Rescue::Whole);
        for second in first + 1..=together {
            let both = [Crash::Before(first), Crash::Before(second)];
            scene.run(&both, Rescue::Whole);
            scene.check(&format!("before {first} and before {second}"));
            swept += 1;
        }
    }
    println!("{swept} pairs of crash points");
    assert!(swept >= 500, "only {swept} pairs");
}

/// More siblings than one step cancels: deaths around every drain, and at every tenth command.
#[test]
fn a_death_between_the_steps_of_a_large_group_loses_nobody() {
    let mut scene = Scene::new(104).watched();
    let commands = scene.run(&[], Rescue::Whole);
    let sent = scene.sent.take();
    scene.rig.meddler = None;
    let drains: Vec<usize> = (0..sent.len()).filter(|&at| sent[at].starts_with("drain")).collect();
    assert!(drains.len() >= 3, "{} drains", drains.len());
    for at in 0..commands {
        if at % 10 == 0 || drains.iter().any(|&drain| at.abs_diff(drain) <= 1) {
            scene.run(&[Crash::Before(at)], Rescue::Whole);
            scene.check(&format!("before {at}"));
        }
    }
}
