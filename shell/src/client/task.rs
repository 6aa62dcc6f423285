//! [`Task`]: the description of one execution to submit: payload, policy, schedule and upstreams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied, SubmitFlow};
use selvedge_core::capability::Capabilities;
use selvedge_core::client::StartTime;
use selvedge_core::id::{BudgetId, LaneId, QuotaPolicyId};
use selvedge_core::policy::{
    Backoff, ExecutionPolicy, RetryPolicy, RoutingRequirements, StreamPolicy, TimeoutPolicy,
};
use selvedge_core::time::{DURATION_MAX, ServerTime};
use serde::Serialize;

use super::invalid_flow::InvalidFlow;
use super::millis;
use super::names::{check_tags, check_text};

/// Largest payload or result, in bytes. Put larger data into a blob store and pass its address.
pub const PAYLOAD_BYTES_MAX: usize = selvedge_core::worker::RESULT_BYTES_MAX;
/// Highest priority. Higher ones are refused here, because the store would silently lower them.
pub const PRIORITY_MAX: u32 = 9_000;
/// The lane of tasks that do not set one.
pub const DEFAULT_LANE: &str = "default";

const ATTEMPT_TIMEOUT: &str = "attempt timeout";
const DEADLINE: &str = "deadline";
const KEY_TTL: &str = "idempotency key lifetime";
/// Durations that must not be zero.
const NONZERO: [&str; 3] = [ATTEMPT_TIMEOUT, DEADLINE, KEY_TTL];

/// One task: part of a [`Flow`](super::Flow), or an execution without a flow.
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
    /// Why its payload could not be written, if it could not.
    invalid_payload: Option<String>,
    pub(super) priority: u32,
    pub(super) start: StartTime,
    has_several_starts: bool,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) policy: ExecutionPolicy,
    pub(super) has_policy: bool,
    pub(super) idempotency: Option<(String, Duration)>,
    pub(super) upstreams: Vec<String>,
    pub(super) group: Option<GroupPolicy>,
    groups_given: u32,
}

impl Task {
    /// A task with a name, unique within its flow, and a kind, which selects the handler.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            lane: DEFAULT_LANE.to_owned(),
            payload: Vec::new(),
            invalid_payload: None,
            priority: 0,
            start: StartTime::AtOnce,
            has_several_starts: false,
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

