//! What the judge finds, and what it excuses.

use selvedge_core::audit::{Entry, Stored};
use selvedge_core::time::ServerTime;

use super::super::load::Ended;
use super::*;

const ID: &str = "{fp:0}:00000000-0000-4000-8000-000000000001";
const TOLD_AT_MS: u64 = 100_000;
const TAKEN_OVER_AT_MS: u64 = TOLD_AT_MS + 500;

fn id() -> ExecutionId {
    ID.parse().expect("an id")
}

fn told() -> CallerRecord {
    let accepted = Accepted { at_ms: TOLD_AT_MS, outcomes: &[TerminalOutcome::Success] };
    let outcome = TerminalOutcome::Success;
    let end = Ended { at_ms: TOLD_AT_MS, id: id(), outcome, result: b"result".to_vec() };
    CallerRecord {
        accepted: [(id(), accepted)].into(),
        ended: vec![end],
        ..CallerRecord::default()
    }
}

/// A keyspace in which the first attempt has ended like this.
fn ended(outcome: &str, result: &str) -> Snapshot {
    ended_by("0", outcome, result)
}

fn ended_by(attempt: &str, outcome: &str, result: &str) -> Snapshot {
    let mut snapshot = Snapshot::new(ServerTime(0));
    let fields = [("terminal_outcome", outcome), ("current_attempt_index", attempt)]
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    let put = |stored| Some(Entry { stored, expires_at: None });
    snapshot
        .put(Key::execution(&id()).core().to_string().as_bytes(), put(Stored::Hash(fields.into())));
    snapshot.put(
        Key::execution(&id()).result().to_string().as_bytes(),
        put(Stored::Text(result.as_bytes().to_vec())),
    );
    snapshot
}

fn run(at_ms: u64, attempt: u32, result: &str) -> Run {
    Run { at_ms, execution: ID.to_owned(), attempt, resumed: false, result: result.to_owned() }
}

/// What is found, but for the oracles, which have their own tests.
fn judge(snapshot: &Snapshot, runs: &[Run], crashes: &[PrimaryCrash]) -> Verdict {
    let mut verdict = Evidence { snapshot, told: &told(), runs, crashes }.judge();
    verdict.faults.retain(|fault| !fault.starts_with("fsck"));
    verdict
}

#[test]
fn lost_changed_doubled_and_invented_results_are_found() {
    let once = [run(1, 0, "result")];
    let found = |snapshot: &Snapshot, runs: &[Run]| judge(snapshot, runs, &[]).faults.join("\n");
    assert_eq!(found(&ended("success", "result"), &once), "");
    assert!(found(&Snapshot::new(ServerTime(0)), &once).contains("accepted and is lost"));
    assert!(found(&ended("none", ""), &once).contains("never ended"));
    assert!(found(&ended("failed", ""), &once).contains("ended as failed"));
    assert!(found(&ended("success", "other"), &once).contains("was said to have ended"));
    assert!(found(&ended("success", "result"), &[]).contains("no run of it made"));
    let twice = [run(1, 0, "result"), run(2, 0, "again")];
    assert!(found(&ended("success", "result"), &twice).contains("and again at"));
    let retried = [run(1, 0, "first"), run(2, 1, "result")];
    assert_eq!(found(&ended_by("1", "success", "result"), &retried), "");
    let fenced_off = found(&ended_by("1", "success", "first"), &retried);
    assert!(fenced_off.contains("gave back what attempt 0 made"), "{fenced_off}");
    let resumed = |at_ms, result| Run { resumed: true, ..run(at_ms, 0, result) };
    let waited = [run(1, 0, "first"), resumed(2, "result")];
    assert_eq!(found(&ended("success", "result"), &waited), "");
    let waited_twice = [run(1, 0, "first"), resumed(2, "result"), resumed(3, "again")];
    assert!(found(&ended("success", "result"), &waited_twice).contains("went on at"));
}

