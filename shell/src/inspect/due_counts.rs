//! Counts the index entries that each scanner would process, without changing anything.

use selvedge_core::command::Command;
use selvedge_core::engine::{EngineConfig, ScannerName, ScannerSpec, Source, scanner_specs};
use selvedge_core::key::Key;
use selvedge_core::partition::{Family, Partition, PartitionCounts};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError};

/// The entries for one scanner on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueCount {
    /// The scanner.
    pub scanner: ScannerName,
    /// The partition.
    pub partition: Partition,
    /// Entries that are due.
    pub due: u64,
    /// Entries without a due time, which the scanner visits in every cycle.
    pub visited: u64,
}

impl Client {
    /// Counts the entries of every scanner on every partition; partitions without any are left out.
    /// Only counts are read, at most 5,000 per pipeline.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn due_counts(&self, config: &EngineConfig) -> Result<Vec<DueCount>, ClientError> {
        let now = self.server_time().await?;
        let mut found: Vec<DueCount> = Vec::new();
        for spec in scanner_specs() {
            let reads: Vec<CountRead> = partitions(*self.partitions(), spec.family)
                .flat_map(|partition| count_reads(spec, partition, config, now))
                .collect();
            for some in reads.chunks(COUNTS_PER_PIPELINE) {
                let commands = some.iter().map(|read| read.command.clone()).collect();
                for (read, reply) in some.iter().zip(self.read(commands).await?) {
                    add(&mut found, spec.name, read, &reply);
                }
            }
        }
        Ok(found)
    }
}

/// One count to read.
struct CountRead {
    partition: Partition,
    is_due: bool,
    /// How many entries do not count.
    keep: u64,
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

fn count_reads(
    spec: &ScannerSpec,
    partition: Partition,
    config: &EngineConfig,
    now: ServerTime,
) -> Vec<CountRead> {
    let (index, lanes) = (Key::index(partition), &config.lanes);
    let mut reads = Vec::new();
    for source in spec.sources {
        let due_by = |key: &Key, lag_ms: u64| {
            let by = now.0.saturating_sub_unsigned(lag_ms).to_string();
            Command::read("ZCOUNT", key, &[b"-inf", by.as_bytes()])
        };
        let mut add = |is_due, command| {
            reads.push(CountRead { partition, is_due, keep: 0, command });
        };
        match *source {
            Source::Due(whole) => add(true, due_by(&index.whole(whole), 0)),
            Source::Members(whole) | Source::Audit(whole) => {
                add(false, Command::read("SCARD", &index.whole(whole), &[]));
            }
            Source::DueInLane(of_lane, age) => {
                for lane in lanes {
                    add(true, due_by(&index.lane(lane, of_lane), age.ms(config)));
                }
            }
            Source::SurplusInLane(of_lane) => {
                let Some(keep) = config.keep_ended else { continue };
                for lane in lanes {
                    let (partition, is_due) = (partition, true);
                    let command = Command::read("ZCARD", &index.lane(lane, of_lane), &[]);
                    reads.push(CountRead { partition, is_due, keep, command });
                }
            }
            Source::SweepLane(of_lane, age) => {
                let after = format!("({}", now.0.saturating_sub_unsigned(age.ms(config)));
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
    reads
}

fn add(found: &mut Vec<DueCount>, scanner: ScannerName, read: &CountRead, reply: &Value) {
    let count = if let Value::Int(count) = reply { u64::try_from(*count).unwrap_or(0) } else { 0 };
    let count = count.saturating_sub(read.keep);
    if count == 0 {
        return;
    }
    let partition = read.partition;
    let known =
        found.last().is_some_and(|last| (last.scanner, last.partition) == (scanner, partition));
    if !known {
        found.push(DueCount { scanner, partition, due: 0, visited: 0 });
    }
    if let Some(last) = found.last_mut() {
        if read.is_due { last.due += count } else { last.visited += count }
    }
}

/// Counts read in one pipeline.
const COUNTS_PER_PIPELINE: usize = 5_000;
