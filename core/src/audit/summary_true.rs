//! `SummaryTrue`: a flow's summary equals the fold over all its members; one that was purged since
//! is counted as it ended.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::partition::Partition;
use crate::state::PublicState;

pub(super) const ORACLE: Oracle = Oracle {
    name: "SummaryTrue",
    statement: "a flow's summary equals the fold over all its members; one that was purged \
                since is counted as it ended",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Subject::Flow(partition, id) = subject else { return };
    let flow = Key::flow(*partition, *id);
    let purging = |summary: super::Fields<'_>| !summary.text("purge").is_empty();
    let summary = snapshot.hash(&flow.summary());
    if !snapshot.holds(&flow.core()) || summary.is_some_and(purging) {
        return;
    }
    let Some(fold) = fold(snapshot, *partition, *id) else { return };
    let total: i64 = fold.values().sum();
    let told = |field: &str| summary.map(|summary| summary.number(field)).unwrap_or_default();
    findings.expect(told("total_members") == total, id, || {
        format!("counts {} members, has {total}", told("total_members"))
    });
    // A finished flow is not counted again, so that it still tells how its members ended when the
    // first of them are purged. The total leaves no room for anything but those.
    let gone = fold.get("gone").copied().unwrap_or_default();
    for (state, expected) in fold {
        let found = told(&format!("members_{state}"));
        let purged = if is_end(&state) { gone } else { 0 };
        let fits = match state.as_str() {
            "gone" => found <= expected,
            _ => (expected..=expected + purged).contains(&found),
        };
        findings.expect(fits, id, || {
            format!("counts {found} members that are {state}, has {expected}")
        });
    }
    let counted: i64 = states().map(|state| told(&format!("members_{state}"))).sum();
    findings.expect(counted == total, id, || {
        format!("its counts by state add up to {counted}, it has {total} members")
    });
}

/// The public states that a summary counts, and `gone`.
fn states() -> impl Iterator<Item = &'static str> {
    let counted = PublicState::ALL.iter().filter(|state| **state != PublicState::Resumable);
    counted.map(|state| state.as_str()).chain(["gone"])
}

fn is_end(state: &str) -> bool {
    matches!(state, "completed" | "failed" | "cancelled" | "expired" | "skipped")
}

/// How many members are in each public state; none while one of them has just moved.
fn fold(snapshot: &Snapshot, partition: Partition, id: FlowId) -> Option<BTreeMap<String, i64>> {
    let mut fold: BTreeMap<String, i64> = states().map(|state| (state.into(), 0)).collect();
    for member in snapshot.set(&Key::flow(partition, id).members()) {
        let core = member
            .parse::<ExecutionId>()
            .ok()
            .and_then(|member| snapshot.hash(&Key::execution(&member).core()));
        let state = match core {
            None => "gone",
            Some(core) if !snapshot.is_overdue(core.number("last_mutation_at")) => return None,
            Some(core) => core.text("public_state"),
        };
        *fold.entry(state.into()).or_default() += 1;
    }
    Some(fold)
}
