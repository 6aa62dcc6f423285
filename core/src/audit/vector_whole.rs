//! `VectorWhole`: all seven state fields are set and form a row of the transition table.

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::state::{StateVector, table};

pub(super) const ORACLE: Oracle = Oracle {
    name: "VectorWhole",
    statement: "all seven state fields are set and form a row of the transition table",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(execution) = subject.execution_in(snapshot) else { return };
    match execution.vector() {
        Ok(vector) => findings.expect(table::is_legal(&vector), execution.id, || {
            let fields = StateVector::FIELDS
                .map(|name| alloc::format!("{name} {}", execution.core.text(name)));
            alloc::format!("no transition leads to this state: {}", fields.join(", "))
        }),
        Err(unknown) => findings.add(execution.id, alloc::format!("{unknown}")),
    }
}
