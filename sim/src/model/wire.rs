//! How records and replies on the wire are read as statuses and replies of the model.

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;

use super::{End, Operation, Reply, Status};
use crate::oracle::call::Answer;

impl Status {
    /// The status of an execution in the keyspace.
    #[must_use]
    pub fn of(snapshot: &Snapshot, id: &ExecutionId) -> Self {
        let Some(execution) = snapshot.execution(id) else { return Self::Absent };
        match execution.vector().map(|vector| vector.outcome) {
            Ok(TerminalOutcome::None) | Err(_) => Self::Live,
            Ok(TerminalOutcome::Success) => Self::Ended(End::Success),
            Ok(TerminalOutcome::Failed) => Self::Ended(End::Failed),
            Ok(TerminalOutcome::Cancelled) => Self::Ended(End::Cancelled),
            Ok(TerminalOutcome::Expired) => Self::Ended(End::Expired),
            Ok(TerminalOutcome::Skipped) => Self::Ended(End::Skipped),
            Ok(_) => Self::Live,
        }
    }
}

impl Reply {
    /// The reply of the model for an answer; none if the answer does not say whether anything was
    /// done.
    #[must_use]
    pub fn read(answer: &Answer, operation: Operation) -> Option<Self> {
        Some(match answer {
            Answer::Done(words) => match words.first().map(String::as_str) {
                Some("DUPLICATE") => Self::Already,
                Some("terminal_failed") => Self::DoneForGood,
                _ if operation == Operation::Fail && answer.says("terminal_failed") => {
                    Self::DoneForGood
                }
                _ => Self::Done,
            },
            Answer::Refused(code) => match code.as_str() {
                "execution_not_found" => Self::NoSuch,
                "execution_not_active" | "execution_already_terminal"
                    if operation == Operation::Cancel =>
                {
                    Self::HasEnded
                }
                "execution_not_terminal" => Self::HasNotEnded,
                _ => Self::Refused,
            },
            Answer::Raised(_) | Answer::Plain => return None,
        })
    }
}
