//! What a deployment has before any work: signing secrets, and a budget and a quota if the plan
//! uses them.

use selvedge_core::call::Function;
use selvedge_core::call::budget::{CreateBudget, DimensionLimits};
use selvedge_core::call::quota::CreateQuotaPolicy;
use selvedge_core::client::{CallAt, Effect, Input, Machine, Needs};
use selvedge_core::command::{Answer, Command};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use selvedge_core::time::{LocalTime, ServerTime};

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
        let (budget_id, partition) = self.clients.names.budget();
        let limits = vec![DimensionLimits { dimension: "tokens".to_owned(), hard: 20, soft: 12 }];
        let budget = |now| CreateBudget {
            partition,
            budget_id,
            scope_type: "tenant".to_owned(),
            scope_id: "all".to_owned(),
            enforcement_mode: "strict".to_owned(),
            on_hard_limit: "reject".to_owned(),
            on_soft_limit: "warn".to_owned(),
            reset_interval_ms: 20_000,
            now,
            limits: limits.clone(),
        };
        self.create_at_once(partition, budget);
        let (quota_policy_id, partition) = self.clients.names.quota();
        let quota = |now| CreateQuotaPolicy {
            partition,
            quota_policy_id,
            window_seconds: WINDOW_S,
            max_requests_per_window: RATE,
            max_concurrent: CONCURRENT,
            now,
        };
        self.create_at_once(partition, quota);
    }

    /// Runs the client's procedure that creates a limit, before the time of the run begins.
    fn create_at_once<F: Function>(
        &mut self,
        partition: Partition,
        build: impl Fn(ServerTime) -> F,
    ) {
        let needs = Needs::counts(self.clients.names.counts(), false);
        let create = CallAt::new(needs, partition.slot(), build);
        let mut machine = Machine::new(create, self.client_settings(), 0);
        let (now, mut input) = (LocalTime(self.now_ms), Some(Input::Wake));
        while let Some(next) = input.take() {
            machine.handle(now, next);
            if let Some(Effect::Send { ticket, slot, batch }) = machine.next_effect() {
                let serve = |command: Command| {
                    Answer::Applied(self.command_at(Actor::World, slot, command.argv))
                };
                let answers = batch.into_iter().map(serve).collect();
                input = Some(Input::Settled { ticket, answers });
            }
        }
    }

    /// Whether any execution of the plan uses the shared budget or quota.
    pub(crate) fn wants_accounts(&self) -> bool {
        let wants = |policy: Policy| matches!(policy, Policy::Budget | Policy::Quota);
        self.plan.steps.iter().any(|step| match &step.action {
            Action::Submit(flow) | Action::Build(flow) => wants(flow.policy),
            Action::Create(task) => wants(task.policy),
            Action::Cancel(_)
            | Action::CancelFlow(_)
            | Action::Replay(_)
            | Action::Signal(..)
            | Action::Wait(_) => false,
        })
    }
}
