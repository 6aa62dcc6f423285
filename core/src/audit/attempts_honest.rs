//! `AttemptsHonest`: attempt indexes are dense, and only an attempt that runs or can go on is open.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Execution, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::AttemptIndex;
use crate::key::Key;
use crate::state::AttemptState;

pub(super) const ORACLE: Oracle = Oracle {
    name: "AttemptsHonest",
    statement: "attempt indexes are dense, and only an attempt that runs or can go on is open",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    // A purge takes the attempts first and the record last.
    if let Some(execution) = subject.execution_in(snapshot)
        && !execution.is_being_purged()
    {
        attempts_of(snapshot, &execution, findings);
    }
}

fn attempts_of(snapshot: &Snapshot, execution: &Execution<'_>, findings: &mut Findings) {
    let keys = Key::execution(execution.id);
    let total = u32::try_from(execution.core.number("total_attempt_count")).unwrap_or_default();
    let mut listed: Vec<u32> =
        snapshot.zset(&keys.attempts()).keys().filter_map(|index| index.parse().ok()).collect();
    listed.sort_unstable();
    findings.expect(listed.iter().copied().eq(0..total), execution.id, || {
        format!("lists the attempts {}, but counts {total}", enumerate(&listed))
    });
    let mut open = Vec::new();
    for index in 0..total {
        match snapshot.hash(&keys.attempt(AttemptIndex(index))) {
            None => findings.add(execution.id, format!("attempt {index} has no record")),
            Some(record) if matches!(record.text("attempt_state"), "started" | "suspended") => {
                open.push(index.to_string());
            }
            Some(_) => {}
        }
    }
    let Ok(vector) = execution.vector() else { return };
    let goes_on =
        matches!(vector.attempt, AttemptState::RunningAttempt | AttemptState::AttemptInterrupted);
    let expected: Vec<String> = if goes_on {
        alloc::vec![execution.core.text("current_attempt_index").to_string()]
    } else {
        Vec::new()
    };
    findings.expect(open == expected, execution.id, || {
        format!("open attempts: {}; should be: {}", enumerate(&open), enumerate(&expected))
    });
}

fn enumerate(items: &[impl ToString]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    if texts.is_empty() { String::from("none") } else { texts.join(", ") }
}
