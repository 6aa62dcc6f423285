//! An engine crashes at any command between the entry of a group with siblings to cancel and its
//! drain. The next engine finishes, and every sibling is cancelled exactly once. Before every
//! command it is checked that no entry is gone while a sibling runs, and that a group which is not
//! decided is left alone. `stories/crash.txt` shows which engine finished after which crash.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::rc::Rc;

use selvedge_core::command::Answer;
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, Snapshot};
use selvedge_tests::harness::{Crash, EPOCH_MS, Harness};

use crate::fixtures::{ClientCalls, core, execution, only};
use crate::flow_builder::{ANY_OF, CANCEL_GROUPS, Flows, Graph, group_key, of_flow};
use crate::snapshot::assert_snapshot;

/// Members of a group of another flow that is not decided.
const BYSTANDERS: RangeInclusive<usize> = 1_011..=1_012;
/// The child of that group.
const BYSTANDER_CHILD: usize = 1_010;

const DRAIN: &[u8] = b"ff_drain_sibling_cancel_group_checked";

/// Which engine comes after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rescue {
    /// An engine with all scanners that are needed.
    Whole,
    /// One without the reconciler.
    Dispatcher,
    /// One whose dispatcher always fails, and then another.
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

/// A child that needs one of its upstreams; the others are cancelled.
struct CrashTest {
    harness: Harness,
    start: Snapshot,
    siblings: RangeInclusive<usize>,
    /// Every command, by name, of the run under way.
    sent: Rc<RefCell<Vec<String>>>,
}

/// A command that is only part of the check.
fn phase(host: &mut Host, n: usize) -> Value {
    host.call(&["HGET", &core(&execution(n)), "lifecycle_phase"])
}

impl CrashTest {
    /// An upstream has ended and was not dispatched: the group is decided during the test.
    fn new(upstreams: usize) -> Self {
        let mut harness = Harness::new();
        harness.submit(&Graph::new().roots(1..=upstreams).some_of(0, 1..=upstreams, ANY_OF));
        let other = Graph::new().numbered(1).roots(BYSTANDERS);
        harness.submit(&other.some_of(BYSTANDER_CHILD, BYSTANDERS, ANY_OF));
        harness.complete(1);
        // Nothing for the other scanners: the sweep is about these.
        for index in ["all_executions", "flow_index", "lane:default:terminal"] {
            harness.run(&format!("DEL ff:idx:{{fp:0}}:{index}"));
        }
        let start = harness.host.snapshot();
        let sent = Rc::new(RefCell::new(Vec::new()));
        Self { harness, start, siblings: 2..=upstreams, sent }
    }

