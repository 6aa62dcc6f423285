//! [`Flow`]: the description of a flow to submit.

use selvedge_core::id::FlowId;

use super::invalid_flow::InvalidFlow;
use super::names::{check_tags, check_text};
use super::task::Task;
use super::task_order::task_order;

/// A flow to submit: tasks, and the upstreams each waits for. Submit it with
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
    has_several_identities: bool,
    pub(super) tasks: Vec<Task>,
    pub(super) tags: Vec<(String, String)>,
}

/// Where a flow's id comes from.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// Random.
    Fresh,
    Given(FlowId),
    /// Derived from namespace and idempotency key.
    Key(String),
}

impl Flow {
    /// A flow of this kind, without tasks yet.
    #[must_use]
    pub fn new(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            identity: Identity::Fresh,
            has_several_identities: false,
            tasks: Vec::new(),
            tags: Vec::new(),
        }
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

    /// Sets its id; random by default. Not together with [`Flow::idempotency_key`].
    #[must_use]
    pub fn id(mut self, id: FlowId) -> Self {
        self.has_several_identities |= matches!(self.identity, Identity::Key(_));
        self.identity = Identity::Given(id);
        self
    }

    /// Makes submission idempotent: the id is derived from this key, so that submitting again
    /// returns the first flow for as long as it is kept. Submitting another flow under the key is
    /// an error.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.has_several_identities |= matches!(self.identity, Identity::Given(_));
        self.identity = Identity::Key(key.into());
        self
    }

    /// Adds a tag; the name has the form `<caller>.<name>`.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((name.into(), value.into()));
        self
    }

    /// The names of its tasks, in the order they were added in.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(Task::name)
    }

    /// Checks the flow, as [`Client::submit`](super::Client::submit) does first.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<(), InvalidFlow> {
        self.order().map(drop)
    }

    /// The tasks by index, in topological order.
    pub(super) fn order(&self) -> Result<Vec<usize>, InvalidFlow> {
        if self.tasks.is_empty() {
            return Err(InvalidFlow::Empty);
        }
        if self.has_several_identities {
            return Err(InvalidFlow::IdAndIdempotencyKey);
        }
        check_text("the kind of a flow", &self.kind)?;
        if let Identity::Key(key) = &self.identity {
            check_text("the idempotency key", key)?;
        }
        check_tags(self.tags.iter().map(|(name, _)| name))?;
        for task in &self.tasks {
            task.check()?;
        }
        task_order(&self.tasks)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use selvedge_core::call::flow::OnSatisfied;
    use selvedge_core::time::ServerTime;

    use super::super::DURATION_MAX;
    use super::super::task::PAYLOAD_BYTES_MAX;
    use super::*;

    fn flow_id() -> FlowId {
        FlowId::from_bytes([7; 16])
    }

    fn task(name: &str) -> Task {
        Task::new(name, "work")
    }

    #[test]
    fn invalid_tags_are_refused_before_anything_is_sent() {
        let flow = |tag: &str| Flow::new("k").task(Task::new("a", "k")).tag(tag, "x");
        assert_eq!(flow("billing.customer").check(), Ok(()));
        for tag in ["a", "A.b", "", "x.", "x..y", ".x"] {
            assert_eq!(flow(tag).check(), Err(InvalidFlow::Tag { tag: tag.to_owned() }));
            let task = Flow::new("k").task(Task::new("a", "k").tag(tag, "x"));
            assert_eq!(task.check(), Err(InvalidFlow::Tag { tag: tag.to_owned() }));
        }
    }

    #[test]
    fn invalid_flows_are_refused_with_the_reason() {
        let rest = OnSatisfied::LetRun;
        for (tasks, says) in [
            (vec![], "at least one task"),
            (vec![task("a"), task("a")], "two tasks are named `a`"),
            (vec![task("a").after(["b"])], "`b`, which is not a task"),
            (vec![task("a"), task("b").after(["a", "a"])], "twice"),
            (vec![task("a").after(["a"])], "wait for each other"),
            (vec![task("")], "the name of a task `` cannot be used: it is empty"),
            (vec![task("a\nb")], "`a\\nb` cannot be used: character 2"),
            (vec![Task::new("a", "x".repeat(300))], "xx…` cannot be used: it has 300 bytes"),
            (vec![task("a").idempotency_key("", DURATION_MAX)], "the idempotency key"),
            (
                vec![task("a").idempotency_key("k", Duration::ZERO)],
                "key lifetime of task `a` is zero",
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
            (vec![task("a").delay(DURATION_MAX).not_before(ServerTime(0))], "delay and not_before"),
            (vec![task("a").not_before(ServerTime(0)).delay(DURATION_MAX)], "delay and not_before"),
            (vec![task("a").retries(1, DURATION_MAX * 2)], "pause between retries"),
            (vec![task("a").attempt_timeout(DURATION_MAX * 2)], "attempt timeout"),
            (vec![task("a").deadline(DURATION_MAX * 2)], "deadline"),
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
    fn kind_and_idempotency_key_of_a_flow_are_checked() {
        for (flow, says) in [
            (Flow::new(""), "the kind of a flow"),
            (Flow::new("k").idempotency_key(""), "the idempotency key `` cannot be used"),
            (Flow::new("k").id(flow_id()).idempotency_key("x"), "an id and an idempotency key"),
            (Flow::new("k").idempotency_key("x").id(flow_id()), "an id and an idempotency key"),
        ] {
            let error = flow.task(task("a")).check().unwrap_err();
            assert!(error.to_string().contains(says), "{error} / {says}");
        }
    }

    #[test]
    fn a_setting_may_be_repeated_and_the_last_one_counts() {
        let flow = Flow::new("f").id(FlowId::from_bytes([1; 16])).id(flow_id());
        let task = task("a").delay(Duration::MAX).delay(Duration::ZERO);
        assert_eq!(flow.task(task).check(), Ok(()));
    }

    #[test]
    fn needed_capabilities_add_up() {
        let task = task("a").needs(["gpu"]).needs(["egress", "gpu"]);
        let routing = task.policy.routing_requirements.expect("there are some");
        assert_eq!(routing.required_capabilities, ["gpu", "egress"]);
    }

    #[test]
    fn two_after_lists_are_joined() {
        let flow =
            Flow::new("f").tasks([task("a"), task("b"), task("c").after(["a"]).after(["b"])]);
        assert_eq!(flow.check(), Ok(()));
    }
}
