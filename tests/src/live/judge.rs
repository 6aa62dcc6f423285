//! The judge: what the keyspace says at the end, against what everybody was told.

use std::collections::BTreeMap;

use selvedge::client::TerminalOutcome;
use selvedge_core::audit::{self, Snapshot};
use selvedge_core::id::{AttemptIndex, ExecutionId};
use selvedge_core::key::Key;

use super::crash::Crash;
use super::load::{Accepted, Told};
use super::runs::Run;

/// Everything that is known at the end.
pub struct Evidence<'a> {
    /// The keyspace.
    pub snapshot: &'a Snapshot,
    /// What callers were told.
    pub told: &'a Told,
    /// What handlers did.
    pub runs: &'a [Run],
    /// The servers that died with what their replicas had not heard.
    pub crashes: &'a [Crash],
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What must not be.
    pub faults: Vec<String>,
    /// What would be a fault, had not a server died with what only it knew, and which one.
    pub excused: Vec<String>,
}

impl Evidence<'_> {
    /// Judges.
    #[must_use]
    pub fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let found = audit::judge(self.snapshot).into_iter();
        for violation in found.chain(audit::judge_rest(self.snapshot)) {
            verdict.faults.push(format!("fsck: {violation}"));
        }
        for (id, accepted) in &self.told.accepted {
            self.judge_accepted(id, accepted, &mut verdict);
        }
        self.judge_unheard(&mut verdict);
        self.judge_denials(&mut verdict);
        self.judge_ends(&mut verdict);
        self.judge_runs(&mut verdict);
        self.judge_attempts(&mut verdict);
        verdict
    }

    /// What was accepted is there and has ended as it should.
    fn judge_accepted(&self, id: &ExecutionId, accepted: &Accepted, verdict: &mut Verdict) {
        let outcome = field(self.snapshot, id, "terminal_outcome");
        if accepted.outcomes.iter().any(|allowed| *allowed.as_str() == *outcome) {
            return;
        }
        let what = match outcome.as_str() {
            "" => format!("{id} was accepted and is lost"),
            "none" => format!("{id} never ended: {}", field(self.snapshot, id, "public_state")),
            other => format!("{id} ended as {other}"),
        };
        // Only what is gone can have died with a server.
        let against = |crash: &Crash| !outcome.is_empty() || crash.heir.execution(id).is_some();
        self.find(verdict, what, id, accepted.at_ms, against);
    }

    /// What is there has ended, even where a caller never heard that it was accepted; and where every
    /// caller heard, there is nothing else.
    fn judge_unheard(&self, verdict: &mut Verdict) {
        if self.told.unanswered == 0 {
            let accepted = |id: &ExecutionId| self.told.accepted.contains_key(id);
            let strange = self.snapshot.executions().filter(|execution| !accepted(execution.id));
            let told = strange.map(|execution| format!("{} is nobody's", execution.id));
            verdict.faults.extend(told);
        }
        let open = self.snapshot.executions().filter(|execution| {
            !self.told.accepted.contains_key(execution.id)
                && execution.core.text("terminal_outcome") == "none"
        });
        for execution in open {
            let (id, state) = (execution.id, execution.core.text("public_state"));
            verdict.faults.push(format!("{id} never ended, and nobody heard of it: {state}"));
        }
    }

    /// What was accepted is not said to be nowhere, and nobody is refused what he may ask for.
    fn judge_denials(&self, verdict: &mut Verdict) {
        verdict.faults.extend(self.told.refused.iter().cloned());
        for (id, denied_at_ms) in &self.told.denied {
            let what = format!("{id} was accepted, and a caller was told that it is not there");
            let at_ms = self.told.accepted.get(id).map_or(0, |accepted| accepted.at_ms);
            self.find(verdict, what, id, at_ms, |crash| {
                crash.heir.execution(id).is_some() || crash.spoke_at(*denied_at_ms)
            });
        }
    }

    /// An end that somebody was told stays the end.
    fn judge_ends(&self, verdict: &mut Verdict) {
        for end in &self.told.ended {
            let end_in = |snapshot: &Snapshot| {
                (field(snapshot, &end.id, "terminal_outcome"), result(snapshot, &end.id))
            };
            let told = (end.outcome.as_str().to_owned(), end.result.clone());
            let found = end_in(self.snapshot);
            if found != told {
                let (outcome, result) = &found;
                let what = format!(
                    "{} was said to have ended as {} with {}, now it is {outcome} with {}",
                    end.id,
                    end.outcome,
                    end.result.escape_ascii(),
                    result.escape_ascii()
                );
                // Whoever has any end has heard of the one that was told.
                let against =
                    |crash: &Crash| !matches!(end_in(&crash.heir).0.as_str(), "" | "none");
                self.find(verdict, what, &end.id, end.at_ms, against);
            }
        }
    }

    /// No attempt runs twice, nor goes on twice after a wait, and what an execution gave back comes
    /// from a run of the attempt that its record says ended it.
    fn judge_runs(&self, verdict: &mut Verdict) {
        let mut begun = BTreeMap::<(&str, u32, bool), &Run>::new();
        let mut results = BTreeMap::<&str, &Run>::new();
        for run in self.runs {
            results.insert(&run.result, run);
            let place = (run.execution.as_str(), run.attempt, run.resumed);
            if let Some(first) = begun.insert(place, run) {
                let again = if run.resumed { "went on" } else { "began" };
                let what = format!(
                    "attempt {} of {} {again} at {} and again at {}",
                    run.attempt, run.execution, first.at_ms, run.at_ms
                );
                let (earlier, later) =
                    if first.at_ms < run.at_ms { (first, run) } else { (run, first) };
                match run.execution.parse() {
                    Ok(id) => self.find(verdict, what, &id, earlier.at_ms, |crash| {
                        knows(&crash.heir, &id, earlier) || crash.spoke_at(later.at_ms)
                    }),
                    Err(_) => verdict.faults.push(what),
                }
            }
        }
        for id in self.told.accepted.keys() {
            if field(self.snapshot, id, "terminal_outcome") != "success" {
                continue;
            }
            let result = String::from_utf8_lossy(&result(self.snapshot, id)).into_owned();
            let Some(run) = results.get(result.as_str()).filter(|run| run.execution == id.as_str())
            else {
                verdict.faults.push(format!("{id} gave back `{result}`, which no run of it made"));
                continue;
            };
            let ended_by = field(self.snapshot, id, "current_attempt_index");
            if ended_by != run.attempt.to_string() {
                let attempt = run.attempt;
                verdict.faults.push(format!(
                    "{id} was ended by attempt {ended_by} and gave back what attempt {attempt} made"
                ));
            }
        }
    }

    /// Nothing runs on behind its success, and what ran is there, whether or not its caller was
    /// told of it.
    fn judge_attempts(&self, verdict: &mut Verdict) {
        // When it first ran, and its last attempt.
        let mut ran = BTreeMap::<ExecutionId, (u64, u32)>::new();
        for run in self.runs {
            let Ok(id) = run.execution.parse() else { continue };
            let (first_ms, last) = ran.entry(id).or_insert((run.at_ms, run.attempt));
            (*first_ms, *last) = ((*first_ms).min(run.at_ms), (*last).max(run.attempt));
        }
        for (id, (first_ms, last)) in ran {
            if self.snapshot.execution(&id).is_none() && !self.told.accepted.contains_key(&id) {
                let what = format!("{id} ran and is lost");
                let against = |crash: &Crash| crash.heir.execution(&id).is_some();
                self.find(verdict, what, &id, first_ms, against);
            }
            let ended = |attempt: u32, state: &str| {
                let key = Key::execution(&id).attempt(AttemptIndex(attempt));
                let record = self.snapshot.hash(&key);
                record.is_some_and(|record| record.text("attempt_state") == state)
            };
            if let Some(attempt) = (0..last).find(|attempt| ended(*attempt, SUCCEEDED)) {
                let what = format!("attempt {attempt} of {id} succeeded, and yet {last} ran");
                verdict.faults.push(what);
            }
            match self.told.accepted.get(&id).map(|accepted| accepted.outcomes) {
                Some([TerminalOutcome::Skipped]) => {
                    verdict.faults.push(format!("{id} ran, although it could only be skipped"));
                }
                // Who fails for good is not tried again.
                Some([TerminalOutcome::Failed]) => {
                    let failed = (0..last).find(|attempt| ended(*attempt, FAILED));
                    verdict.faults.extend(failed.map(|attempt| {
                        format!("attempt {attempt} of {id} failed for good, and yet {last} ran")
                    }));
                }
                Some(_) | None => {}
            }
        }
    }

    /// A fault, unless it is the loss of a server that died: then what was told of the execution
    /// was in its slots, and nothing speaks against it, such as that its heir has got it.
    fn find(
        &self,
        verdict: &mut Verdict,
        what: String,
        id: &ExecutionId,
        told_at_ms: u64,
        against: impl Fn(&Crash) -> bool,
    ) {
        match self.crashes.iter().find(|crash| crash.took(id, told_at_ms, &against)) {
            Some(crash) => verdict.excused.push(format!("{what}; server {} had it", crash.server)),
            None => verdict.faults.push(what),
        }
    }
}