#[test]
fn runs_after_a_success_and_lost_unacknowledged_work_are_found() {
    let retried = [run(1, 0, "first"), run(2, 1, "result")];
    let mut snapshot = ended_by("1", "success", "result");
    let mut first = |state: &str| {
        let fields = [("attempt_state".to_owned(), state.as_bytes().to_vec())];
        let entry = Entry { stored: Stored::Hash(fields.into()), expires_at: None };
        let key = Key::execution(&id()).attempt(AttemptIndex(0)).to_string();
        snapshot.put(key.as_bytes(), Some(entry));
        judge(&snapshot, &retried, &[]).faults.join("\n")
    };
    assert_eq!(first("interrupted_reclaimed"), "");
    let doubled = first("ended_success");
    assert!(doubled.contains("succeeded, and yet 1 ran"), "{doubled}");

    let nobody = CallerRecord { unanswered: 1, ..CallerRecord::default() };
    let nothing = Snapshot::new(ServerTime(0));
    let runs = [run(TOLD_AT_MS, 0, "result")];
    let unheard = |crashes: &[PrimaryCrash]| {
        let evidence = Evidence { snapshot: &nothing, told: &nobody, runs: &runs, crashes };
        let Verdict { faults, excused } = evidence.judge();
        (faults.join("\n"), excused.len())
    };
    assert_eq!(unheard(&[]), (format!("{ID} ran and is lost"), 0));
    let died = crash(0..=u16::MAX, Snapshot::new(ServerTime(0)));
    assert_eq!(unheard(&[died]), (String::new(), 1));
    let open = ended("none", "");
    let left = Evidence { snapshot: &open, told: &nobody, runs: &[], crashes: &[] }.judge();
    let left = left.faults.join("\n");
    assert!(left.contains("never ended, and nobody heard of it"), "{left}");
}

#[test]
fn wrong_replies_to_callers_are_found() {
    let snapshot = ended("success", "result");
    let runs = [run(1, 0, "result")];
    let found = |told: &CallerRecord, crashes: &[PrimaryCrash]| {
        let mut verdict = Evidence { snapshot: &snapshot, told, runs: &runs, crashes }.judge();
        verdict.faults.retain(|fault| !fault.starts_with("fsck"));
        (verdict.faults.join("\n"), verdict.excused.len())
    };
    let denied_at = |at_ms| CallerRecord { denied: vec![(id(), at_ms)], ..told() };
    let denied = denied_at(TAKEN_OVER_AT_MS);
    let (faults, excused) = found(&denied, &[]);
    assert!(faults.contains("told that it is not there") && excused == 0, "{faults}");
    let lost = || crash(0..=u16::MAX, Snapshot::new(ServerTime(0)));
    assert_eq!(found(&denied, &[lost()]), (String::new(), 1));
    // The server that accepted it was still there, and said so itself.
    let (faults, excused) = found(&denied_at(TAKEN_OVER_AT_MS - 1), &[lost()]);
    assert!(faults.contains("told that it is not there") && excused == 0, "{faults}");
    let refused = CallerRecord { refused: vec!["submit was told: no".to_owned()], ..told() };
    assert_eq!(found(&refused, &[]), ("submit was told: no".to_owned(), 0));
}

/// A server that held these slots, and died just after it had told the caller.
fn crash(slots: std::ops::RangeInclusive<u16>, promoted: Snapshot) -> PrimaryCrash {
    let (heard_until_ms, taken_over_at_ms) = (TOLD_AT_MS - 20, TAKEN_OVER_AT_MS);
    PrimaryCrash { server: 4, slots: vec![slots], heard_until_ms, taken_over_at_ms, promoted }
}

#[test]
fn a_loss_is_excused_only_by_the_crash_of_its_own_primary() {
    let nothing = || Snapshot::new(ServerTime(0));
    let runs = [run(1, 0, "result")];
    let slot = id().partition().slot();
    let here = || crash(slot..=slot, nothing());
    let mine = judge(&nothing(), &runs, &[here()]);
    assert_eq!((mine.faults.len(), mine.excused.len()), (0, 2), "{mine:?}");
    assert!(mine.excused.iter().all(|loss| loss.ends_with("server 4 had it")), "{mine:?}");
    let elsewhere = crash(slot + 1..=u16::MAX, nothing());
    let before = PrimaryCrash { taken_over_at_ms: TOLD_AT_MS, ..here() };
    let after = PrimaryCrash { heard_until_ms: TOLD_AT_MS + 1, ..here() };
    let saved = crash(slot..=slot, ended("success", "result"));
    for other in [elsewhere, before, after, saved] {
        let verdict = judge(&nothing(), &runs, std::slice::from_ref(&other));
        assert_eq!((verdict.faults.len(), verdict.excused.len()), (2, 0), "{other:?}");
    }
}

#[test]
fn a_changed_end_is_not_excused_if_the_promoted_replica_has_an_end() {
    let again = [run(1, 0, "result"), run(2, 0, "other")];
    let changed = ended("success", "other");
    for (promoted, excused) in [(ended("none", ""), 1), (changed.clone(), 0)] {
        let verdict = judge(&changed, &again[1..], &[crash(0..=u16::MAX, promoted)]);
        assert_eq!(verdict.excused.len(), excused, "{verdict:?}");
        let told = verdict.faults.iter().filter(|fault| fault.contains("said to have ended"));
        assert_eq!(told.count(), 1 - excused, "{verdict:?}");
    }
}

