//! [`InvalidInput`]: why an argument is refused before anything is sent.

use std::time::Duration;

use selvedge_core::id::{FlowId, InvalidId};
use thiserror::Error;

use super::names::InvalidName;
use super::task::{PAYLOAD_BYTES_MAX, PRIORITY_MAX};

/// Why an argument of a call is invalid. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// A name, kind or key cannot be used.
    #[error("the {what} cannot be used: {reason}")]
    Name {
        /// What it names.
        what: &'static str,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// An id or a lane cannot be used.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// More than all of it is done.
    #[error("{0} percent: percent must be 0 to 100")]
    Percent(u16),
    /// A page is empty or too large.
    #[error("limit must be from 1 to {most}, got {limit}")]
    PageLimit {
        /// What was asked for.
        limit: u32,
        /// The most that one page has.
        most: u32,
    },
    /// A priority is too high.
    #[error("invalid priority {0}: the highest is {PRIORITY_MAX}")]
    PriorityTooHigh(u32),
    /// The payload of a signal is too large.
    #[error("the payload of the signal has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}")]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A text is no signal ticket. The message does not quote it: it is a credential.
    #[error("invalid {part} in the signal ticket")]
    Ticket {
        /// The part that cannot be read.
        part: &'static str,
    },
    /// A summary cannot be written as JSON.
    #[error("the summary cannot be written as JSON: {reason}")]
    Summary {
        /// Why not.
        reason: String,
    },
    /// A suspension waits for no signal.
    #[error("no signal to wait for: name at least one")]
    NoSignal,
    /// A suspension waits for a signal of an invalid name.
    #[error("invalid signal name {name:?}: {reason}")]
    SignalName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// The timeout of a suspension is zero.
    #[error("the timeout of a suspension is zero; leave it out, or give it some time")]
    ZeroTimeout,
    /// The timeout of a suspension is too long.
    #[error("the timeout of a suspension is longer than 1,000 years")]
    TimeoutTooLong(Duration),
    /// A limit is zero: in the store that would stand for no limit.
    #[error("the {what} must be above zero; leave it out for no limit")]
    ZeroLimit {
        /// The limit.
        what: String,
    },
    /// A quota with a rate has no window.
    #[error("a quota with a rate needs a window of at least one second")]
    NoQuotaWindow,
    /// The window of a quota is not a whole number of seconds.
    #[error("the window of a quota must be whole seconds")]
    QuotaWindow(Duration),
    /// A budget cannot reset at this interval.
    #[error("a budget resets at an interval from 1 ms to 1,000 years, or never")]
    ResetInterval(Duration),
    /// What is to be given up is not lost.
    #[error("the record of flow {0} exists: `selvedge flow cancel {0}` ends it")]
    FlowExists(FlowId),
}
