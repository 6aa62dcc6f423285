//! A task as its author describes it: what it works on, how, when, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied, SubmitFlow};
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{BudgetId, LaneId, QuotaPolicyId};
use selvedge_core::policy::{
    Backoff, ExecutionPolicy, RetryPolicy, RoutingRequirements, TimeoutPolicy,
};
use selvedge_core::time::ServerTime;

use super::invalid_flow::InvalidFlow;
use super::millis;
use super::wording::{check_tags, check_text};

/// Largest input of one task. Larger data belongs into a blob store, with its address in here.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Highest priority; more is refused here, where the store would quietly take less.
pub const PRIORITY_MAX: u32 = 9_000;
/// Longest delay, pause, timeout or deadline of a task: a thousand years. No time of the store's plus
/// such a span loses a digit.
pub const SPAN_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);
/// The lane of tasks that name none.
pub const DEFAULT_LANE: &str = "default";

const ATTEMPT_TIMEOUT: &str = "attempt timeout";
const DEADLINE: &str = "deadline";
const KEY_LIFE: &str = "idempotency key's life";
/// Spans that end something: with no time at all there is nothing to end.
const ENDINGS: [&str; 3] = [ATTEMPT_TIMEOUT, DEADLINE, KEY_LIFE];

/// One task: a member of a [`Flow`](super::Flow), or an execution by itself.
///
/// ```
/// use selvedge::client::{OnSatisfied, Task};
/// use std::time::Duration;
///
/// let task = Task::new("publish", "http.put")
///     .payload(b"any bytes \xff")
///     .after_any(["mirror-a", "mirror-b"], OnSatisfied::CancelRemaining)
///     .retries(5, Duration::from_millis(200))
///     .needs(["egress"])
///     .priority(10);
/// assert_eq!(task.name(), "publish");
/// ```
#[derive(Clone, Debug)]
pub struct Task {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) lane: String,
    pub(super) payload: Vec<u8>,
    pub(super) priority: u32,
    pub(super) start: Start,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) policy: ExecutionPolicy,
    pub(super) has_policy: bool,
    pub(super) idempotency: Option<(String, Duration)>,
    pub(super) upstreams: Vec<String>,
    pub(super) group: Option<GroupPolicy>,
    groups_given: u32,
}

/// When a task may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    AtOnce,
    After(Duration),
    NotBefore(ServerTime),
}

