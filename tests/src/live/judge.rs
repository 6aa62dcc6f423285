//! The judge: what the keyspace says at the end, against what everybody was told.

use std::collections::BTreeMap;

use selvedge_core::audit::{self, Snapshot};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;

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
    /// When a server died whose replica may not have heard the last of it.
    pub crashes_ms: &'a [u64],
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

    /// No attempt runs twice, and what an execution gave back comes from one of its runs.
    fn judge_runs(&self, verdict: &mut Verdict) {
        let mut begun = BTreeMap::<(&str, u32), &Run>::new();
        let mut results = BTreeMap::<&str, &str>::new();
        for run in self.runs {
            results.insert(&run.result, &run.execution);
            if run.resumed {
                continue;
            }
            if let Some(first) = begun.insert((&run.execution, run.attempt), run) {
                let what = format!(
                    "attempt {} of {} began at {} and again at {}",
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
            if results.get(result.as_str()).copied() != Some(id.as_str()) {
                verdict.faults.push(format!("{id} gave back `{result}`, which no run of it made"));
            }
        }
    }

    fn find(&self, verdict: &mut Verdict, what: String, told_at_ms: u64, may_be_excused: bool) {
        let lost_with_a_server = self.crashes_ms.iter().any(|crash| {
            (crash.saturating_sub(UNHEARD_MS)..*crash + UNHEARD_MS).contains(&told_at_ms)
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

/// Longer than a replica on loopback can lag behind, a busy machine included.
const UNHEARD_MS: u64 = 2_000;
