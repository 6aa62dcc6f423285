//! [`QueueSampler`]: sets the gauges of queue depth and age from bounded reads of the indexes.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::gauge;
use selvedge_core::call::library::{PageMode, PageQuery, Pages, ScanPartition};
use selvedge_core::eligible_score::age_ms;
use selvedge_core::error::CallError;
use selvedge_core::id::LaneId;
use selvedge_core::key::{IndexPart, Key, LaneIndex, PartitionIndex};
use selvedge_core::partition::{Partition, PartitionCounts};

use super::metric_names;
use crate::deployment;
use crate::engine::Probe;
use crate::store::Store;

/// Samples the queues of a deployment. A sample is one call per flow partition, one pipeline per
/// server; at most 16 lanes.
#[derive(Debug)]
pub struct QueueSampler {
    store: Store,
    counts: PartitionCounts,
    /// Lanes that are sampled before any others.
    named: Vec<LaneId>,
    retention_ms: u64,
}

/// The sums over all partitions of one sample.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    depths: BTreeMap<(LaneId, LaneIndex), u64>,
    oldest_ms: BTreeMap<LaneId, i64>,
    lag_ms: i64,
    retention_lag_ms: BTreeMap<LaneId, i64>,
}

impl QueueSampler {
    /// A sampler of these partitions; `named` are the lanes that are sampled first.
    #[must_use]
    pub fn new(store: Store, counts: PartitionCounts, named: Vec<LaneId>) -> Self {
        Self { store, counts, named, retention_ms: 86_400_000 }
    }

    /// With another retention of ended executions than a day.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention_ms = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Reads every partition once and sets the gauges.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn sample(&self) -> Result<(), CallError> {
        let lanes = lanes_to_sample(deployment::lanes(&self.store).await?, &self.named);
        let calls: Vec<ScanPartition> = (0..self.counts.flow.get())
            .map(|index| ScanPartition { requests: self.requests(index, &lanes) })
            .collect();
        let mut sums = Sums::default();
        for (call, pages) in calls.iter().zip(self.store.call_all(&calls).await) {
            sums.add(call, pages?);
        }
        sums.publish(&lanes);
        Ok(())
    }

    fn requests(&self, index: u16, lanes: &[LaneId]) -> Vec<PageQuery> {
        let mut requests = requests(Partition::flow(index), lanes);
        for request in requests.iter_mut().filter(|request| is_of_ended(&request.index)) {
            request.lag_ms = self.retention_ms;
        }
        requests
    }
}

/// The lanes to sample, named ones first: the registry also lists lanes that are not used any more.
fn lanes_to_sample(mut lanes: Vec<LaneId>, named: &[LaneId]) -> Vec<LaneId> {
    lanes.sort_by_key(|lane| !named.contains(lane));
    if lanes.len() > LANES_MAX {
        tracing::debug!(lanes = lanes.len(), sampled = LANES_MAX, "too many lanes, sampling some");
        lanes.truncate(LANES_MAX);
    }
    lanes
}

/// Sets the gauges of the engine's own state.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double; the window is 1,024")]
pub fn publish_engine_gauges(probe: &Probe) {
    let health = probe.health();
    gauge!(metric_names::ENGINE_IN_FLIGHT).set(health.in_flight as f64);
    gauge!(metric_names::PUSH_ALIVE).set(f64::from(u8::from(health.push_alive)));
    gauge!(metric_names::READY).set(f64::from(u8::from(health.is_ready())));
    for (scanner, seconds) in probe.lags() {
        gauge!(metric_names::SCANNER_LAG, "scanner" => scanner.as_str()).set(seconds);
    }
}

fn requests(partition: Partition, lanes: &[LaneId]) -> Vec<PageQuery> {
    let request = |part: IndexPart, mode, limit| PageQuery {
        index: Key::Index(partition, part),
        mode,
        from: 0,
        limit,
        lag_ms: 0,
    };
    let of_lanes = lanes.iter().flat_map(|lane| {
        SAMPLED.iter().map(move |&(index, mode, limit)| {
            request(IndexPart::Lane(lane.clone(), index), mode, limit)
        })
    });
    let whole = DUE.iter().map(|&index| request(IndexPart::Whole(index), PageMode::Due, 1));
    of_lanes.chain(whole).collect()
}

/// Whether it is an index of ended executions, which are due when they may be purged.
fn is_of_ended(index: &Key) -> bool {
    matches!(index, Key::Index(_, IndexPart::Lane(_, LaneIndex::Terminal)))
}

