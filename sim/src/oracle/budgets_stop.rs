//! `BudgetsStop`

use std::collections::BTreeMap;

use selvedge_core::admission::{budget_ids, exhausted};
use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{BudgetPart, Key};

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "BudgetsStop",
    statement: "no execution starts that was created while a hard limit of its budget was used up \
                and still is",
    class: Class::Safety,
    checker: || Box::<BudgetsStop>::default(),
};

#[derive(Default)]
struct BudgetsStop {
    /// Since when hard limits are used up, by the key of the usage.
    used_up: BTreeMap<Key, u64>,
    created: BTreeMap<ExecutionId, u64>,
}

impl Checker for BudgetsStop {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        // Workers may have read what was lost.
        if matches!(event.kind, EventKind::CommitsLost { .. }) {
            self.used_up.clear();
            self.created.clear();
        }
        for change in &changes.executions {
            if change.was.is_none() {
                self.created.insert(change.of.clone(), event.at_ms);
            }
            if change.got_a_lease().is_some() {
                self.check(&change.of, view, findings);
            }
        }
        let EventKind::Applied(applied) = &event.kind else { return };
        if let Some(key @ Key::Budget(..)) = Call::of(applied).and_then(|call| call.key("usage")) {
            self.note(key, event.at_ms, view);
        }
    }
}

impl BudgetsStop {
    /// Notes whether a hard limit of this budget is used up.
    fn note(&mut self, key: Key, now_ms: u64, view: &View<'_>) {
        let Key::Budget(partition, id, BudgetPart::Usage) = key else { return };
        let snapshot = view.of(partition);
        let limits = texts(snapshot, &Key::budget(partition, id).limits());
        if exhausted(&limits, &texts(snapshot, &key)).is_some() {
            self.used_up.entry(key).or_insert(now_ms);
        } else {
            self.used_up.remove(&key);
        }
    }

    fn check(&self, id: &ExecutionId, view: &View<'_>, findings: &mut Findings) {
        let Some(created) = self.created.get(id) else { return };
        let execution = view.of(id.partition()).execution(id);
        let counts = crate::world::engines::partition_counts(view.config);
        for budget in budget_ids(execution.map_or("", |one| one.core.text("budget_ids"))) {
            let key = Key::budget(counts.of_budget(budget), budget).usage();
            if let Some(since) = self.used_up.get(&key).filter(|since| *since < created) {
                let what = format!("starts, though {budget} is used up since {since} ms");
                findings.add(view, id, what);
            }
        }
    }
}

fn texts(snapshot: &Snapshot, key: &Key) -> BTreeMap<String, String> {
    let fields = snapshot.hash(key);
    let text = |(name, value): (&str, &[u8])| {
        (name.to_owned(), String::from_utf8_lossy(value).into_owned())
    };
    fields.iter().flat_map(|fields| fields.iter()).map(text).collect()
}