fn field(snapshot: &Snapshot, id: &ExecutionId, name: &str) -> String {
    snapshot.execution(id).map(|record| record.core.text(name).to_owned()).unwrap_or_default()
}

fn result(snapshot: &Snapshot, id: &ExecutionId) -> Vec<u8> {
    snapshot.text(&Key::execution(id).result()).unwrap_or_default().to_vec()
}

/// The state of an attempt whose completion was taken.
const SUCCEEDED: &str = "ended_success";

/// How the record of an attempt says that it failed.
const FAILED: &str = "ended_failure";

/// Whether a store knows of a run: that its attempt began, or went on after a wait.
fn knows(snapshot: &Snapshot, id: &ExecutionId, run: &Run) -> bool {
    let attempt = Key::execution(id).attempt(AttemptIndex(run.attempt));
    let record = snapshot.hash(&attempt);
    record.is_some_and(|record| !run.resumed || !record.text("resumed_at").is_empty())
}

#[cfg(test)]
mod tests {
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

    fn told() -> Told {
        let accepted = Accepted { at_ms: TOLD_AT_MS, outcomes: &[TerminalOutcome::Success] };
        let outcome = TerminalOutcome::Success;
        let end = Ended { at_ms: TOLD_AT_MS, id: id(), outcome, result: b"result".to_vec() };
        Told { accepted: [(id(), accepted)].into(), ended: vec![end], ..Told::default() }
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
        snapshot.put(
            Key::execution(&id()).core().to_string().as_bytes(),
            put(Stored::Hash(fields.into())),
        );
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
    fn judge(snapshot: &Snapshot, runs: &[Run], crashes: &[Crash]) -> Verdict {
        let mut verdict = Evidence { snapshot, told: &told(), runs, crashes }.judge();
        verdict.faults.retain(|fault| !fault.starts_with("fsck"));
        verdict
    }

    #[test]
    fn it_finds_what_is_lost_changed_doubled_or_made_up() {
        let once = [run(1, 0, "result")];
        let found =
            |snapshot: &Snapshot, runs: &[Run]| judge(snapshot, runs, &[]).faults.join("\n");
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
    fn it_finds_what_ran_behind_a_success_and_what_only_a_worker_knew_of() {
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

        let nobody = Told { unanswered: 1, ..Told::default() };
        let nothing = Snapshot::new(ServerTime(0));
        let runs = [run(TOLD_AT_MS, 0, "result")];
        let unheard = |crashes: &[Crash]| {
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
    fn it_finds_callers_who_were_told_what_is_not_so() {
        let snapshot = ended("success", "result");
        let runs = [run(1, 0, "result")];
        let found = |told: &Told, crashes: &[Crash]| {
            let mut verdict = Evidence { snapshot: &snapshot, told, runs: &runs, crashes }.judge();
            verdict.faults.retain(|fault| !fault.starts_with("fsck"));
            (verdict.faults.join("\n"), verdict.excused.len())
        };
        let denied_at = |at_ms| Told { denied: vec![(id(), at_ms)], ..told() };
        let denied = denied_at(TAKEN_OVER_AT_MS);
        let (faults, excused) = found(&denied, &[]);
        assert!(faults.contains("told that it is not there") && excused == 0, "{faults}");
        let lost = || crash(0..=u16::MAX, Snapshot::new(ServerTime(0)));
        assert_eq!(found(&denied, &[lost()]), (String::new(), 1));
        // The server that accepted it was still there, and said so itself.
        let (faults, excused) = found(&denied_at(TAKEN_OVER_AT_MS - 1), &[lost()]);
        assert!(faults.contains("told that it is not there") && excused == 0, "{faults}");
        let refused = Told { refused: vec!["submit was told: no".to_owned()], ..told() };
        assert_eq!(found(&refused, &[]), ("submit was told: no".to_owned(), 0));
    }

    /// A server that held these slots, and died just after it had told the caller.
    fn crash(slots: std::ops::RangeInclusive<u16>, heir: Snapshot) -> Crash {
        let (heard_until_ms, taken_over_at_ms) = (TOLD_AT_MS - 20, TAKEN_OVER_AT_MS);
        Crash { server: 4, slots: vec![slots], heard_until_ms, taken_over_at_ms, heir }
    }

    #[test]
    fn a_loss_is_excused_by_the_server_that_had_it_and_by_no_other() {
        let nothing = || Snapshot::new(ServerTime(0));
        let runs = [run(1, 0, "result")];
        let slot = id().partition().slot();
        let here = || crash(slot..=slot, nothing());
        let mine = judge(&nothing(), &runs, &[here()]);
        assert_eq!((mine.faults.len(), mine.excused.len()), (0, 2), "{mine:?}");
        assert!(mine.excused.iter().all(|loss| loss.ends_with("server 4 had it")), "{mine:?}");
        let elsewhere = crash(slot + 1..=u16::MAX, nothing());
        let before = Crash { taken_over_at_ms: TOLD_AT_MS, ..here() };
        let after = Crash { heard_until_ms: TOLD_AT_MS + 1, ..here() };
        let saved = crash(slot..=slot, ended("success", "result"));
        for other in [elsewhere, before, after, saved] {
            let verdict = judge(&nothing(), &runs, std::slice::from_ref(&other));
            assert_eq!((verdict.faults.len(), verdict.excused.len()), (2, 0), "{other:?}");
        }
    }

    #[test]
    fn an_end_is_not_excused_where_the_heir_has_another_one() {
        let again = [run(1, 0, "result"), run(2, 0, "other")];
        let changed = ended("success", "other");
        for (heir, excused) in [(ended("none", ""), 1), (changed.clone(), 0)] {
            let verdict = judge(&changed, &again[1..], &[crash(0..=u16::MAX, heir)]);
            assert_eq!(verdict.excused.len(), excused, "{verdict:?}");
            let told = verdict.faults.iter().filter(|fault| fault.contains("said to have ended"));
            assert_eq!(told.count(), 1 - excused, "{verdict:?}");
        }
    }

    #[test]
    fn it_finds_what_must_not_run_and_what_nobody_submitted() {
        let found = |outcomes: &'static [TerminalOutcome], snapshot: &Snapshot, last: u32| {
            let accepted = Accepted { at_ms: TOLD_AT_MS, outcomes };
            let told = Told { accepted: [(id(), accepted)].into(), ..Told::default() };
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
        let nobody = Told::default();
        let one = ended("success", "result");
        let strange = Evidence { snapshot: &one, told: &nobody, runs: &[], crashes: &[] }.judge();
        assert!(strange.faults.join("\n").contains("is nobody's"), "{strange:?}");
    }

    #[test]
    fn a_second_run_is_excused_where_the_heir_never_heard_of_the_first() {
        let end = ended("success", "again");
        let resumed = |at_ms, result| Run { resumed: true, ..run(at_ms, 0, result) };
        let attempt = |fields: &[(&str, &str)]| {
            let mut heir = ended("none", "");
            let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
            let key = Key::execution(&id()).attempt(AttemptIndex(0)).to_string();
            let stored = Stored::Hash(fields.collect());
            heir.put(key.as_bytes(), Some(Entry { stored, expires_at: None }));
            heir
        };
        let began = || attempt(&[("attempt_state", "started")]);
        let went_on = || attempt(&[("attempt_state", "started"), ("resumed_at", "1")]);
        let first = [run(TOLD_AT_MS, 0, "result"), run(TAKEN_OVER_AT_MS, 0, "again")];
        let second = [resumed(TOLD_AT_MS, "result"), resumed(TAKEN_OVER_AT_MS, "again")];
        let at_once = [run(TOLD_AT_MS, 0, "result"), run(TOLD_AT_MS + 5, 0, "again")];
        for (runs, heir, doubled) in [
            (&at_once, ended("none", ""), 1),
            (&first, ended("none", ""), 0),
            (&first, began(), 1),
            (&second, began(), 0),
            (&second, went_on(), 1),
        ] {
            let verdict = judge(&end, runs, &[crash(0..=u16::MAX, heir)]);
            let told = verdict.faults.iter().filter(|fault| fault.contains("again at")).count();
            assert_eq!(told, doubled, "{verdict:?}");
        }
    }
}
