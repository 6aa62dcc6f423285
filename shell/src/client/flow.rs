//! Flows as their authors describe them: tasks by name, what each waits for, and how many of those
//! have to succeed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied, SubmitFlow};
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{BudgetId, FlowId, LaneId, QuotaPolicyId};
use selvedge_core::policy::{
    Backoff, ExecutionPolicy, RetryPolicy, RoutingRequirements, TimeoutPolicy,
};
use selvedge_core::time::ServerTime;

use super::invalid_flow::InvalidFlow;
use super::millis;
use super::wording::check_name;

/// Largest input of one task. Larger data belongs into a blob store, with its address in here.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Highest priority; more is refused here, where the store would quietly take less.
pub const PRIORITY_MAX: u32 = 9_000;
/// Longest delay, pause, timeout or deadline of a task: a thousand years. No time of the store's plus
/// such a span loses a digit.
pub const SPAN_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);
/// The lane of tasks that name none.
pub const DEFAULT_LANE: &str = "default";

/// One task: a member of a [`Flow`], or an execution by itself.
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

/// A flow: tasks, and what each waits for. Submit it with
/// [`Client::submit`](super::Client::submit).
///
/// ```
/// use selvedge::client::{Flow, Task};
///
/// let flow = Flow::new("report")
///     .task(Task::new("fetch", "http.get").payload("https://example.org"))
///     .task(Task::new("render", "pdf").after(["fetch"]))
///     .task(Task::new("send", "mail").after(["render"]))
///     .idempotency_key("report-2026-11-16");
/// assert_eq!(flow.check(), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct Flow {
    pub(super) kind: String,
    pub(super) identity: Identity,
    pub(super) tasks: Vec<Task>,
    pub(super) tags: Vec<(String, String)>,
}

/// Where a flow's id comes from.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// Drawn when it is submitted.
    Fresh,
    Given(FlowId),
    /// The same for the same key of the same namespace.
    Key(String),
}

impl Flow {
    /// A flow of this kind, without tasks yet.
    #[must_use]
    pub fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), identity: Identity::Fresh, tasks: Vec::new(), tags: Vec::new() }
    }

    /// Adds a task. Order does not matter.
    #[must_use]
    pub fn task(mut self, task: Task) -> Self {
        self.tasks.push(task);
        self
    }

    /// Adds tasks.
    #[must_use]
    pub fn tasks(mut self, tasks: impl IntoIterator<Item = Task>) -> Self {
        self.tasks.extend(tasks);
        self
    }

    /// Its id; a fresh one otherwise.
    #[must_use]
    pub fn id(mut self, id: FlowId) -> Self {
        self.identity = Identity::Given(id);
        self
    }

    /// Derives its id from this key: submitting it again finds the first one, for as long as that
    /// is kept.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.identity = Identity::Key(key.into());
        self
    }

    /// A tag, `<caller>.<name>`.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((name.into(), value.into()));
        self
    }

    /// The names of its tasks, in the order they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(Task::name)
    }

    /// Says what is wrong with it, if anything; submitting asks this first.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), InvalidFlow> {
        self.order().map(drop)
    }

    /// Tasks in an order in which each stands behind those it waits for, by index.
    pub(super) fn order(&self) -> Result<Vec<usize>, InvalidFlow> {
        if self.tasks.is_empty() {
            return Err(InvalidFlow::Empty);
        }
        check_text("the kind of a flow", &self.kind)?;
        if let Identity::Key(key) = &self.identity {
            check_text("the idempotency key", key)?;
        }
        check_tags(self.tags.iter().map(|(name, _)| name))?;
        let mut by_name = BTreeMap::new();
        for (at, task) in self.tasks.iter().enumerate() {
            task.check()?;
            if by_name.insert(task.name.as_str(), at).is_some() {
                return Err(InvalidFlow::Duplicate { task: task.name.clone() });
            }
        }
        let mut waits_for = vec![0_usize; self.tasks.len()];
        let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); self.tasks.len()];
        for (at, task) in self.tasks.iter().enumerate() {
            for upstream in &task.upstreams {
                let Some(&from) = by_name.get(upstream.as_str()) else {
                    let (task, upstream) = (task.name.clone(), upstream.clone());
                    return Err(InvalidFlow::Unknown { task, upstream });
                };
                feeds[from].push(at);
                waits_for[at] += 1;
            }
        }
        self.sort(waits_for, &feeds)
    }

    fn sort(
        &self,
        mut waits_for: Vec<usize>,
        feeds: &[Vec<usize>],
    ) -> Result<Vec<usize>, InvalidFlow> {
        let mut order: Vec<usize> = (0..waits_for.len()).filter(|&at| waits_for[at] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for &child in &feeds[order[next]] {
                waits_for[child] -= 1;
                if waits_for[child] == 0 {
                    order.push(child);
                }
            }
            next += 1;
        }
        if order.len() == self.tasks.len() {
            return Ok(order);
        }
        let stuck = (0..waits_for.len()).filter(|&at| waits_for[at] > 0);
        Err(InvalidFlow::Cycle { tasks: stuck.map(|at| self.tasks[at].name.clone()).collect() })
    }
}

fn check_text(what: &'static str, text: &str) -> Result<(), InvalidFlow> {
    check_name(text).map_err(|reason| InvalidFlow::Name { what, text: text.to_owned(), reason })
}

