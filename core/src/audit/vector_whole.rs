//! `VectorWhole`

use super::{Findings, Oracle, Snapshot};
use crate::state::table;

pub(super) const ORACLE: Oracle = Oracle {
    name: "VectorWhole",
    statement: "all seven state fields are set and form a row of the transition table",
    look,
};

fn look(snapshot: &Snapshot, findings: &mut Findings) {
    for execution in snapshot.executions() {
        match execution.vector() {
            Ok(vector) => findings.expect(table::is_legal(&vector), execution.id, || {
                alloc::format!("no transition leads to {vector:?}")
            }),
            Err(unknown) => findings.add(execution.id, alloc::format!("{unknown}")),
        }
    }
}
