//! Creates, reads and resets budgets and quotas.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_core::admission::{QuotaTerms, read_limit, read_usage};
use selvedge_core::call::Function;
use selvedge_core::call::budget::{CreateBudget, DimensionLimits, ResetBudget};
use selvedge_core::call::quota::CreateQuotaPolicy;
use selvedge_core::client::{CallAt, Limits, Needs};
use selvedge_core::command::Command;
use selvedge_core::id::{BudgetId, QuotaPolicyId};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use selvedge_core::reply::{fields, text, text_hash};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use uuid::Uuid;

use super::invalid_input::InvalidInput;
use super::millis;
use super::task::Task;
use super::{Client, ClientError, DURATION_MAX};

/// A budget to create: limits on usage by dimension.
///
/// ```
/// use selvedge::client::BudgetSpec;
/// use std::time::Duration;
///
/// let budget = BudgetSpec::new()
///     .hard("tokens", 1_000_000)
///     .soft("tokens", 800_000)
///     .resets_every(Duration::from_secs(86_400));
/// # let _ = budget;
/// ```
#[derive(Clone, Debug, Default)]
pub struct BudgetSpec {
    limits: BTreeMap<String, Limited>,
    reset_interval: Option<Duration>,
    scope: (String, String),
}

/// The limits of a dimension.
#[derive(Clone, Copy, Debug, Default)]
struct Limited {
    hard: Option<u64>,
    soft: Option<u64>,
}

impl BudgetSpec {
    /// A budget without limits yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The hard limit of a dimension, above zero. While it is used up, no execution under the
    /// budget starts; those that run go on, and what they use is counted.
    #[must_use]
    pub fn hard(mut self, dimension: impl Into<String>, limit: u64) -> Self {
        self.limits.entry(dimension.into()).or_default().hard = Some(limit);
        self
    }

    /// The soft limit of a dimension, above zero. A report that passes it gets a warning, and tasks
    /// go on starting.
    #[must_use]
    pub fn soft(mut self, dimension: impl Into<String>, limit: u64) -> Self {
        self.limits.entry(dimension.into()).or_default().soft = Some(limit);
        self
    }

    /// Resets the usage at this interval: at least a millisecond, at most [`DURATION_MAX`].
    #[must_use]
    pub fn resets_every(mut self, interval: Duration) -> Self {
        self.reset_interval = Some(interval);
        self
    }

    /// The type and id of what it is for; only recorded.
    #[must_use]
    pub fn scope(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.scope = (kind.into(), id.into());
        self
    }
}

/// A budget at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Its id.
    pub id: BudgetId,
    /// Hard limits by dimension.
    pub hard: BTreeMap<String, u64>,
    /// Soft limits by dimension.
    pub soft: BTreeMap<String, u64>,
    /// Usage by dimension.
    pub used: BTreeMap<String, i64>,
    /// How long a period lasts; `None` if it never ends.
    pub resets_every: Option<Duration>,
    /// When the next period starts.
    pub next_reset_at: Option<ServerTime>,
    /// The type and id of what it is for.
    pub scope: (String, String),
}

/// A quota to create: how many executions may start within a window, and how many may run at the
/// same time.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuotaSpec {
    rate: Option<(u64, Duration)>,
    concurrency: Option<u64>,
}

impl QuotaSpec {
    /// A quota without limits yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many starts, at least one, within a window of whole seconds.
    #[must_use]
    pub fn rate(mut self, starts: u64, window: Duration) -> Self {
        self.rate = Some((starts, window));
        self
    }

    /// At most this many running at the same time, at least one.
    #[must_use]
    pub fn concurrency(mut self, most: u64) -> Self {
        self.concurrency = Some(most);
        self
    }
}

/// A quota at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// Its id.
    pub id: QuotaPolicyId,
    /// How many may start within the window; zero for no limit.
    pub rate: u64,
    /// The length of the window; 60 seconds if the policy defines none.
    pub window: Duration,
    /// How many may run at the same time; zero for no limit.
    pub concurrency: u64,
    /// How many run now.
    pub running: i64,
}

