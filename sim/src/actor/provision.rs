//! What a deployment has before any work: signing secrets, and a budget and a quota if the plan
//! uses them.

use selvedge_core::call::Function;
use selvedge_core::call::budget::{CreateBudget, DimensionLimits};
use selvedge_core::call::quota::CreateQuotaPolicy;
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;

use crate::event::Actor;
use crate::plan::{Action, Policy};
use crate::world::World;

/// The window of the shared quota, in seconds.
pub(crate) const WINDOW_S: u64 = 5;
/// Admissions in that window.
pub(crate) const RATE: u64 = 4;
/// Admissions at the same time.
pub(crate) const CONCURRENT: u64 = 3;

impl World {
    /// Writes signing secrets to all nodes, and creates the shared budget and quota if the plan
    /// uses them.
    pub(crate) fn provision(&mut self) {
        let partitions = u16::try_from(self.plan.config.flow_partitions.max(1)).unwrap_or(1);
        for index in 0..partitions {
            let partition = Partition::flow(index);
            let key = Key::WaitpointSecrets(partition).to_string();
            let secret = "00".repeat(32);
            let words = ["HSET", &key, "current_kid", "k1", "secret:k1", &secret];
            let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            self.command_by(Actor::World, partition, argv);
        }
        if self.wants_accounts() {
            self.open_accounts();
        }
    }

    /// Creates the shared budget and quota.
    pub(crate) fn open_accounts(&mut self) {
        let (budget_id, partition) = self.names.budget();
        let limits = vec![DimensionLimits { dimension: "tokens".to_owned(), hard: 20, soft: 12 }];
        let budget = CreateBudget {
            partition,
            budget_id,
            scope_type: "tenant".to_owned(),
            scope_id: "all".to_owned(),
            enforcement_mode: "strict".to_owned(),
            on_hard_limit: "reject".to_owned(),
            on_soft_limit: "warn".to_owned(),
            reset_interval_ms: 20_000,
            now: self.server_time(partition, 0),
            limits,
        };
        self.command_by(Actor::World, partition, budget.command());
        let (quota_policy_id, partition) = self.names.quota();
        let quota = CreateQuotaPolicy {
            partition,
            quota_policy_id,
            window_seconds: WINDOW_S,
            max_requests_per_window: RATE,
            max_concurrent: CONCURRENT,
            now: self.server_time(partition, 0),
        };
        self.command_by(Actor::World, partition, quota.command());
    }

    /// Whether any execution of the plan uses the shared budget or quota.
    pub(crate) fn wants_accounts(&self) -> bool {
        let wants = |policy: Policy| matches!(policy, Policy::Budget | Policy::Quota);
        self.plan.steps.iter().any(|step| match &step.action {
            Action::Submit(flow) | Action::Build(flow) => wants(flow.policy),
            Action::Create(task) => wants(task.policy),
            Action::Cancel(_) | Action::CancelFlow(_) | Action::Replay(_) | Action::Signal(..) => {
                false
            }
        })
    }
}