impl Task {
    /// A task with a name of its own in its flow, and the kind of work that names its handler.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            lane: DEFAULT_LANE.to_owned(),
            payload: Vec::new(),
            priority: 0,
            start: Start::AtOnce,
            tags: BTreeMap::new(),
            policy: ExecutionPolicy::default(),
            has_policy: false,
            idempotency: None,
            upstreams: Vec::new(),
            group: None,
            groups_given: 0,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its input: any bytes.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// The lane that it waits in; `default` otherwise.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = lane.into();
        self
    }

    /// Higher goes first, up to [`PRIORITY_MAX`].
    #[must_use]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Starts this long after it was submitted, at the earliest.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start = Start::After(delay);
        self
    }

    /// Starts at this time of the server's clock, at the earliest.
    #[must_use]
    pub fn not_before(mut self, time: ServerTime) -> Self {
        self.start = Start::NotBefore(time);
        self
    }

    /// How often it is tried again after a failure, and how long after it.
    #[must_use]
    pub fn retries(self, retries: u32, pause: Duration) -> Self {
        let delay_ms = millis(pause);
        self.retry_policy(RetryPolicy {
            max_retries: retries,
            backoff: Backoff::Fixed { delay_ms },
            retryable_categories: Vec::new(),
        })
    }

    /// Whether and when it is tried again, in full.
    #[must_use]
    pub fn retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.policy_mut().retry_policy = Some(retry);
        self
    }

    /// How long one attempt may take.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts().attempt_timeout_ms = Some(millis(timeout));
        self
    }

    /// How long it may take from submission to its end.
    #[must_use]
    pub fn deadline(mut self, within: Duration) -> Self {
        self.timeouts().execution_deadline_ms = Some(millis(within));
        self
    }

    /// What a worker must be able to do to run it.
    #[must_use]
    pub fn needs<T: Into<String>>(mut self, capabilities: impl IntoIterator<Item = T>) -> Self {
        let routing = RoutingRequirements {
            required_capabilities: capabilities.into_iter().map(Into::into).collect(),
            ..RoutingRequirements::default()
        };
        self.policy_mut().routing_requirements = Some(routing);
        self
    }

    /// A budget that must have room before it starts, and that its handler spends from.
    #[must_use]
    pub fn budget(mut self, id: BudgetId) -> Self {
        self.policy_mut().budget_ids.push(id.into());
        self
    }

    /// The quota that admits it.
    #[must_use]
    pub fn quota(mut self, id: QuotaPolicyId) -> Self {
        self.policy_mut().quota_policy_id = Some(id.into());
        self
    }

    /// Its whole policy, instead of all that was said about it so far.
    #[must_use]
    pub fn policy(mut self, policy: ExecutionPolicy) -> Self {
        *self.policy_mut() = policy;
        self
    }

    /// A tag, for whoever looks for it.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// Makes a repeated [`Client::start`](super::Client::start) with this key answer with the first
    /// execution, for so long. A flow has its own key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>, remembered: Duration) -> Self {
        self.idempotency = Some((key.into(), remembered));
        self
    }

    /// Starts when all of these have succeeded.
    #[must_use]
    pub fn after<T: Into<String>>(self, upstreams: impl IntoIterator<Item = T>) -> Self {
        self.join(upstreams, None)
    }

    /// Starts when one of these has succeeded; `rest` says what becomes of the others.
    #[must_use]
    pub fn after_any<T: Into<String>>(
        self,
        upstreams: impl IntoIterator<Item = T>,
        rest: OnSatisfied,
    ) -> Self {
        self.join(upstreams, Some(GroupPolicy::AnyOf(rest)))
    }

    /// Starts when `k` of these have succeeded; `rest` says what becomes of the others.
    #[must_use]
    pub fn after_quorum<T: Into<String>>(
        self,
        k: u32,
        upstreams: impl IntoIterator<Item = T>,
        rest: OnSatisfied,
    ) -> Self {
        self.join(upstreams, Some(GroupPolicy::Quorum { k, on_satisfied: rest }))
    }

    fn join<T: Into<String>>(
        mut self,
        upstreams: impl IntoIterator<Item = T>,
        group: Option<GroupPolicy>,
    ) -> Self {
        // Two lists of "all of these" are one longer list; any other pair is refused later.
        self.groups_given += u32::from(group.is_some() || self.group.is_some());
        self.groups_given += u32::from(group.is_some() && !self.upstreams.is_empty());
        self.upstreams.extend(upstreams.into_iter().map(Into::into));
        self.group = group.or(self.group);
        self
    }

    fn policy_mut(&mut self) -> &mut ExecutionPolicy {
        self.has_policy = true;
        &mut self.policy
    }

    fn timeouts(&mut self) -> &mut TimeoutPolicy {
        self.policy_mut().timeout_policy.get_or_insert_with(TimeoutPolicy::default)
    }

    /// What is wrong with it by itself.
    pub(super) fn check(&self) -> Result<(), InvalidFlow> {
        let task = || self.name.clone();
        check_text("the name of a task", &self.name)?;
        check_text("the kind of a task", &self.kind)?;
        if let Some((key, _)) = &self.idempotency {
            check_text("the idempotency key", key)?;
        }
        if let Err(error) = self.lane.parse::<LaneId>() {
            return Err(InvalidFlow::Lane { task: task(), reason: error.to_string() });
        }
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(InvalidFlow::Payload { task: task(), bytes: self.payload.len() });
        }
        if self.priority > PRIORITY_MAX {
            return Err(InvalidFlow::Priority { task: task(), priority: self.priority });
        }
        if let Some(routing) = &self.policy.routing_requirements
            && let Err(error) = Capabilities::new(routing.required_capabilities.iter().cloned())
        {
            return Err(InvalidFlow::Needs { task: task(), reason: error.to_string() });
        }
        check_tags(self.tags.keys())?;
        if let Some(what) = self.spans().find(|(_, ms)| *ms > millis(SPAN_MAX)).map(|span| span.0) {
            return Err(InvalidFlow::Span { task: task(), what });
        }
        let ends_at_once = |(what, ms): &(&str, u64)| *ms == 0 && ENDINGS.contains(what);
        if let Some((what, _)) = self.spans().find(ends_at_once) {
            return Err(InvalidFlow::NoTime { task: task(), what });
        }
        self.check_group()
    }

    /// How long it waits for what, in milliseconds.
    fn spans(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let delay = match self.start {
            Start::AtOnce => None,
            Start::After(delay) => Some(millis(delay)),
            // A time, not a span; but what is beyond all spans from the epoch on is beyond reach.
            Start::NotBefore(time) => u64::try_from(time.0).ok(),
        };
        let pause = self.policy.retry_policy.as_ref().map(|retry| match retry.backoff {
            Backoff::Exponential { initial_delay_ms, max_delay_ms, .. } => {
                initial_delay_ms.max(max_delay_ms)
            }
            Backoff::Fixed { delay_ms } => delay_ms,
        });
        let timeouts = self.policy.timeout_policy.as_ref();
        let spans = [
            ("delay", delay),
            ("pause between retries", pause),
            (ATTEMPT_TIMEOUT, timeouts.and_then(|limits| limits.attempt_timeout_ms)),
            (DEADLINE, timeouts.and_then(|limits| limits.execution_deadline_ms)),
            (KEY_LIFE, self.idempotency.as_ref().map(|(_, life)| millis(*life))),
        ];
        spans.into_iter().filter_map(|(what, ms)| ms.map(|ms| (what, ms)))
    }

    fn check_group(&self) -> Result<(), InvalidFlow> {
        let task = || self.name.clone();
        if self.groups_given > 1 {
            return Err(InvalidFlow::Groups { task: task() });
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.upstreams.iter().find(|name| !seen.insert(*name)) {
            return Err(InvalidFlow::Twice { task: task(), upstream: twice.clone() });
        }
        let of = self.upstreams.len();
        if of > SubmitFlow::EDGES_MAX {
            return Err(InvalidFlow::TooManyUpstreams { task: task(), of });
        }
        match self.group {
            Some(GroupPolicy::AnyOf(_) | GroupPolicy::Quorum { .. }) if of == 0 => {
                Err(InvalidFlow::Nobody { task: task() })
            }
            Some(GroupPolicy::Quorum { k, .. })
                if k == 0 || usize::try_from(k).unwrap_or(usize::MAX) > of =>
            {
                Err(InvalidFlow::Quorum { task: task(), k, of })
            }
            Some(GroupPolicy::AllOf | GroupPolicy::AnyOf(_) | GroupPolicy::Quorum { .. })
            | None => Ok(()),
        }
    }
}
