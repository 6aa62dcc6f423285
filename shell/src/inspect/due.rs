//! What a round of all scanners would look at, counted without touching any of it.

use selvedge_core::engine::scan::{SCANNERS, Source, Spec};
use selvedge_core::engine::{Command, ScannerName};
use selvedge_core::id::LaneId;
use selvedge_core::key::Key;
use selvedge_core::partition::{Family, Partition, PartitionCounts};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError};

/// What waits for one scanner on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueCount {
    /// The scanner.
    pub scanner: ScannerName,
    /// The partition.
    pub partition: Partition,
    /// Entries whose time has come.
    pub due: u64,
    /// Entries without a time, which it visits to see whether there is anything to do.
    pub visited: u64,
}

impl Client {
    /// Counts what every scanner would find on every partition; where there is nothing, nothing is
    /// told. Only counts are read, in bounded pipelines.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn due(&self, lanes: &[LaneId]) -> Result<Vec<DueCount>, ClientError> {
        let now = self.server_time().await?;
        let mut found: Vec<DueCount> = Vec::new();
        for spec in SCANNERS.iter().map(|scanner| scanner.spec()) {
            let looks: Vec<Look> = partitions(*self.partitions(), spec.family)
                .flat_map(|partition| looks(spec, partition, lanes, now))
                .collect();
            for some in looks.chunks(LOOKS_AT_ONCE) {
                let reads = some.iter().map(|look| look.command.clone()).collect();
                for (look, reply) in some.iter().zip(self.read(reads).await?) {
                    add(&mut found, spec.name, look, &reply);
                }
            }
        }
        Ok(found)
    }
}

/// One count to read.
struct Look {
    partition: Partition,
    is_due: bool,
    command: Command,
}

fn partitions(counts: PartitionCounts, family: Family) -> impl Iterator<Item = Partition> {
    let count = match family {
        Family::Flow => counts.flow,
        Family::Budget => counts.budget,
        Family::Quota => counts.quota,
    };
    (0..count.get()).map(move |index| Partition { family, index })
}

fn looks(spec: &Spec, partition: Partition, lanes: &[LaneId], now: ServerTime) -> Vec<Look> {
    let index = Key::index(partition);
    let mut looks = Vec::new();
    for source in spec.sources {
        let due_by = |key: &Key, lag_ms: u64| {
            let by = now.0.saturating_sub_unsigned(lag_ms).to_string();
            Command::read("ZCOUNT", key, &[b"-inf", by.as_bytes()])
        };
        let mut add = |is_due, command| looks.push(Look { partition, is_due, command });
        match *source {
            Source::Due(whole) => add(true, due_by(&index.whole(whole), 0)),
            Source::Members(whole) => {
                add(false, Command::read("SCARD", &index.whole(whole), &[]));
            }
            Source::DueInLane(of_lane, lag_ms) => {
                for lane in lanes {
                    add(true, due_by(&index.lane(lane, of_lane), lag_ms));
                }
            }
            Source::SweepLane(of_lane, younger_ms) => {
                let after = format!("({}", now.0.saturating_sub_unsigned(younger_ms));
                for lane in lanes {
                    let key = index.lane(lane, of_lane);
                    add(false, Command::read("ZCOUNT", &key, &[after.as_bytes(), b"+inf"]));
                }
            }
            Source::AllInLane(of_lane) => {
                for lane in lanes {
                    add(false, Command::read("ZCARD", &index.lane(lane, of_lane), &[]));
                }
            }
        }
    }
    looks
}

fn add(found: &mut Vec<DueCount>, scanner: ScannerName, look: &Look, reply: &Value) {
    let count = if let Value::Int(count) = reply { u64::try_from(*count).unwrap_or(0) } else { 0 };
    if count == 0 {
        return;
    }
    let partition = look.partition;
    let known =
        found.last().is_some_and(|last| (last.scanner, last.partition) == (scanner, partition));
    if !known {
        found.push(DueCount { scanner, partition, due: 0, visited: 0 });
    }
    if let Some(last) = found.last_mut() {
        if look.is_due { last.due += count } else { last.visited += count }
    }
}

/// Counts that are read in one pipeline.
const LOOKS_AT_ONCE: usize = 5_000;
