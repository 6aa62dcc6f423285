//! [`InvalidFlow`]: why a flow or task is refused before it is sent.

use selvedge_core::capability::InvalidCapabilities;
use selvedge_core::id::InvalidId;
use thiserror::Error;

use super::names::InvalidName;
use super::task::{PAYLOAD_BYTES_MAX, PRIORITY_MAX};

/// Why a flow or task is invalid. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidFlow {
    /// The flow has no tasks.
    #[error("a flow needs at least one task")]
    Empty,
    /// The flow has two sources of its id.
    #[error("a flow has an id and an idempotency key; use one of them")]
    IdAndIdempotencyKey,
    /// A name, kind or idempotency key is invalid.
    #[error("{what} `{}` cannot be used: {reason}", shown(.text))]
    Name {
        /// What it names.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// A tag name is invalid.
    #[error("invalid tag name `{tag}`; write `caller.name`, as in `billing.customer`")]
    Tag {
        /// Its name.
        tag: String,
    },
    /// Two tasks have the same name.
    #[error("two tasks are named `{task}`; names are unique within a flow")]
    DuplicateTask {
        /// The name.
        task: String,
    },
    /// An upstream is not a task of the flow.
    #[error("task `{task}` waits for `{upstream}`, which is not a task of this flow")]
    UnknownUpstream {
        /// The task.
        task: String,
        /// What it names.
        upstream: String,
    },
    /// A task that is started without a flow has an upstream.
    #[error(
        "task `{task}` waits for `{upstream}`, but is started without a flow: submit both as a flow"
    )]
    UpstreamWithoutFlow {
        /// The task.
        task: String,
        /// What it names.
        upstream: String,
    },
    /// A task names an upstream twice.
    #[error("task `{task}` waits for `{upstream}` twice")]
    DuplicateUpstream {
        /// The task.
        task: String,
        /// What it names.
        upstream: String,
    },
    /// A task has too many upstreams.
    #[error("task `{task}` has {of} upstreams; the limit is 100000, join them in steps")]
    TooManyUpstreams {
        /// The task.
        task: String,
        /// How many.
        of: usize,
    },
    /// Tasks wait for each other.
    #[error("cycle: these tasks wait for each other, or for those that do: {}", .tasks.join(", "))]
    Cycle {
        /// Their names.
        tasks: Vec<String>,
    },
    /// A task has several joins.
    #[error("task `{task}` has several joins; use one of after, after_any, after_quorum")]
    SeveralJoins {
        /// The task.
        task: String,
    },
    /// A join has no upstreams.
    #[error("task `{task}` joins an empty list; name at least one upstream, or leave out the join")]
    EmptyJoin {
        /// The task.
        task: String,
    },
    /// A quorum is zero or more than there are upstreams.
    #[error("task `{task}` has a quorum of {k} with {of} upstreams; it must be from 1 to {of}")]
    Quorum {
        /// The task.
        task: String,
        /// The quorum.
        k: u32,
        /// How many upstreams it has.
        of: usize,
    },
    /// A lane is invalid.
    #[error("task `{task}`: {reason}")]
    Lane {
        /// The task.
        task: String,
        /// What is wrong with the lane.
        reason: InvalidId,
    },
    /// A needed capability is invalid.
    #[error("task `{task}`: {reason}")]
    Needs {
        /// The task.
        task: String,
        /// What is wrong with it.
        reason: InvalidCapabilities,
    },
    /// A payload is too large.
    #[error("the payload of task `{task}` has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}")]
    PayloadTooLarge {
        /// The task.
        task: String,
        /// Its size.
        bytes: usize,
    },
    /// A payload cannot be written as JSON.
    #[error("the payload of task `{task}` cannot be written as JSON: {reason}")]
    PayloadNotJson {
        /// The task.
        task: String,
        /// Why not.
        reason: String,
    },
    /// A delay, pause, timeout or deadline is too long.
    #[error("the {what} of task `{task}` is too long; the limit is 1000 years")]
    DurationTooLong {
        /// The task.
        task: String,
        /// Which of them.
        what: &'static str,
    },
    /// A task has both a delay and a time to start at.
    #[error("task `{task}` has delay and not_before; use one of them")]
    DelayAndNotBefore {
        /// The task.
        task: String,
    },
    /// The deadline ends before the delay does.
    #[error("the deadline of task `{task}` is over before its delay: it could never run")]
    DeadlineBeforeDelay {
        /// The task.
        task: String,
    },
    /// A timeout, deadline or key lifetime is zero.
    #[error("the {what} of task `{task}` is zero; leave it out, or give it some time")]
    ZeroDuration {
        /// The task.
        task: String,
        /// Which of them.
        what: &'static str,
    },
    /// A priority is too high.
    #[error("task `{task}` has priority {priority}; the highest is {PRIORITY_MAX}")]
    PriorityTooHigh {
        /// The task.
        task: String,
        /// Its priority.
        priority: u32,
    },
}

/// A text escaped and truncated for an error message.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARACTERS).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", start.escape_debug())
}

/// Characters shown of a text: enough to find it in a file.
const SHOWN_CHARACTERS: usize = 40;