    /// Checks before every command that no entry is gone too early.
    fn watched(mut self) -> Self {
        let (siblings, sent) = (self.siblings.clone(), self.sent.clone());
        self.harness.before_command = Some(Box::new(move |host, command| {
            let name =
                if command.argv[0] == b"FCALL" { &command.argv[1] } else { &command.argv[0] };
            sent.borrow_mut().push(String::from_utf8_lossy(name).replace("ff_", ""));
            let fired = host.call(&["HGET", &group_key(0), "group_state"]);
            let noted = host.call(&["SCARD", CANCEL_GROUPS]);
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

    /// Whether the group is decided and has no sibling to cancel.
    fn settled(&mut self) -> bool {
        self.harness.state(0) == "waiting" && self.harness.size(CANCEL_GROUPS) == 0
    }

    /// Runs engines until the group is settled, the last one crashed, or it takes too long.
    fn go_on(&mut self) {
        let end = self.harness.now_ms() + RECOVERY_MS;
        while self.harness.living() > 0 && self.harness.now_ms() < end && !self.settled() {
            self.harness.run_for(500);
        }
    }

    /// Runs one engine after the other, each but the last with a crash, until the group is settled.
    /// Returns how many commands they sent together.
    fn run(&mut self, crashes: &[Crash], rescue: Rescue) -> usize {
        self.harness.rewind(&self.start, EPOCH_MS);
        self.sent.borrow_mut().clear();
        for &crash in crashes {
            self.harness.crash(crash);
        }
        self.harness.start(Rescue::Whole.config());
        self.go_on();
        for _ in crashes {
            if self.harness.living() == 0 {
                if rescue == Rescue::ReconcilerFirst {
                    self.reconcile_only();
                }
                self.harness.start(rescue.config());
                self.go_on();
            }
        }
        assert!(self.settled(), "{crashes:?}, {rescue:?}: {:#?}", self.harness.trace);
        self.harness.commands
    }

    /// An engine whose dispatcher always fails: its reconciler drains groups whose siblings have
    /// ended, and leaves others alone.
    fn reconcile_only(&mut self) {
        let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
        self.harness.rule = Some(Box::new(move |command| (command.argv[1] == DRAIN).then(loading)));
        let running = |test: &mut Self| {
            let siblings = test.siblings.clone();
            siblings.filter(|&n| test.harness.state(n) == "waiting").count()
        };
        let before = running(self);
        let engine = self.harness.start(Rescue::Whole.config());
        self.harness.run_for(RECOVERY_MS);
        self.harness.kill(engine);
        self.harness.rule = None;
        assert_eq!(running(self), before, "the reconciler cancels none");
        let done = before == 0;
        assert_eq!(
            self.harness.size(CANCEL_GROUPS) == 0,
            done,
            "{before} run: {:#?}",
            self.harness.trace
        );
    }

    /// What must hold in the end.
    fn check(&mut self, story: &str) {
        let harness = &mut self.harness;
        for sibling in self.siblings.clone() {
            let cancels = harness.traced(&[&format!("cancel_execution E{sibling} -> cancelled")]);
            assert_eq!(cancels, 1, "{story}: E{sibling} in {:#?}", harness.trace);
            assert_eq!(harness.state(sibling), "cancelled", "{story}");
        }
        assert_eq!(harness.size(CANCEL_GROUPS), 0, "{story}: {:#?}", harness.trace);
        assert_eq!(harness.field(&group_key(0), "cancel_siblings_pending_flag"), "", "{story}");
        assert_eq!(harness.field(&group_key(0), "cancel_siblings_pending_members"), "", "{story}");
        assert_eq!(harness.state(0), "waiting", "{story}: the child may run");
        for bystander in BYSTANDERS {
            assert_eq!(harness.state(bystander), "waiting", "{story}");
        }
        let other = of_flow(1, &format!("edgegroup:{}", execution(BYSTANDER_CHILD)));
        assert_eq!(harness.field(&other, "group_state"), "pending", "{story}");
    }

    /// A run as text: where the first engine crashed, and what the others did then.
    fn tell(&self, died_before: usize) -> (String, String) {
        let about = |line: &&String| line.contains("cancel") || line.contains("dies");
        let lines: Vec<&str> =
            self.harness.trace.iter().filter(about).map(String::as_str).collect();
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

/// The runs as text, equal ones together.
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

/// Every crash at one of these commands.
fn deaths(commands: usize) -> impl Iterator<Item = Crash> {
    (0..commands).flat_map(|at| [Crash::Before(at), Crash::After(at)])
}

#[test]
fn an_engine_may_crash_at_any_command_and_another_finishes() {
    let mut test = CrashTest::new(4).watched();
    let commands = test.run(&[], Rescue::Whole);
    test.check("no crash");
    let mut swept = 0;
    let mut told = Vec::new();
    for death in deaths(commands) {
        for rescue in [Rescue::Whole, Rescue::Dispatcher] {
            test.run(&[death], rescue);
            test.check(&format!("{death:?}, {rescue:?}"));
            if let (Crash::Before(at), Rescue::Whole) = (death, rescue) {
                told.push(test.tell(at));
            }
            test.harness.run_for(RECOVERY_MS);
            test.check(&format!("{death:?}, {rescue:?}, and then a while"));
            swept += 1;
        }
    }
    println!("{swept} runs, a death at each of {commands} commands");
    assert!(swept >= 60, "only {swept} runs: the story has become too short");
    assert_snapshot("stories/crash.txt", &written(told));
}

#[test]
fn the_reconciler_drains_settled_groups_and_leaves_others() {
    let mut test = CrashTest::new(4).watched();
    let commands = test.run(&[], Rescue::Whole);
    let (mut drained, mut running) = (0, 0);
    for death in deaths(commands) {
        test.run(&[death], Rescue::ReconcilerFirst);
        test.check(&format!("{death:?}"));
        drained += test.harness.traced(&["-> completed_drain"]);
        running += usize::from(test.harness.traced(&["-> no_op siblings_running"]) > 0);
    }
    println!("{drained} finished by the reconciler, {running} left to the dispatcher");
    assert!(drained >= 2 && running >= 6, "{drained} drained, {running} running");
}

/// A crash after a command leaves the same state as one before the next command, so only the second
/// is tried here; the test with one crash tries both.
#[test]
fn two_engines_may_crash_at_any_two_commands_and_a_third_finishes() {
    let mut test = CrashTest::new(4).watched();
    let commands = test.run(&[], Rescue::Whole);
    let mut swept = 0;
    for first in 0..=commands {
        let together = test.run(&[Crash::Before(first)], Rescue::Whole);
        for second in first + 1..=together {
            let both = [Crash::Before(first), Crash::Before(second)];
            test.run(&both, Rescue::Whole);
            test.check(&format!("before {first} and before {second}"));
            swept += 1;
        }
    }
    println!("{swept} pairs of crash points");
    assert!(swept >= 500, "only {swept} pairs");
}

/// More siblings than one round cancels: crashes around every drain, and at every tenth command.
#[test]
fn a_crash_between_the_rounds_of_a_large_group_loses_no_sibling() {
    let mut test = CrashTest::new(104).watched();
    let commands = test.run(&[], Rescue::Whole);
    let sent = test.sent.take();
    test.harness.before_command = None;
    let drains: Vec<usize> = (0..sent.len()).filter(|&at| sent[at].starts_with("drain")).collect();
    assert!(drains.len() >= 3, "{} drains", drains.len());
    for at in 0..commands {
        if at % 10 == 0 || drains.iter().any(|&drain| at.abs_diff(drain) <= 1) {
            test.run(&[Crash::Before(at)], Rescue::Whole);
            test.check(&format!("before {at}"));
        }
    }
}