impl Sums {
    fn add(&mut self, call: &ScanPartition, Pages { now, pages }: Pages) {
        for (request, page) in call.requests.iter().zip(pages) {
            // Skip an index of the wrong type; fsck reports it.
            let Ok(page) = page else { continue };
            let scores = page.members.iter().filter_map(|(_, score)| *score);
            let late = scores.clone().map(|due| now.0.saturating_sub(due)).max().unwrap_or(0);
            if request.mode == PageMode::Due && !is_of_ended(&request.index) {
                self.lag_ms = self.lag_ms.max(late);
            }
            let Key::Index(_, IndexPart::Lane(lane, index)) = &request.index else { continue };
            *self.depths.entry((lane.clone(), *index)).or_default() += page.size;
            if *index == LaneIndex::Terminal {
                let over = late.saturating_sub_unsigned(request.lag_ms).max(0);
                let known = self.retention_lag_ms.entry(lane.clone()).or_default();
                *known = over.max(*known);
            }
            if *index == LaneIndex::Eligible {
                let oldest = scores.map(|score| age_ms(now, score)).max().unwrap_or(0);
                let known = self.oldest_ms.entry(lane.clone()).or_default();
                *known = oldest.max(*known);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    fn publish(&self, lanes: &[LaneId]) {
        let seconds = |ms: i64| ms as f64 / 1_000.0;
        for ((lane, index), depth) in &self.depths {
            let (lane, depth) = (lane.to_string(), *depth as f64);
            match index {
                LaneIndex::Active => {
                    gauge!(metric_names::IN_FLIGHT, "lane" => lane.clone()).set(depth)
                }
                LaneIndex::BlockedDependencies
                | LaneIndex::BlockedBudget
                | LaneIndex::BlockedQuota
                | LaneIndex::BlockedRoute
                | LaneIndex::BlockedOperator => {
                    let reason = index.as_str().trim_start_matches("blocked:");
                    let labels = [("lane", lane.clone()), ("reason", reason.to_owned())];
                    gauge!(metric_names::BLOCKED, &labels).set(depth);
                }
                LaneIndex::Eligible
                | LaneIndex::Delayed
                | LaneIndex::Suspended
                | LaneIndex::Terminal => {}
            }
            let labels = [("lane", lane), ("index", index.as_str().to_owned())];
            gauge!(metric_names::QUEUE_DEPTH, &labels).set(depth);
        }
        for lane in lanes {
            let oldest = self.oldest_ms.get(lane).copied().unwrap_or(0);
            gauge!(metric_names::OLDEST_WAITING, "lane" => lane.to_string()).set(seconds(oldest));
        }
        for (lane, lag_ms) in &self.retention_lag_ms {
            let lag = seconds(*lag_ms);
            gauge!(metric_names::RETENTION_LAG, "lane" => lane.to_string()).set(lag);
        }
        gauge!(metric_names::CONVERGENCE_LAG).set(seconds(self.lag_ms));
    }
}

/// The indexes counted in each lane, and how many entries of each are read.
const SAMPLED: &[(LaneIndex, PageMode, u32)] = &[
    (LaneIndex::Eligible, PageMode::All, HEADS),
    (LaneIndex::Delayed, PageMode::Due, 1),
    (LaneIndex::Active, PageMode::All, 1),
    (LaneIndex::Suspended, PageMode::All, 1),
    (LaneIndex::BlockedDependencies, PageMode::All, 1),
    (LaneIndex::BlockedBudget, PageMode::All, 1),
    (LaneIndex::BlockedQuota, PageMode::All, 1),
    (LaneIndex::BlockedRoute, PageMode::All, 1),
    (LaneIndex::BlockedOperator, PageMode::All, 1),
    (LaneIndex::Terminal, PageMode::Due, 1),
];

/// The partition indexes ordered by due time.
const DUE: &[PartitionIndex] = &[
    PartitionIndex::LeaseExpiry,
    PartitionIndex::SuspensionTimeout,
    PartitionIndex::PendingWaitpointExpiry,
    PartitionIndex::AttemptTimeout,
    PartitionIndex::ExecutionDeadline,
];

/// Waiting executions whose age is read. More than one, because the index is ordered by priority
/// first.
const HEADS: u32 = 16;

/// Most lanes sampled, to bound the cost over 256 partitions.
const LANES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::time::ServerTime;

    #[test]
    fn named_lanes_are_sampled_before_others() {
        let lane = |name: String| name.parse::<LaneId>().expect("a lane");
        let registry: Vec<LaneId> = (0..LANES_MAX)
            .map(|n| lane(format!("demo-{n}")))
            .chain([lane("mail".into())])
            .collect();
        let sampled = lanes_to_sample(registry.clone(), &[lane("mail".into())]);
        assert_eq!((sampled.len(), sampled[0].as_str()), (LANES_MAX, "mail"));
        assert_eq!(lanes_to_sample(registry.clone(), &[]), registry[..LANES_MAX]);
    }

    #[test]
    fn a_sample_adds_up_over_partitions() {
        use selvedge_core::call::library::Page;
        let lane: LaneId = "a".parse().unwrap();
        let call =
            ScanPartition { requests: requests(Partition::flow(0), std::slice::from_ref(&lane)) };
        let now = ServerTime(1_790_000_000_000);
        let page = |size, score: Option<i64>| {
            let members = score.map(|score| (b"x".to_vec(), Some(score))).into_iter().collect();
            Ok(Page { size, next: None, members })
        };
        let mut pages: Vec<_> = call.requests.iter().map(|_| page(0, None)).collect();
        pages[0] = page(7, Some(now.0 - 2_000));
        pages[1] = page(1, Some(now.0 - 300));
        let mut sums = Sums::default();
        sums.add(&call, Pages { now, pages: pages.clone() });
        sums.add(&call, Pages { now, pages });
        assert_eq!(sums.depths[&(lane.clone(), LaneIndex::Eligible)], 14);
        assert_eq!(sums.oldest_ms[&lane], 2_000);
        assert_eq!(sums.lag_ms, 300);
    }

    #[test]
    fn ended_executions_are_late_after_their_retention_and_delay_nothing_else() {
        use selvedge_core::call::library::Page;
        let lane: LaneId = "a".parse().unwrap();
        let mut requests = requests(Partition::flow(0), std::slice::from_ref(&lane));
        requests.retain(|request| is_of_ended(&request.index));
        requests[0].lag_ms = 5_000;
        let now = ServerTime(1_790_000_000_000);
        let members = vec![(b"x".to_vec(), Some(now.0 - 7_000))];
        let pages = vec![Ok(Page { size: 9, next: None, members })];
        let mut sums = Sums::default();
        sums.add(&ScanPartition { requests }, Pages { now, pages });
        assert_eq!((sums.retention_lag_ms[&lane], sums.lag_ms), (2_000, 0));
        assert_eq!(sums.depths[&(lane, LaneIndex::Terminal)], 9);
    }
}