const ATTEMPT_TIMEOUT: &str = "attempt timeout";
const DEADLINE: &str = "deadline";
const KEY_LIFE: &str = "idempotency key's life";
/// Spans that end something: with no time at all there is nothing to end.
const ENDINGS: [&str; 3] = [ATTEMPT_TIMEOUT, DEADLINE, KEY_LIFE];

/// The contract's rule: `<caller>.<name>`, the caller in small letters, digits and underscores.
fn check_tags<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), InvalidFlow> {
    let is_name = |tag: &str| {
        tag.split_once('.').is_some_and(|(caller, name)| {
            let word = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
            caller.starts_with(|first: char| first.is_ascii_lowercase())
                && caller.chars().all(word)
                && !name.is_empty()
                && !name.starts_with('.')
        })
    };
    match names.find(|tag| !is_name(tag)) {
        Some(tag) => Err(InvalidFlow::Tag { tag: tag.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str) -> Task {
        Task::new(name, "work")
    }

    #[test]
    fn tasks_come_behind_what_they_wait_for() {
        let flow = Flow::new("f")
            .task(task("c").after(["b"]))
            .task(task("b").after(["a"]))
            .task(task("a"));
        assert_eq!(flow.order(), Ok(vec![2, 1, 0]));
    }

    #[test]
    fn a_circle_is_named() {
        let flow = Flow::new("f")
            .task(task("a").after(["b"]))
            .task(task("b").after(["a"]))
            .task(task("c"));
        let tasks = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(flow.check(), Err(InvalidFlow::Cycle { tasks }));
    }

    #[test]
    fn a_tag_that_the_store_would_refuse_is_refused_before_anything_is_sent() {
        let flow = |tag: &str| Flow::new("k").task(Task::new("a", "k")).tag(tag, "x");
        assert_eq!(flow("billing.customer").check(), Ok(()));
        for tag in ["a", "A.b", "", "x.", "x..y", ".x"] {
            assert_eq!(flow(tag).check(), Err(InvalidFlow::Tag { tag: tag.to_owned() }));
            let task = Flow::new("k").task(Task::new("a", "k").tag(tag, "x"));
            assert_eq!(task.check(), Err(InvalidFlow::Tag { tag: tag.to_owned() }));
        }
    }

    #[test]
    fn bad_flows_say_what_is_wrong() {
        let rest = OnSatisfied::LetRun;
        for (tasks, says) in [
            (vec![], "at least one task"),
            (vec![task("a"), task("a")], "two tasks are named `a`"),
            (vec![task("a").after(["b"])], "`b`, which is no task"),
            (vec![task("a"), task("b").after(["a", "a"])], "twice"),
            (vec![task("a").after(["a"])], "wait for each other"),
            (vec![task("")], "the name of a task `` cannot be used: it is empty"),
            (vec![task("a\nb")], "`a\\nb` cannot be used: character 2"),
            (vec![Task::new("a", "x".repeat(300))], "xx…` cannot be used: it has 300 bytes"),
            (vec![task("a").idempotency_key("", SPAN_MAX)], "the idempotency key"),
            (
                vec![task("a").idempotency_key("k", Duration::ZERO)],
                "key's life of task `a` is zero",
            ),
            (
                vec![task("a").attempt_timeout(Duration::ZERO)],
                "attempt timeout of task `a` is zero",
            ),
            (vec![task("a").deadline(Duration::ZERO)], "deadline of task `a` is zero"),
            (vec![task("a").lane("")], "lane"),
            (vec![task("a").needs(["x y"])], "whitespace"),
            (vec![task("a").priority(9_001)], "highest is 9000"),
            (vec![task("a").payload(vec![0; PAYLOAD_BYTES_MAX + 1])], "16777217 bytes"),
            (vec![task("a").delay(Duration::MAX)], "delay of task `a`"),
            (vec![task("a").not_before(ServerTime(i64::MAX))], "delay of task `a`"),
            (vec![task("a").retries(1, SPAN_MAX * 2)], "pause between retries"),
            (vec![task("a").attempt_timeout(SPAN_MAX * 2)], "attempt timeout"),
            (vec![task("a").deadline(SPAN_MAX * 2)], "deadline"),
            (vec![task("a"), task("b").after_quorum(2, ["a"], rest)], "from 1 to 1"),
            (vec![task("a").after_any(Vec::<String>::new(), rest)], "an empty list"),
            (vec![task("a").after_quorum(1, Vec::<String>::new(), rest)], "an empty list"),
            (vec![task("a"), task("c"), task("b").after(["a"]).after_any(["c"], rest)], "joins"),
        ] {
            let error = Flow::new("f").tasks(tasks).check().unwrap_err();
            assert!(error.to_string().contains(says), "{error} / {says}");
        }
    }

    #[test]
    fn a_flow_is_of_a_kind_and_its_key_is_one() {
        for (flow, says) in [
            (Flow::new(""), "the kind of a flow"),
            (Flow::new("k").idempotency_key(""), "the idempotency key `` cannot be used"),
        ] {
            let error = flow.task(task("a")).check().unwrap_err();
            assert!(error.to_string().contains(says), "{error} / {says}");
        }
    }

    #[test]
    fn two_lists_of_all_are_one() {
        let flow =
            Flow::new("f").tasks([task("a"), task("b"), task("c").after(["a"]).after(["b"])]);
        assert_eq!(flow.check(), Ok(()));
    }
}
