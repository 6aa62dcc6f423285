//! The judge: what the keyspace says at the end, against what everybody was told.

use std::collections::BTreeMap;

use selvedge_core::audit::{self, Snapshot};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;

use super::load::{Accepted, Told};
use super::runs::Run;
use super::site::Crash;

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
    /// What would be a fault, had not a server died just then with what only it knew.
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
        self.judge_ends(&mut verdict);
        self.judge_runs(&mut verdict);
        verdict
    }

    /// What was accepted is there and has ended as it should.
    fn judge_accepted(&self, id: &ExecutionId, accepted: &Accepted, verdict: &mut Verdict) {
        let outcome = self.field(id, "terminal_outcome");
        if accepted.outcomes.iter().any(|allowed| *allowed.as_str() == *outcome) {
            return;
        }
        let what = match outcome.as_str() {
            "" => format!("{id} was accepted and is lost"),
            "none" => format!("{id} never ended: {}", self.field(id, "public_state")),
            other => format!("{id} ended as {other}"),
        };
        // Only what is gone can have died with a server.
        self.find(verdict, what, accepted.at_ms, outcome.is_empty());
    }

    /// An end that somebody was told stays the end.
    fn judge_ends(&self, verdict: &mut Verdict) {
        for end in &self.told.ended {
            let (outcome, result) = (self.field(&end.id, "terminal_outcome"), self.result(&end.id));
            if outcome != end.outcome.as_str() || result != end.result {
                let what = format!(
                    "{} was said to have ended as {} with {}, now it is {outcome} with {}",
                    end.id,
                    end.outcome,
                    end.result.escape_ascii(),
                    result.escape_ascii()
                );
                self.find(verdict, what, end.at_ms, true);
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
                self.find(verdict, what, run.at_ms.min(first.at_ms), true);
            }
        }
        for id in self.told.accepted.keys() {
            if self.field(id, "terminal_outcome") != "success" {
                continue;
            }
            let result = String::from_utf8_lossy(&self.result(id)).into_owned();
            let Some(run) = results.get(result.as_str()).filter(|run| run.execution == id.as_str())
            else {
                verdict.faults.push(format!("{id} gave back `{result}`, which no run of it made"));
                continue;
            };
            let ended_by = self.field(id, "current_attempt_index");
            if ended_by != run.attempt.to_string() {
                let attempt = run.attempt;
                verdict.faults.push(format!(
                    "{id} was ended by attempt {ended_by} and gave back what attempt {attempt} made"
                ));
            }
        }
    }

    fn find(&self, verdict: &mut Verdict, what: String, told_at_ms: u64, may_be_excused: bool) {
        let lost_with_a_server = self.crashes.iter().any(|crash| {
            (crash.heard_until_ms..=crash.dead_at_ms + NOTED_WITHIN_MS).contains(&told_at_ms)
        });
        if may_be_excused && lost_with_a_server {
            verdict.excused.push(what);
        } else {
            verdict.faults.push(what);
        }
    }

    fn field(&self, id: &ExecutionId, name: &str) -> String {
        self.snapshot
            .execution(id)
            .map(|record| record.core.text(name).to_owned())
            .unwrap_or_default()
    }

    fn result(&self, id: &ExecutionId) -> Vec<u8> {
        self.snapshot.text(&Key::execution(id).result()).unwrap_or_default().to_vec()
    }
}

/// How long after a reply its time is noted, on a busy machine.
const NOTED_WITHIN_MS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use selvedge::client::TerminalOutcome;
    use selvedge_core::audit::{Entry, Stored};
    use selvedge_core::time::ServerTime;

    use super::super::load::Ended;
    use super::*;

    const ID: &str = "{fp:0}:00000000-0000-4000-8000-000000000001";
    const TOLD_AT_MS: u64 = 100_000;

    fn id() -> ExecutionId {
        ID.parse().expect("an id")
    }

    fn told() -> Told {
        let accepted = Accepted { at_ms: TOLD_AT_MS, outcomes: &[TerminalOutcome::Success] };
        let outcome = TerminalOutcome::Success;
        let end = Ended { at_ms: TOLD_AT_MS, id: id(), outcome, result: b"result".to_vec() };
        Told { accepted: [(id(), accepted)].into(), ended: vec![end], unanswered: 0 }
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
    fn only_a_server_that_died_just_then_excuses_a_loss() {
        let (nothing, runs) = (Snapshot::new(ServerTime(0)), [run(1, 0, "result")]);
        let crash = |ms| Crash { heard_until_ms: ms, dead_at_ms: ms + 10 };
        let then = judge(&nothing, &runs, &[crash(TOLD_AT_MS - 20)]);
        assert_eq!((then.faults.len(), then.excused.len()), (0, 2), "{then:?}");
        for other_ms in [TOLD_AT_MS + 1, TOLD_AT_MS - 2 * NOTED_WITHIN_MS] {
            let other = judge(&nothing, &runs, &[crash(other_ms)]);
            assert_eq!((other.faults.len(), other.excused.len()), (2, 0), "{other:?}");
        }
    }
}
