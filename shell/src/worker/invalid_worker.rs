//! [`InvalidWorker`]: settings that a worker cannot run with, and their limits.

use std::time::Duration;

use selvedge_core::capability::InvalidCapabilities;
use selvedge_core::id::InvalidId;
use selvedge_core::work_filter::InvalidWorkFilter;
use thiserror::Error;

use crate::client::InvalidName;

/// Most handlers of one worker at the same time.
pub const CONCURRENCY_MAX: usize = 65_536;
/// Shortest lease: a busy scheduler would lose shorter ones.
pub const LEASE_MIN: Duration = Duration::from_millis(200);
/// Longest lease: executions of a dead worker are reclaimed within a day.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Shortest poll interval.
pub const POLL_EVERY_MIN: Duration = Duration::from_millis(50);

/// A setting that a worker cannot run with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidWorker {
    /// It has no handler, and could run nothing.
    #[error("a worker needs at least one handler")]
    NoHandler,
    /// The name cannot be used.
    #[error("invalid worker name: {0}")]
    Name(InvalidName),
    /// The kind of a handler cannot be used.
    #[error("invalid kind of a handler: {0}")]
    Kind(InvalidName),
    /// A handler takes a state that the worker was not given.
    #[error(
        "the handler of kind `{kind}` takes State<{state}>; give the worker one with .state(…)"
    )]
    NoState {
        /// The kind of the handler.
        kind: String,
        /// The type of the state.
        state: &'static str,
    },
    /// The kinds of the handlers are too long together.
    #[error(transparent)]
    Kinds(InvalidWorkFilter),
    /// A lane cannot be used.
    #[error(transparent)]
    Lane(InvalidId),
    /// A capability cannot be used.
    #[error(transparent)]
    Capability(InvalidCapabilities),
    /// The concurrency is out of range.
    #[error("a worker cannot run {0} handlers at the same time: from 1 to {CONCURRENCY_MAX} can")]
    Concurrency(usize),
    /// The lease is out of range.
    #[error("a lease cannot last {0:?}: it lasts from {LEASE_MIN:?} to {LEASE_MAX:?}")]
    Lease(Duration),
    /// The poll interval is too short.
    #[error("a worker cannot poll every {0:?}: the shortest interval is {POLL_EVERY_MIN:?}")]
    PollInterval(Duration),
}
