//! Explains which budgets and quotas hold an execution back, by the rules of [`admission`].
//!
//! [`admission`]: crate::admission

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::reads::budgets;
use super::{DueBy, Explainer, FullLimit, Reason, UnblockedBy, whole};
use crate::admission::{QuotaTerms, exhausted};
use crate::audit::Fields;
use crate::call::quota::ADMISSION_DIMENSION;
use crate::engine::ScannerName;
use crate::id::{BudgetId, QuotaPolicyId};
use crate::key::Key;
use crate::state::{EligibilityState, StateVector};
use crate::time::ServerTime;

impl Explainer<'_> {
    /// Blocked by a budget, a quota or missing capabilities: one scanner releases all three.
    pub(super) fn blocked_by_admission(&mut self, vector: StateVector) -> String {
        let before = self.waits.len();
        match vector.eligibility {
            EligibilityState::BlockedByBudget => self.full_budgets(),
            EligibilityState::BlockedByQuota => self.full_quota(),
            EligibilityState::EligibleNow
            | EligibilityState::NotEligibleUntilTime
            | EligibilityState::BlockedByDependencies
            | EligibilityState::BlockedByRoute
            | EligibilityState::BlockedByLaneState
            | EligibilityState::BlockedByOperator
            | EligibilityState::NotApplicable => self.no_capable_worker(),
        }
        if self.waits.len() == before {
            self.wait_for_release(vector.eligibility);
        }
        format!("it is blocked ({})", vector.reason)
    }

    /// What would hold it back when a worker comes to it.
    pub(super) fn limits_at_claim(&mut self) {
        self.full_budgets();
        self.full_quota();
    }

    /// What held it is over.
    fn wait_for_release(&mut self, held_by: EligibilityState) {
        let core = self.execution.core;
        let (now, by) = match held_by {
            EligibilityState::BlockedByBudget => {
                ("its budgets have room again".to_owned(), self.within(ScannerName::Unblock))
            }
            EligibilityState::BlockedByQuota => {
                let id = core.text("quota_policy_id");
                // One free slot releases one: whoever was held first.
                let now = format!("quota {id} has room; those held first are released first");
                (now, DueBy::Unknown)
            }
            EligibilityState::EligibleNow
            | EligibilityState::NotEligibleUntilTime
            | EligibilityState::BlockedByDependencies
            | EligibilityState::BlockedByRoute
            | EligibilityState::BlockedByLaneState
            | EligibilityState::BlockedByOperator
            | EligibilityState::NotApplicable => {
                (self.supply().1, self.within(ScannerName::Unblock))
            }
        };
        let scanner = UnblockedBy::Scanner(ScannerName::Unblock);
        self.wait(Reason::Release, "to be released", scanner, by).now = now;
    }

    fn no_capable_worker(&mut self) {
        let (reason, now) = self.supply();
        if reason == Reason::NoWorker {
            let needs = self.execution.core.text("required_capabilities");
            let on = format!("a live worker that offers {needs}");
            let worker = UnblockedBy::Worker(self.whom_it_needs());
            self.wait(reason, on, worker, DueBy::Unknown).now = now;
        }
    }

    /// Waits for room in each of its budgets that has none.
    fn full_budgets(&mut self) {
        for id in budgets(&self.execution) {
            let keys = Key::budget(self.present.config.partitions.of_budget(id), id);
            let hash = |key: &Key| self.snapshot.hash(key).map(texts).unwrap_or_default();
            let (limits, usage) = (hash(&keys.limits()), hash(&keys.usage()));
            let Some(full) = exhausted(&limits, &usage) else { continue };
            let on = format!("room in budget {id}");
            let used = format!("{} of {} {} are used", full.used, full.limit, full.dimension);
            let reset = self.reset_of(id);
            let (now, unblocked_by, by) = match reset {
                Some(at) => (
                    format!("{used}; the next period begins at {at}"),
                    UnblockedBy::Scanner(ScannerName::BudgetReset),
                    self.after(
                        self.latest_visit(at, ScannerName::BudgetReset),
                        ScannerName::Unblock,
                    ),
                ),
                None => (
                    format!(
                        "{used}; it never resets by itself: `selvedge budget reset {id}` begins a \
                         new period"
                    ),
                    UnblockedBy::Operator,
                    DueBy::Unknown,
                ),
            };
            let limit = FullLimit {
                id: id.to_string(),
                dimension: full.dimension.to_owned(),
                used: full.used,
                limit: full.limit,
                frees_at: reset,
            };
            let wait = self.wait(Reason::Budget, on, unblocked_by, by);
            (wait.now, wait.limit) = (now, Some(limit));
        }
    }

    /// When the next period of a budget begins.
    fn reset_of(&self, id: BudgetId) -> Option<ServerTime> {
        let keys = Key::budget(self.present.config.partitions.of_budget(id), id);
        let record = self.snapshot.hash(&keys.record())?;
        let next = record.number("next_reset_at");
        (record.number("reset_interval_ms") > 0 && next > 0).then_some(ServerTime(next))
    }

    /// Waits for room in its quota: in the window, among those that run, or both.
    fn full_quota(&mut self) {
        let Ok(id) = self.execution.core.text("quota_policy_id").parse::<QuotaPolicyId>() else {
            return;
        };
        let keys = Key::quota(self.present.config.partitions.of_quota(id), id);
        let Some(record) = self.snapshot.hash(&keys.record()) else { return };
        let terms = terms_of(&record);
        let running = self.snapshot.text(&keys.concurrency());
        let running = running.and_then(|text| core::str::from_utf8(text).ok()?.parse().ok());
        let running: u64 = running.unwrap_or(0);
        // The start that has to leave the window before another one has room.
        let since = self.snapshot.now().0.saturating_sub(terms.window_ms());
        let window = self.snapshot.zset(&keys.window(ADMISSION_DIMENSION));
        let last = window.values().map(|score| whole(*score)).find(|at| *at > since);
        let started = if last.is_some() { terms.rate } else { 0 };
        let limit = |dimension: &str, used: u64, limit: u64, frees_at| FullLimit {
            id: id.to_string(),
            dimension: dimension.to_owned(),
            used: i64::try_from(used).unwrap_or(i64::MAX),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            frees_at,
        };
        let scanner = || UnblockedBy::Scanner(ScannerName::Unblock);
        if let Some(last) = last
            && terms.room(0, started) == 0
        {
            let frees_at = ServerTime(terms.frees_at(last));
            let (rate, seconds) = (terms.rate, terms.window_seconds);
            let now = format!(
                "{rate} of {rate} have started within the last {seconds} s; there is room at \
                 {frees_at}"
            );
            let full = limit("starts", started, rate, Some(frees_at));
            let on = format!("room in the window of quota {id}");
            let wait = self.wait(Reason::QuotaRate, on, scanner(), DueBy::Unknown);
            (wait.now, wait.limit) = (now, Some(full));
        }
        if terms.room(running, 0) == 0 {
            let cap = terms.concurrency_cap;
            let on = format!("one that runs under quota {id} to end");
            let full = limit("running", running, cap, None);
            let wait = self.wait(Reason::QuotaConcurrency, on, scanner(), DueBy::Unknown);
            wait.now = format!("{running} of {cap} run");
            wait.limit = Some(full);
        }
    }
}

/// What a stored quota admits.
pub(super) fn terms_of(record: &Fields<'_>) -> QuotaTerms {
    let field = |name: &&[u8]| core::str::from_utf8(name).map(|name| record.text(name).to_owned());
    let fields = QuotaTerms::FIELDS.iter().filter_map(|name| field(name).ok());
    QuotaTerms::read(&fields.collect::<alloc::vec::Vec<String>>())
}

fn texts(fields: Fields<'_>) -> BTreeMap<String, String> {
    let text = |(name, value): (&str, &[u8])| {
        (name.to_owned(), String::from_utf8_lossy(value).into_owned())
    };
    fields.iter().map(text).collect()
}
