//! What can be wrong with a flow, in words.

use thiserror::Error;

use super::task::{PAYLOAD_BYTES_MAX, PRIORITY_MAX};

/// What is wrong with a flow. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidFlow {
    /// No tasks.
    #[error("a flow needs at least one task")]
    Empty,
    /// A name, a kind or an idempotency key that is none.
    #[error("{what} `{}` cannot be used: {reason}", shown(.text))]
    Name {
        /// What it is to be.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tag that the store would refuse.
    #[error("`{tag}` is no name for a tag; write `caller.name`, as in `billing.customer`")]
    Tag {
        /// Its name.
        tag: String,
    },
    /// Two tasks with one name.
    #[error("two tasks are named `{task}`; names are unique within a flow")]
    Duplicate {
        /// The name.
        task: String,
    },
    /// It waits for something that is not there.
    #[error("task `{task}` waits for `{upstream}`, which is no task of this flow")]
    Unknown {
        /// The task.
        task: String,
        /// What it names.
        upstream: String,
    },
    /// It names an upstream twice.
    #[error("task `{task}` waits for `{upstream}` twice")]
    Twice {
        /// The task.
        task: String,
        /// What it names.
        upstream: String,
    },
    /// It waits for more than one call can carry.
    #[error("task `{task}` waits for {of} others; at most 2048 are possible, join them in steps")]
    TooManyUpstreams {
        /// The task.
        task: String,
        /// How many.
        of: usize,
    },
    /// Tasks that wait for each other.
    #[error("these tasks wait for each other, or for such: {}", .tasks.join(", "))]
    Cycle {
        /// Their names.
        tasks: Vec<String>,
    },
    /// Several rules about how many have to succeed.
    #[error("task `{task}` has several joins; one of after, after_any, after_quorum per task")]
    Groups {
        /// The task.
        task: String,
    },
    /// A join of nobody.
    #[error(
        "task `{task}` waits for some of an empty list; name at least one task, or none at all"
    )]
    Nobody {
        /// The task.
        task: String,
    },
    /// A quorum that cannot be reached, or is always.
    #[error("task `{task}` wants {k} of {of} others to succeed; that must be from 1 to {of}")]
    Quorum {
        /// The task.
        task: String,
        /// How many it wants.
        k: u32,
        /// Of how many.
        of: usize,
    },
    /// A lane that is none.
    #[error("task `{task}`: {reason}")]
    Lane {
        /// The task.
        task: String,
        /// What is wrong with its lane.
        reason: String,
    },
    /// Capabilities that are none.
    #[error("task `{task}`: {reason}")]
    Needs {
        /// The task.
        task: String,
        /// What is wrong with them.
        reason: String,
    },
    /// An input that is too large.
    #[error(
        "the payload of task `{task}` has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are possible"
    )]
    Payload {
        /// The task.
        task: String,
        /// Its size.
        bytes: usize,
    },
    /// A delay, pause, timeout or deadline that no clock reaches.
    #[error("the {what} of task `{task}` is too long; at most 1000 years are possible")]
    Span {
        /// The task.
        task: String,
        /// Which of them.
        what: &'static str,
    },
    /// A timeout, deadline or life that is over before anything can happen.
    #[error("the {what} of task `{task}` is zero; leave it out, or give it some time")]
    NoTime {
        /// The task.
        task: String,
        /// Which of them.
        what: &'static str,
    },
    /// A priority out of range.
    #[error("task `{task}` has priority {priority}; the highest is {PRIORITY_MAX}")]
    Priority {
        /// The task.
        task: String,
        /// What it asks for.
        priority: u32,
    },
}

/// A text as it can be printed, and not at any length.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARACTERS).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", start.escape_debug())
}

/// Enough to find it in a file.
const SHOWN_CHARACTERS: usize = 40;
