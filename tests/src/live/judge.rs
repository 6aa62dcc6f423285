//! The judge: compares the keyspace at the end with everything that callers were told.

use std::collections::BTreeMap;

use selvedge::client::TerminalOutcome;
use selvedge_core::audit::{self, Snapshot};
use selvedge_core::id::{AttemptIndex, ExecutionId};
use selvedge_core::key::Key;

use super::handler_runs::Run;
use super::load::{Accepted, CallerRecord};
use super::primary_crash::PrimaryCrash;
use super::process_main::TIMED_OUT;

/// Everything that is known at the end.
pub struct Evidence<'a> {
    /// The keyspace.
    pub snapshot: &'a Snapshot,
    /// What callers were told.
    pub told: &'a CallerRecord,
    /// What handlers did.
    pub runs: &'a [Run],
    /// Primaries that died with writes that their replicas had not received.
    pub crashes: &'a [PrimaryCrash],
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
        self.judge_signals(&mut verdict);
        self.judge_limits(&mut verdict);
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
        let against =
            |crash: &PrimaryCrash| !outcome.is_empty() || crash.promoted.execution(id).is_some();
        self.find(verdict, what, id, accepted.at_ms, against);
    }

    /// Every execution has ended, even if its caller got no reply; and if every caller got a reply,
    /// there are no other executions.
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

    /// No caller was told that an accepted execution does not exist, and no legal call was refused.
    fn judge_denials(&self, verdict: &mut Verdict) {
        verdict.faults.extend(self.told.refused.iter().cloned());
        for (id, denied_at_ms) in &self.told.denied {
            let what = format!("{id} was accepted, and a caller was told that it is not there");
            let at_ms = self.told.accepted.get(id).map_or(0, |accepted| accepted.at_ms);
            self.find(verdict, what, id, at_ms, |crash| {
                crash.promoted.execution(id).is_some() || crash.spoke_at(*denied_at_ms)
            });
        }
    }

    /// An end that was reported to a caller stays the end.
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
                // A replica with any end has received the reported one.
                let against = |crash: &PrimaryCrash| {
                    !matches!(end_in(&crash.promoted).0.as_str(), "" | "none")
                };
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
                        knows(&crash.promoted, &id, earlier) || crash.spoke_at(later.at_ms)
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
                let against = |crash: &PrimaryCrash| crash.promoted.execution(&id).is_some();
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
                // A final failure is not retried.
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

    /// A signal that was accepted resumes its execution, which sees it.
    fn judge_signals(&self, verdict: &mut Verdict) {
        for run in self.runs.iter().filter(|run| run.result.starts_with(TIMED_OUT)) {
            let Ok(id) = run.execution.parse::<ExecutionId>() else { continue };
            if let Some(&at_ms) = self.told.signalled.get(&id).filter(|at_ms| **at_ms < run.at_ms) {
                let what = format!("{id} accepted its signal, and went on without it");
                self.find(verdict, what, &id, at_ms, |_| false);
            }
        }
    }

    /// A limit that was created is there, unless a primary died: where it was is not recorded.
    fn judge_limits(&self, verdict: &mut Verdict) {
        let denied = self.told.limits_denied.iter();
        let told = denied.map(|limit| format!("{limit} was created, and is not there"));
        if self.crashes.is_empty() {
            verdict.faults.extend(told);
        } else {
            verdict.excused.extend(told);
        }
    }

    /// Adds a fault, unless a primary that died explains it: it held the execution, and there is no
    /// evidence to the contrary, such as that the promoted replica has it.
    fn find(
        &self,
        verdict: &mut Verdict,
        what: String,
        id: &ExecutionId,
        told_at_ms: u64,
        against: impl Fn(&PrimaryCrash) -> bool,
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
mod tests;