#[test]
fn runs_that_must_not_happen_and_unknown_executions_are_found() {
    let found = |outcomes: &'static [TerminalOutcome], snapshot: &Snapshot, last: u32| {
        let accepted = Accepted { at_ms: TOLD_AT_MS, outcomes };
        let told = CallerRecord { accepted: [(id(), accepted)].into(), ..CallerRecord::default() };
        let runs: Vec<Run> = (0..=last).map(|attempt| run(1, attempt, "x")).collect();
        Evidence { snapshot, told: &told, runs: &runs, crashes: &[] }.judge().faults.join("\n")
    };
    let skipped = found(&[TerminalOutcome::Skipped], &ended("skipped", ""), 0);
    assert!(skipped.contains("could only be skipped"), "{skipped}");
    let mut snapshot = ended_by("1", "failed", "");
    let fields = [("attempt_state".to_owned(), b"ended_failure".to_vec())];
    let entry = Entry { stored: Stored::Hash(fields.into()), expires_at: None };
    let key = Key::execution(&id()).attempt(AttemptIndex(0)).to_string();
    snapshot.put(key.as_bytes(), Some(entry));
    let retried = found(&[TerminalOutcome::Failed], &snapshot, 1);
    assert!(retried.contains("failed for good, and yet 1 ran"), "{retried}");
    assert!(!found(&[TerminalOutcome::Failed], &snapshot, 0).contains("for good"));
    let nobody = CallerRecord::default();
    let one = ended("success", "result");
    let strange = Evidence { snapshot: &one, told: &nobody, runs: &[], crashes: &[] }.judge();
    assert!(strange.faults.join("\n").contains("is nobody's"), "{strange:?}");
}

#[test]
fn a_second_run_is_excused_if_the_promoted_replica_lacks_the_first() {
    let end = ended("success", "again");
    let resumed = |at_ms, result| Run { resumed: true, ..run(at_ms, 0, result) };
    let attempt = |fields: &[(&str, &str)]| {
        let mut promoted = ended("none", "");
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let key = Key::execution(&id()).attempt(AttemptIndex(0)).to_string();
        let stored = Stored::Hash(fields.collect());
        promoted.put(key.as_bytes(), Some(Entry { stored, expires_at: None }));
        promoted
    };
    let began = || attempt(&[("attempt_state", "started")]);
    let went_on = || attempt(&[("attempt_state", "started"), ("resumed_at", "1")]);
    let first = [run(TOLD_AT_MS, 0, "result"), run(TAKEN_OVER_AT_MS, 0, "again")];
    let second = [resumed(TOLD_AT_MS, "result"), resumed(TAKEN_OVER_AT_MS, "again")];
    let at_once = [run(TOLD_AT_MS, 0, "result"), run(TOLD_AT_MS + 5, 0, "again")];
    for (runs, promoted, doubled) in [
        (&at_once, ended("none", ""), 1),
        (&first, ended("none", ""), 0),
        (&first, began(), 1),
        (&second, began(), 0),
        (&second, went_on(), 1),
    ] {
        let verdict = judge(&end, runs, &[crash(0..=u16::MAX, promoted)]);
        let told = verdict.faults.iter().filter(|fault| fault.contains("again at")).count();
        assert_eq!(told, doubled, "{verdict:?}");
    }
}

#[test]
fn a_signal_that_was_accepted_and_not_seen_is_found() {
    let timed_out = Run { resumed: true, ..run(TOLD_AT_MS + 5, 0, "timed-out-result") };
    let runs = [run(1, 0, "first"), timed_out];
    let found = |signalled_at: Option<u64>| {
        let signalled = signalled_at.map(|at_ms| (id(), at_ms)).into_iter().collect();
        let told = CallerRecord { signalled, ..CallerRecord::default() };
        let snapshot = Snapshot::new(ServerTime(0));
        let mut verdict = Verdict::default();
        Evidence { snapshot: &snapshot, told: &told, runs: &runs, crashes: &[] }
            .judge_signals(&mut verdict);
        verdict.faults.len()
    };
    assert_eq!(found(None), 0, "nobody sent one");
    assert_eq!(found(Some(TOLD_AT_MS)), 1);
    assert_eq!(found(Some(TOLD_AT_MS + 9)), 0, "it came after the time was over");
}

#[test]
fn a_limit_that_is_gone_is_found() {
    let told = CallerRecord { limits_denied: vec!["quota 7".to_owned()], ..told() };
    let snapshot = ended("success", "result");
    let mut verdict = Verdict::default();
    Evidence { snapshot: &snapshot, told: &told, runs: &[], crashes: &[] }
        .judge_limits(&mut verdict);
    assert_eq!(verdict.faults, ["quota 7 was created, and is not there"]);
}