impl Client {
    /// Creates a budget with a random id.
    ///
    /// # Errors
    /// When a limit is zero, or its interval too short or too long; when the store refuses it or
    /// does not answer.
    pub async fn create_budget(&self, spec: BudgetSpec) -> Result<BudgetId, ClientError> {
        let reset_interval_ms = spec.reset_interval.map_or(Ok(0), reset_interval_ms)?;
        for (dimension, limited) in &spec.limits {
            above_zero(&format!("hard limit of `{dimension}`"), limited.hard)?;
            above_zero(&format!("soft limit of `{dimension}`"), limited.soft)?;
        }
        let id = BudgetId::from(Uuid::new_v4());
        let partition = self.partitions().of_budget(id);
        let limits: Vec<DimensionLimits> = spec
            .limits
            .into_iter()
            .map(|(dimension, Limited { hard, soft })| DimensionLimits {
                dimension,
                hard: hard.unwrap_or(NO_LIMIT),
                soft: soft.unwrap_or(NO_LIMIT),
            })
            .collect();
        let create = |now| CreateBudget {
            partition,
            budget_id: id,
            scope_type: spec.scope.0.clone(),
            scope_id: spec.scope.1.clone(),
            enforcement_mode: "strict".to_owned(),
            on_hard_limit: "block".to_owned(),
            on_soft_limit: "warn".to_owned(),
            reset_interval_ms,
            now,
            limits: limits.clone(),
        };
        self.create(partition, create).await.map(|_| id)
    }

    /// Reads a budget. One round trip.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn budget(&self, id: BudgetId) -> Result<Budget, ClientError> {
        let keys = Key::budget(self.partitions().of_budget(id), id);
        let reads = [keys.record(), keys.limits(), keys.usage()]
            .iter()
            .map(|key| Command::read("HGETALL", key, &[]))
            .collect();
        let mut hashes = self.read(reads).await?.into_iter().map(text_hash);
        let mut hash = || hashes.next().unwrap_or_default();
        let (record, limits, usage) = (hash(), hash(), hash());
        if record.is_empty() {
            return Err(ClientError::NotFound { kind: "budget", id: id.to_string() });
        }
        let limited = |prefix: &str| {
            let named = limits.iter().filter_map(|(name, limit)| {
                let limit = u64::try_from(read_limit(limit)).ok().filter(|limit| *limit > 0)?;
                Some((name.strip_prefix(prefix)?.to_owned(), limit))
            });
            named.collect()
        };
        let used = usage.iter().map(|(name, used)| (name.clone(), read_usage(used)));
        let field = |name: &str| record.get(name).cloned().unwrap_or_default();
        let interval = field("reset_interval_ms").parse().ok().filter(|ms| *ms > 0);
        Ok(Budget {
            id,
            hard: limited("hard:"),
            soft: limited("soft:"),
            used: used.collect(),
            resets_every: interval.map(Duration::from_millis),
            next_reset_at: interval.and_then(|_| field("next_reset_at").parse().ok()),
            scope: (field("scope_type"), field("scope_id")),
        })
    }

    /// Resets the usage of a budget now.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset_budget(&self, id: BudgetId) -> Result<(), ClientError> {
        let partition = self.partitions().of_budget(id);
        let reset = |now| ResetBudget { partition, budget_id: id, now };
        self.call_at(partition, reset).await.map(drop)
    }

    /// Creates a quota with a random id.
    ///
    /// # Errors
    /// When a limit is zero, or the window is zero or not a whole number of seconds; when the store
    /// refuses it or does not answer.
    pub async fn create_quota(&self, spec: QuotaSpec) -> Result<QuotaPolicyId, ClientError> {
        above_zero("rate of a quota", spec.rate.map(|(starts, _)| starts))?;
        above_zero("concurrency of a quota", spec.concurrency)?;
        let (rate, window) = spec.rate.unwrap_or((NO_LIMIT, Duration::ZERO));
        if spec.rate.is_some() && window.is_zero() {
            return Err(InvalidInput::NoQuotaWindow.into());
        }
        if window.subsec_nanos() != 0 {
            return Err(InvalidInput::QuotaWindow(window).into());
        }
        let id = QuotaPolicyId::from(Uuid::new_v4());
        let partition = self.partitions().of_quota(id);
        let create = |now| CreateQuotaPolicy {
            partition,
            quota_policy_id: id,
            window_seconds: window.as_secs(),
            max_requests_per_window: rate,
            max_concurrent: spec.concurrency.unwrap_or(NO_LIMIT),
            now,
        };
        self.create(partition, create).await.map(|_| id)
    }

    /// Reads a quota. One round trip.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn quota(&self, id: QuotaPolicyId) -> Result<Quota, ClientError> {
        let keys = Key::quota(self.partitions().of_quota(id), id);
        let reads = vec![
            Command::read("EXISTS", &keys.record(), &[]),
            Command::read("HMGET", &keys.record(), &QuotaTerms::FIELDS),
            Command::read("GET", &keys.concurrency(), &[]),
        ];
        let mut replies = self.read(reads).await?.into_iter();
        if replies.next() != Some(Value::Int(1)) {
            return Err(ClientError::NotFound { kind: "quota", id: id.to_string() });
        }
        let terms = QuotaTerms::read(&replies.next().map(fields).unwrap_or_default());
        Ok(Quota {
            id,
            rate: terms.rate,
            window: Duration::from_secs(terms.window_seconds),
            concurrency: terms.concurrency_cap,
            running: replies.next().map(text).and_then(|text| text.parse().ok()).unwrap_or(0),
        })
    }
}