    /// Its payload: any bytes, at most [`PAYLOAD_BYTES_MAX`].
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self.invalid_payload = None;
        self
    }

    /// Its payload: this value as JSON. A handler takes it as [`Json`](crate::worker::Json). A
    /// value that JSON cannot hold is an error of the submission.
    #[must_use]
    pub fn json(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.payload(json),
            Err(error) => {
                self.invalid_payload = Some(error.to_string());
                self
            }
        }
    }

    /// Its lane; `default` by default.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = lane.into();
        self
    }

    /// Its priority, 0 to [`PRIORITY_MAX`]; higher priorities are claimed first.
    #[must_use]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Starts no earlier than this long after submission. Not together with
    /// [`Task::not_before`].
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.has_several_starts |= matches!(self.start, StartTime::NotBefore(_));
        self.start = StartTime::After(delay);
        self
    }

    /// Starts no earlier than this time, by the server's clock. Not together with [`Task::delay`].
    #[must_use]
    pub fn not_before(mut self, time: ServerTime) -> Self {
        self.has_several_starts |= matches!(self.start, StartTime::After(_));
        self.start = StartTime::NotBefore(time);
        self
    }

    /// Retries it up to this many times after a failure, with a fixed pause.
    #[must_use]
    pub fn retries(self, retries: u32, pause: Duration) -> Self {
        let delay_ms = millis(pause);
        self.retry_policy(RetryPolicy::new(retries, Backoff::Fixed { delay_ms }))
    }

    /// Sets the whole retry policy.
    #[must_use]
    pub fn retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.policy_mut().retry_policy = Some(retry);
        self
    }

    /// The time limit of one attempt.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts().attempt_timeout_ms = Some(millis(timeout));
        self
    }

    /// The time limit from submission to its end, over all attempts.
    #[must_use]
    pub fn deadline(mut self, within: Duration) -> Self {
        self.timeouts().execution_deadline_ms = Some(millis(within));
        self
    }

    /// How long it is kept after its end, instead of the retention of the deployment.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        let stream = self.policy_mut().stream_policy.get_or_insert_with(StreamPolicy::default);
        stream.retention_ttl_ms = Some(millis(retention));
        self
    }

    /// Adds capabilities that a worker must have to run it.
    #[must_use]
    pub fn needs<T: Into<String>>(mut self, capabilities: impl IntoIterator<Item = T>) -> Self {
        let policy = self.policy_mut();
        let routing = policy.routing_requirements.get_or_insert_with(RoutingRequirements::default);
        for token in capabilities.into_iter().map(Into::into) {
            if !routing.required_capabilities.contains(&token) {
                routing.required_capabilities.push(token);
            }
        }
        self
    }

    /// Adds a budget: it must not be used up when the task starts, and the handler can spend from
    /// it.
    #[must_use]
    pub fn budget(mut self, id: BudgetId) -> Self {
        self.policy_mut().budget_ids.push(id.into());
        self
    }

    /// The quota that limits when it starts.
    #[must_use]
    pub fn quota(mut self, id: QuotaPolicyId) -> Self {
        self.policy_mut().quota_policy_id = Some(id.into());
        self
    }

    /// Sets the whole policy. Replaces retries, timeouts, capabilities, budgets and quota set so
    /// far.
    #[must_use]
    pub fn policy(mut self, policy: ExecutionPolicy) -> Self {
        *self.policy_mut() = policy;
        self
    }

    /// Adds a tag; the name has the form `<caller>.<name>`.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// Makes [`Client::start`](super::Client::start) idempotent: for this long, the same key
    /// returns the first execution, and a task of another kind, payload or policy is refused.
    /// Ignored in a flow, which has a key of its own.
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

    /// Starts when one of these has succeeded; `rest` decides what happens to the others.
    #[must_use]
    pub fn after_any<T: Into<String>>(
        self,
        upstreams: impl IntoIterator<Item = T>,
        rest: OnSatisfied,
    ) -> Self {
        self.join(upstreams, Some(GroupPolicy::AnyOf(rest)))
    }

    /// Starts when `k` of these have succeeded; `rest` decides what happens to the others.
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
        // Two `after` lists are joined; any other pair of joins is refused by `check`.
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

    /// Checks everything but the existence of its upstreams.
    pub(super) fn check(&self) -> Result<(), InvalidFlow> {
        let task = || self.name.clone();
        check_text("the name of a task", &self.name)?;
        check_text("the kind of a task", &self.kind)?;
        if let Some((key, _)) = &self.idempotency {
            check_text("the idempotency key", key)?;
        }
        if let Err(error) = self.lane.parse::<LaneId>() {
            return Err(InvalidFlow::Lane { task: task(), reason: error });
        }
        if self.has_several_starts {
            return Err(InvalidFlow::DelayAndNotBefore { task: task() });
        }
        if let Some(reason) = &self.invalid_payload {
            return Err(InvalidFlow::PayloadNotJson { task: task(), reason: reason.clone() });
        }
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(InvalidFlow::PayloadTooLarge { task: task(), bytes: self.payload.len() });
        }
        if self.priority > PRIORITY_MAX {
            return Err(InvalidFlow::PriorityTooHigh { task: task(), priority: self.priority });
        }
        if let Some(routing) = &self.policy.routing_requirements
            && let Err(error) = Capabilities::new(routing.required_capabilities.iter().cloned())
        {
            return Err(InvalidFlow::Needs { task: task(), reason: error });
        }
        check_tags(self.tags.keys())?;
        if let Some(what) =
            self.durations().find(|(_, ms)| *ms > millis(DURATION_MAX)).map(|span| span.0)
        {
            return Err(InvalidFlow::DurationTooLong { task: task(), what });
        }
        let is_zero = |(what, ms): &(&str, u64)| *ms == 0 && NONZERO.contains(what);
        if let Some((what, _)) = self.durations().find(is_zero) {
            return Err(InvalidFlow::ZeroDuration { task: task(), what });
        }
        if let (StartTime::After(delay), Some(deadline)) = (self.start, self.deadline_ms())
            && deadline <= millis(delay)
        {
            return Err(InvalidFlow::DeadlineBeforeDelay { task: task() });
        }
        self.check_group()
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.policy.timeout_policy.as_ref().and_then(|limits| limits.execution_deadline_ms)
    }

    /// Its durations by name, in milliseconds.
    fn durations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let delay = match self.start {
            StartTime::AtOnce => None,
            StartTime::After(delay) => Some(millis(delay)),
            // A time, checked as the duration since the epoch.
            StartTime::NotBefore(time) => u64::try_from(time.0).ok(),
        };
        let pause = self.policy.retry_policy.as_ref().map(|retry| retry.backoff.longest_ms());
        let timeouts = self.policy.timeout_policy.as_ref();
        let spans = [
            ("delay", delay),
            ("pause between retries", pause),
            (ATTEMPT_TIMEOUT, timeouts.and_then(|limits| limits.attempt_timeout_ms)),
            (DEADLINE, self.deadline_ms()),
            (
                "retention",
                self.policy.stream_policy.as_ref().and_then(|kept| kept.retention_ttl_ms),
            ),
            (KEY_TTL, self.idempotency.as_ref().map(|(_, life)| millis(*life))),
        ];
        spans.into_iter().filter_map(|(what, ms)| ms.map(|ms| (what, ms)))
    }

    fn check_group(&self) -> Result<(), InvalidFlow> {
        let task = || self.name.clone();
        if self.groups_given > 1 {
            return Err(InvalidFlow::SeveralJoins { task: task() });
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.upstreams.iter().find(|name| !seen.insert(*name)) {
            return Err(InvalidFlow::DuplicateUpstream { task: task(), upstream: twice.clone() });
        }
        let of = self.upstreams.len();
        if of > SubmitFlow::JOIN_EDGES_MAX {
            return Err(InvalidFlow::TooManyUpstreams { task: task(), of });
        }
        match self.group {
            Some(GroupPolicy::AnyOf(_) | GroupPolicy::Quorum { .. }) if of == 0 => {
                Err(InvalidFlow::EmptyJoin { task: task() })
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
