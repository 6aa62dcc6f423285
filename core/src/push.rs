//! Push messages besides the contract's completions: what became ready, what ended, whose lease was
//! lost, what wrote output, what a quota holds back, what is due soon, which lane was paused or
//! resumed. A push is a hint where to look; if it is lost, polling finds the same.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use thiserror::Error;

use crate::id::{AttemptIndex, ExecutionId, LaneId, QuotaPolicyId, WorkerInstanceId};
use crate::partition::Partition;

const READY: &str = "ff:ready:";
const ENDED: &str = "ff:ended:";
const LOST: &str = "ff:lost:";
const FRAMES: &str = "ff:frames:";
const HELD: &str = "ff:held";
const FREED: &str = "ff:freed";
const LANES: &str = "ff:lanes";
const DUE: &str = "ff:due";

/// A channel; its `Display` is the name on the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Partitions on which an execution of the lane became eligible.
    Ready(LaneId),
    /// Executions of a partition that became terminal.
    Ended(Partition),
    /// Executions that a worker instance lost.
    Lost(WorkerInstanceId),
    /// An execution wrote or closed its output.
    Frames(ExecutionId),
    /// Partitions on which a quota holds back an execution.
    Held,
    /// Quotas that have a free slot again.
    Freed,
    /// Lanes whose state an operator has set.
    Lanes,
    /// Partitions on which something is due soon.
    Due,
}

impl Channel {
    /// Whether this is the name of one of our channels.
    #[must_use]
    pub fn is_ours(name: &[u8]) -> bool {
        [HELD, FREED, LANES, DUE].iter().any(|known| name == known.as_bytes())
            || [READY, ENDED, LOST, FRAMES].iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(lane) => write!(f, "{READY}{lane}"),
            Self::Ended(partition) => write!(f, "{ENDED}{partition}"),
            Self::Lost(instance) => write!(f, "{LOST}{instance}"),
            Self::Frames(execution) => write!(f, "{FRAMES}{execution}"),
            Self::Held => f.write_str(HELD),
            Self::Freed => f.write_str(FREED),
            Self::Lanes => f.write_str(LANES),
            Self::Due => f.write_str(DUE),
        }
    }
}

/// A message, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// At least one execution of the lane became eligible on this partition.
    Ready(LaneId, Partition),
    /// The execution became terminal; its record says how.
    Ended(ExecutionId),
    /// The execution was ended or its lease revoked while this instance held it.
    Lost(WorkerInstanceId, ExecutionId),
    /// The output of this attempt grew, or was closed.
    Frames(ExecutionId, AttemptIndex),
    /// A quota holds at least one execution of this partition back.
    Held(Partition),
    /// A slot of this quota is free again.
    Freed(QuotaPolicyId),
    /// An operator has set the state of this lane.
    Lane(LaneId),
    /// Something is due on this partition after that time.
    Due(Partition, Duration),
}

/// A message that cannot be read; it is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid message on channel `{channel}`")]
#[non_exhaustive]
pub struct InvalidHint {
    /// The channel it came on.
    pub channel: String,
}

impl Hint {
    /// Reads a message.
    ///
    /// # Errors
    /// When the channel is not ours, or the payload is not what it carries.
    pub fn read(channel: &str, payload: &[u8]) -> Result<Self, InvalidHint> {
        let invalid = || InvalidHint { channel: channel.to_string() };
        let text = core::str::from_utf8(payload).map_err(|_| invalid())?;
        match channel {
            HELD => return text.parse().map(Self::Held).map_err(|_| invalid()),
            FREED => return text.parse().map(Self::Freed).map_err(|_| invalid()),
            LANES => return text.parse().map(Self::Lane).map_err(|_| invalid()),
            DUE => return read_due(text).ok_or_else(invalid),
            _ => {}
        }
        if let Some(lane) = channel.strip_prefix(READY) {
            let lane = lane.parse().map_err(|_| invalid())?;
            let partition = text.parse().map_err(|_| invalid())?;
            return Ok(Self::Ready(lane, partition));
        }
        if let Some(execution) = channel.strip_prefix(FRAMES) {
            let execution = execution.parse().map_err(|_| invalid())?;
            return Ok(Self::Frames(execution, text.parse().map_err(|_| invalid())?));
        }
        let execution: ExecutionId = text.parse().map_err(|_| invalid())?;
        if channel.starts_with(ENDED) {
            return Ok(Self::Ended(execution));
        }
        match channel.strip_prefix(LOST) {
            Some(instance) => Ok(Self::Lost(WorkerInstanceId::new(instance), execution)),
            None => Err(invalid()),
        }
    }
}

/// A partition and how many milliseconds are left.
fn read_due(text: &str) -> Option<Hint> {
    let (partition, wait) = text.split_once(' ')?;
    Some(Hint::Due(partition.parse().ok()?, Duration::from_millis(wait.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "{fp:7}:550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn a_message_of_each_channel_is_read() {
        let lane: LaneId = "gpu:a".parse().unwrap();
        let channel = Channel::Ready(lane.clone()).to_string();
        let partition = Partition::flow(7);
        assert_eq!(Hint::read(&channel, b"{fp:7}"), Ok(Hint::Ready(lane, partition)));
        let channel = Channel::Ended(partition).to_string();
        assert_eq!(channel, "ff:ended:{fp:7}");
        let id: ExecutionId = ID.parse().unwrap();
        assert_eq!(Hint::read(&channel, ID.as_bytes()), Ok(Hint::Ended(id.clone())));
        let instance = WorkerInstanceId::new("w:1");
        let channel = Channel::Lost(instance.clone()).to_string();
        assert_eq!(Hint::read(&channel, ID.as_bytes()), Ok(Hint::Lost(instance, id.clone())));
        let channel = Channel::Frames(id.clone()).to_string();
        assert_eq!(Hint::read(&channel, b"2"), Ok(Hint::Frames(id, AttemptIndex(2))));
        let channel = Channel::Held.to_string();
        assert_eq!(Hint::read(&channel, b"{fp:7}"), Ok(Hint::Held(partition)));
        let quota = "550e8400-e29b-41d4-a716-446655440000";
        let channel = Channel::Freed.to_string();
        let freed = Hint::Freed(quota.parse().unwrap());
        assert_eq!(Hint::read(&channel, quota.as_bytes()), Ok(freed));
        let channel = Channel::Lanes.to_string();
        assert_eq!(Hint::read(&channel, b"gpu"), Ok(Hint::Lane("gpu".parse().unwrap())));
        let due = Hint::Due(partition, Duration::from_millis(1_500));
        assert_eq!(Hint::read(&Channel::Due.to_string(), b"{fp:7} 1500"), Ok(due));
    }

    #[test]
    fn strangers_are_refused() {
        for (channel, payload) in [
            ("ff:dag:completions", ID),
            ("ff:ready:default", ID),
            ("ff:ready:default", "{fp:65536}"),
            ("ff:ended:{fp:7}", "{fp:7}"),
            ("ff:lost:w", ""),
            ("ff:held", "default"),
            ("ff:freed", "{fp:7}"),
            ("ff:lanes", ""),
            ("ff:due", "{fp:7}"),
            ("ff:due", "{fp:7} soon"),
            ("ff:freed:", "550e8400-e29b-41d4-a716-446655440000"),
        ] {
            assert!(Hint::read(channel, payload.as_bytes()).is_err(), "{channel} {payload}");
        }
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_reader(channel: String, payload: alloc::vec::Vec<u8>) {
            let _ = Hint::read(&channel, &payload);
        }
    }
}
