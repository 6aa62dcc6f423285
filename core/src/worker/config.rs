//! The configuration of a worker.

use alloc::vec::Vec;
use core::time::Duration;

use crate::capability::Capabilities;
use crate::id::{LaneId, WorkerId, WorkerInstanceId};
use crate::lane_state::LaneStates;
use crate::partition::PartitionCounts;
use crate::work_filter::WorkFilter;

/// The configuration of a worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Its name.
    pub worker: WorkerId,
    /// This instance of it. Leases belong to an instance, so every start needs a new one.
    pub instance: WorkerInstanceId,
    /// How many partitions the deployment has.
    pub partitions: PartitionCounts,
    /// The lanes that it serves.
    pub lanes: Vec<LaneId>,
    /// The states of lanes, as they were read last.
    pub lane_states: LaneStates,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it takes: it claims nothing else.
    pub filter: WorkFilter,
    /// How many handlers may run at the same time.
    pub capacity: usize,
    /// How long a lease lasts without renewal.
    pub lease_ttl: Duration,
    /// How often one lane of one partition is polled without a push.
    pub poll_every: Duration,
    /// How long handlers may go on running after [`Input::Drain`](super::Input::Drain).
    pub drain_within: Duration,
    /// How long a batch may stay unanswered.
    pub batch_timeout: Duration,
    /// How long what a handler asks for, an admission and the release of a slot are repeated.
    pub retry_for: Duration,
}

impl WorkerConfig {
    /// A configuration with the defaults of a worker of this name.
    #[must_use]
    pub fn new(worker: WorkerId, instance: WorkerInstanceId) -> Self {
        Self {
            worker,
            instance,
            partitions: PartitionCounts::DEFAULT,
            lanes: alloc::vec![LaneId::default_lane()],
            lane_states: LaneStates::default(),
            capabilities: Capabilities::default(),
            filter: WorkFilter::all(),
            capacity: 16,
            lease_ttl: Duration::from_secs(30),
            poll_every: Duration::from_secs(1),
            drain_within: Duration::from_secs(20),
            batch_timeout: Duration::from_secs(5),
            retry_for: Duration::from_secs(15),
        }
    }

    /// How long a batch may stay unanswered if the store answers within `call_within`: what is not
    /// answered is repeated within the same lease, unless that is very short.
    #[must_use]
    pub fn batch_timeout_within(call_within: Duration, lease_ttl: Duration) -> Duration {
        call_within.min((lease_ttl / 2).max(BATCH_TIMEOUT_MIN))
    }

    pub(super) fn lease_ttl_ms(&self) -> u64 {
        u64::try_from(self.lease_ttl.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A busy server may need this long for an answer.
const BATCH_TIMEOUT_MIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_answered_is_repeated_within_its_lease() {
        let (short, long) = (Duration::from_secs(4), Duration::from_secs(30));
        let call_within = Duration::from_secs(5);
        let timeout = |lease| WorkerConfig::batch_timeout_within(call_within, lease);
        assert_eq!(timeout(short), short / 2);
        assert_eq!(timeout(long), call_within);
        assert_eq!(timeout(Duration::from_millis(100)), BATCH_TIMEOUT_MIN);
    }
}
