//! Budgets and quotas, with the test's own books beside them.

use selvedge_core::call::budget::{
    CreateBudget, Delta, DimensionLimits, DueReset, ReconcileBudget, RecordSpend, ReleaseBudget,
    ReportUsageAndCheck, ResetBudget, ResetBudgetIfDue, UsageVerdict,
};
use selvedge_core::call::quota::{
    Admission, CheckAdmissionAndRecord, CreateQuotaPolicy, ReconcileQuota, ReleaseAdmission,
};
use selvedge_core::id::{BudgetId, ExecutionId, QuotaPolicyId};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;

use crate::history::world::{World, execution};

const BUDGETS: Partition = Partition::budget(0);
const QUOTAS: Partition = Partition::quota(0);
const BUDGET: BudgetId = BudgetId::from_bytes([0xbb; 16]);
const QUOTA: QuotaPolicyId = QuotaPolicyId::from_bytes([0xcc; 16]);
const DIMENSIONS: [&str; 2] = ["tokens", "calls"];

impl World {
    /// One budget and one quota for all.
    pub(in crate::history) fn open_accounts(&mut self) {
        let now = self.now();
        let limits = DIMENSIONS.map(|dimension| DimensionLimits {
            dimension: dimension.into(),
            hard: 40,
            soft: 25,
        });
        self.call(&CreateBudget {
            partition: BUDGETS,
            budget_id: BUDGET,
            scope_type: "tenant".into(),
            scope_id: "t".into(),
            enforcement_mode: "strict".into(),
            on_hard_limit: "reject".into(),
            on_soft_limit: "warn".into(),
            reset_interval_ms: 60_000,
            now,
            limits: limits.to_vec(),
        });
        self.call(&CreateQuotaPolicy {
            partition: QUOTAS,
            quota_policy_id: QUOTA,
            window_seconds: 5,
            max_requests_per_window: 4,
            max_concurrent: 3,
            now,
        });
    }

    fn balance(&mut self) {
        let usage = Key::budget(BUDGETS, BUDGET).usage();
        let admitted = Key::quota(QUOTAS, QUOTA).admitted_set();
        for finding in self.ledger.judge(self.snapshot(), &usage, &admitted) {
            self.find(finding);
        }
    }

    fn book(&mut self, verdict: Option<UsageVerdict>, by: Option<&ExecutionId>, deltas: &[Delta]) {
        if let Some(UsageVerdict::Added | UsageVerdict::SoftBreach(_)) = verdict {
            for entry in deltas {
                self.ledger.add(by, &entry.dimension, entry.delta);
            }
        }
        self.balance();
    }

    pub(in crate::history) fn report_usage(&mut self, amount: u8, choice: u8) {
        let (deltas, now) = (deltas(amount), self.now());
        let verdict = self.call(&ReportUsageAndCheck {
            partition: BUDGETS,
            budget_id: BUDGET,
            deltas: deltas.clone(),
            now,
            dedup_id: (choice.is_multiple_of(3)).then(|| format!("report-{amount}")),
        });
        self.book(verdict, None, &deltas);
    }

    pub(in crate::history) fn record_spend(&mut self, slot: u8, amount: u8, choice: u8) {
        let (deltas, now, id) = (deltas(amount), self.now(), execution(slot));
        let verdict = self.call(&RecordSpend {
            partition: BUDGETS,
            budget_id: BUDGET,
            execution_id: id.clone(),
            deltas: deltas.clone(),
            now,
            dedup_id: (choice.is_multiple_of(3)).then(|| format!("spend-{amount}")),
        });
        self.book(verdict, Some(&id), &deltas);
    }

    pub(in crate::history) fn release_budget(&mut self, slot: u8) {
        let id = execution(slot);
        let call =
            ReleaseBudget { partition: BUDGETS, budget_id: BUDGET, execution_id: id.clone() };
        if self.call(&call).is_some() {
            self.ledger.give_back(&id);
        }
        self.balance();
    }

    pub(in crate::history) fn reset_budget(&mut self, choice: u8) {
        let now = self.now();
        let reset = if choice.is_multiple_of(3) {
            self.call(&ResetBudget { partition: BUDGETS, budget_id: BUDGET, now }).is_some()
        } else {
            let call = ResetBudgetIfDue { partition: BUDGETS, budget_id: BUDGET };
            matches!(self.call(&call), Some(DueReset::Reset(_)))
        };
        if reset {
            self.ledger.reset();
        }
        self.balance();
    }

    pub(in crate::history) fn reconcile_budget(&mut self) {
        self.call(&ReconcileBudget { partition: BUDGETS, budget_id: BUDGET });
        self.balance();
    }

    pub(in crate::history) fn admit(&mut self, slot: u8) {
        let (id, now) = (execution(slot), self.now());
        let admission = self.call(&CheckAdmissionAndRecord {
            partition: QUOTAS,
            quota_policy_id: QUOTA,
            execution_id: id.clone(),
            now,
            window_seconds: 5,
            rate_limit: 4,
            concurrency_cap: 3,
            jitter_ms: 0,
        });
        if admission == Some(Admission::Admitted) {
            self.ledger.admit(&id);
        }
        self.balance();
    }

    pub(in crate::history) fn release_admission(&mut self, slot: u8) {
        let id = execution(slot);
        let call = ReleaseAdmission {
            partition: QUOTAS,
            quota_policy_id: QUOTA,
            execution_id: id.clone(),
        };
        if self.call(&call).is_some() {
            self.ledger.dismiss(&id);
        }
        self.balance();
    }

    pub(in crate::history) fn reconcile_quota(&mut self) {
        self.call(&ReconcileQuota {
            partition: QUOTAS,
            quota_policy_id: QUOTA,
            cursor: 0,
            count: 10,
        });
        self.balance();
    }
}

fn deltas(amount: u8) -> Vec<Delta> {
    let delta = |dimension: &str, delta| Delta { dimension: dimension.into(), delta };
    let mut deltas = vec![delta(DIMENSIONS[0], i64::from(amount) + 1)];
    if amount.is_multiple_of(2) {
        deltas.push(delta(DIMENSIONS[1], 3));
    }
    deltas
}
