//! Budgets and quotas.

use selvedge_core::call::budget::{
    CreateBudget, Delta, DimensionLimits, ReconcileBudget, RecordSpend, ReleaseBudget,
    ReportUsageAndCheck, ResetBudget, ResetBudgetIfDue,
};
use selvedge_core::call::quota::{
    CheckAdmissionAndRecord, CreateQuotaPolicy, ReconcileQuota, ReleaseAdmission,
};
use selvedge_core::id::{BudgetId, QuotaPolicyId};
use selvedge_core::partition::Partition;

use crate::history::state::{HistoryState, execution};

const BUDGETS: Partition = Partition::budget(0);
const QUOTAS: Partition = Partition::quota(0);
const BUDGET: BudgetId = BudgetId::from_bytes([0xbb; 16]);
const QUOTA: QuotaPolicyId = QuotaPolicyId::from_bytes([0xcc; 16]);
const DIMENSIONS: [&str; 2] = ["tokens", "calls"];

impl HistoryState {
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

    pub(in crate::history) fn report_usage(&mut self, amount: u8, choice: u8) {
        let (deltas, now) = (deltas(amount), self.now());
        self.call(&ReportUsageAndCheck {
            partition: BUDGETS,
            budget_id: BUDGET,
            deltas,
            now,
            dedup_id: (choice.is_multiple_of(3)).then(|| format!("report-{amount}")),
        });
    }

    pub(in crate::history) fn record_spend(&mut self, slot: u8, amount: u8, choice: u8) {
        let (deltas, now, id) = (deltas(amount), self.now(), execution(slot));
        self.call(&RecordSpend {
            partition: BUDGETS,
            budget_id: BUDGET,
            execution_id: id,
            deltas,
            now,
            dedup_id: (choice.is_multiple_of(3)).then(|| format!("spend-{amount}")),
        });
    }

    pub(in crate::history) fn release_budget(&mut self, slot: u8) {
        let id = execution(slot);
        let call = ReleaseBudget { partition: BUDGETS, budget_id: BUDGET, execution_id: id };
        self.call(&call);
    }

    pub(in crate::history) fn reset_budget(&mut self, choice: u8) {
        let now = self.now();
        if choice.is_multiple_of(3) {
            self.call(&ResetBudget { partition: BUDGETS, budget_id: BUDGET, now });
        } else {
            self.call(&ResetBudgetIfDue { partition: BUDGETS, budget_id: BUDGET });
        }
    }

    pub(in crate::history) fn reconcile_budget(&mut self) {
        self.call(&ReconcileBudget {
            partition: BUDGETS,
            budget_id: BUDGET,
            cursor: 0,
            count: 100,
        });
    }

    pub(in crate::history) fn admit(&mut self, slot: u8) {
        let (id, now) = (execution(slot), self.now());
        self.call(&CheckAdmissionAndRecord {
            partition: QUOTAS,
            quota_policy_id: QUOTA,
            execution_id: id,
            now,
            window_seconds: 5,
            rate_limit: 4,
            concurrency_cap: 3,
            jitter_ms: 0,
        });
    }

    pub(in crate::history) fn release_admission(&mut self, slot: u8) {
        let id = execution(slot);
        let call = ReleaseAdmission { partition: QUOTAS, quota_policy_id: QUOTA, execution_id: id };
        self.call(&call);
    }

    pub(in crate::history) fn reconcile_quota(&mut self) {
        self.call(&ReconcileQuota {
            partition: QUOTAS,
            quota_policy_id: QUOTA,
            cursor: 0,
            count: 10,
        });
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
