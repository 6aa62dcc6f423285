//! Explains executions that have ended.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::reads::{edges_of, upstream_of};
use super::{DueBy, Explainer, LostCause, Reason, UnblockedBy};
use crate::audit::Fields;
use crate::engine::ScannerName;
use crate::key::Key;
use crate::state::{StateVector, TerminalOutcome};

impl Explainer<'_> {
    pub(super) fn ended(&mut self, vector: StateVector) -> String {
        let core = self.execution.core;
        let trimmer = UnblockedBy::Scanner(ScannerName::RetentionTrimmer);
        self.limit(Reason::Retention, "the end of its retention", trimmer, DueBy::Unknown);
        self.skipped_for = self.lost_causes();
        let recorded = end_reason(&core);
        let reason = if vector.outcome == TerminalOutcome::Success {
            String::new()
        } else if let Some(lost) = recorded.strip_prefix("upstream_lost:") {
            format!(": it needed {lost}, whose record was deleted too early")
        } else if !self.skipped_for.is_empty() {
            let told: Vec<String> = self.skipped_for.iter().map(LostCause::told).collect();
            format!(": it needed {}", told.join("; and "))
        } else if recorded.is_empty() {
            String::new()
        } else {
            format!(": {recorded}")
        };
        format!("it {} at {}{reason}", told_outcome(vector.outcome), core.text("completed_at"))
    }

    /// The upstreams that failed the edges because of which it was skipped, as long as they have
    /// records.
    fn lost_causes(&self) -> Vec<LostCause> {
        let keys = Key::execution(self.execution.id);
        let lost = edges_of(self.snapshot, &self.execution).into_iter().filter(|edge| {
            let edge = self.snapshot.hash(&keys.dependency(*edge));
            edge.is_some_and(|edge| edge.text("state") == "impossible")
        });
        let upstreams = lost.filter_map(|edge| upstream_of(self.snapshot, self.execution.id, edge));
        let cause = |execution_id| {
            let record = self.snapshot.execution(&execution_id);
            let outcome =
                record.and_then(|record| record.vector().ok()).map(|vector| vector.outcome);
            let reason = record.map(|record| end_reason(&record.core)).unwrap_or_default();
            LostCause { outcome, reason: reason.to_owned(), execution_id }
        };
        upstreams.map(cause).collect()
    }
}

impl LostCause {
    fn told(&self) -> String {
        let id = &self.execution_id;
        match (self.outcome, self.reason.as_str()) {
            (None, _) => format!("{id}, whose record is gone"),
            (Some(TerminalOutcome::None | TerminalOutcome::Success), _) => {
                format!("{id}, which had not succeeded then and was replayed since")
            }
            (Some(outcome), "") => format!("{id}, which {}", told_outcome(outcome)),
            (Some(outcome), reason) => format!("{id}, which {}: {reason}", told_outcome(outcome)),
        }
    }
}

/// Why an execution ended, as its record says it.
fn end_reason<'a>(core: &Fields<'a>) -> &'a str {
    let reasons = [core.text("failure_reason"), core.text("cancellation_reason")];
    reasons.into_iter().find(|reason| !reason.is_empty()).unwrap_or_default()
}

/// How an execution ended, as the end of a sentence.
const fn told_outcome(outcome: TerminalOutcome) -> &'static str {
    match outcome {
        TerminalOutcome::None => "ended without an outcome",
        TerminalOutcome::Success => "succeeded",
        TerminalOutcome::Failed => "failed",
        TerminalOutcome::Cancelled => "was cancelled",
        TerminalOutcome::Expired => "timed out",
        TerminalOutcome::Skipped => "was skipped",
    }
}