impl Client {
    /// Makes a call with the server's time, as the first write of the client perhaps.
    async fn create<F: Function>(
        &self,
        partition: Partition,
        build: impl Fn(ServerTime) -> F,
    ) -> Result<F::Reply, ClientError> {
        let needs = Needs::counts(*self.partitions(), self.counts_known());
        self.run_prepared(needs, |needs| CallAt::new(needs, partition.slot(), build)).await
    }

    /// Makes a call with the server's time.
    pub(super) async fn call_at<F: Function>(
        &self,
        partition: Partition,
        build: impl Fn(ServerTime) -> F,
    ) -> Result<F::Reply, ClientError> {
        let needs = Needs::counts(*self.partitions(), true);
        self.run(CallAt::new(needs, partition.slot(), build)).await
    }
}

/// Refuses a limit of zero: in the store it would stand for no limit.
fn above_zero(what: &str, limit: Option<u64>) -> Result<(), InvalidInput> {
    if limit == Some(0) { Err(InvalidInput::ZeroLimit { what: what.to_owned() }) } else { Ok(()) }
}

/// How the store spells that there is no limit.
const NO_LIMIT: u64 = 0;

fn reset_interval_ms(interval: Duration) -> Result<u64, InvalidInput> {
    let range = Duration::from_millis(1)..=DURATION_MAX;
    let ms = range.contains(&interval).then(|| millis(interval));
    ms.ok_or(InvalidInput::ResetInterval(interval))
}

/// The budgets and quotas of tasks.
pub(super) fn limits_of(tasks: &[Task]) -> Limits {
    let policies = || tasks.iter().map(|task| &task.policy);
    Limits {
        budgets: policies()
            .flat_map(|policy| policy.budget_ids.iter().map(|&id| id.into()))
            .collect(),
        quotas: policies().filter_map(|policy| policy.quota_policy_id).map(Into::into).collect(),
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_of_zero_is_refused() {
        let client = Client::connect("memory://").await.expect("memory:// needs no server");
        let minute = Duration::from_secs(60);
        for (error, what) in [
            (client.create_budget(BudgetSpec::new().hard("tokens", 0)).await.err(), "hard limit"),
            (client.create_budget(BudgetSpec::new().soft("tokens", 0)).await.err(), "soft limit"),
            (client.create_quota(QuotaSpec::new().rate(0, minute)).await.err(), "rate"),
            (client.create_quota(QuotaSpec::new().concurrency(0)).await.err(), "concurrency"),
        ] {
            let text = error.unwrap_or_else(|| panic!("{what}: created")).to_string();
            assert!(text.contains(what) && text.contains("above zero"), "{text}");
        }
        let one = QuotaSpec::new().rate(1, minute).concurrency(1);
        assert!(client.create_quota(one).await.is_ok());
        assert!(client.create_budget(BudgetSpec::new().hard("t", 2).soft("t", 1)).await.is_ok());
    }
}
