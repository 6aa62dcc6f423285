//! What the tests share: configurations, and data that is made with the library's functions where
//! that is short and written directly where a test is about what a crash left behind.

use selvedge_core::engine::{AuditPace, EngineConfig, Observation, ScanCounts, ScannerName};
use selvedge_core::partition::{Family, Partition, PartitionCounts};
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;
use std::num::NonZeroU16;
use std::time::Duration;

/// One partition of each family, and only the named scanners: the others sleep for an hour after
/// their first run.
pub(crate) fn only(scanners: &[ScannerName]) -> EngineConfig {
    let one = NonZeroU16::MIN;
    let counts = PartitionCounts { flow: one, budget: one, quota: one };
    let mut config = EngineConfig::default().with_partitions(counts).with_audit(AuditPace::UNPACED);
    // Tests write due entries behind the library's back, which no push tells of.
    config.longest_sleep = Duration::ZERO;
    for &name in ScannerName::ALL {
        if !scanners.contains(&name) {
            config.intervals.insert(name, Duration::from_secs(3_600));
        }
    }
    config
}

/// Only one scanner, once a second, over so many flow partitions.
pub(crate) fn every_second(name: ScannerName, partitions: u16) -> EngineConfig {
    let mut config = only(&[name]);
    config.partitions.flow = NonZeroU16::new(partitions).unwrap();
    config.intervals.insert(name, Duration::from_secs(1));
    config
}

/// A harness whose engine has done its first scans.
pub(crate) fn settled(config: EngineConfig) -> Harness {
    let mut harness = Harness::new();
    harness.start(config);
    harness.run_for(10);
    harness
}

/// The `n`-th execution of the one partition.
pub(crate) fn execution(n: usize) -> String {
    format!("{{fp:0}}:00000000-0000-4000-8000-{n:012}")
}

/// The key of an execution's record.
pub(crate) fn core(id: &str) -> String {
    format!("ff:exec:{{fp:0}}:{id}:core")
}

/// An index of the default lane.
pub(crate) fn lane(name: &str) -> String {
    format!("ff:idx:{{fp:0}}:lane:default:{name}")
}

/// A due delayed execution on any partition and lane; answers the key of its record.
pub(crate) fn delay(harness: &mut Harness, partition: u16, lane: &str, n: usize) -> String {
    let id = format!("{{fp:{partition}}}:00000000-0000-4000-8000-{n:012}");
    let core = format!("ff:exec:{{fp:{partition}}}:{id}:core");
    harness.run(&format!(
        "HSET {core} lifecycle_phase runnable eligibility_state not_eligible_until_time \
         delay_until 500 public_state delayed lane_id {lane}"
    ));
    harness.run(&format!("ZADD ff:idx:{{fp:{partition}}}:lane:{lane}:delayed 500 {id}"));
    core
}

/// The hash slot of a flow partition.
pub(crate) fn flow_slot(index: u16) -> u16 {
    Partition { family: Family::Flow, index }.slot()
}

/// Whether there is such a key.
pub(crate) fn exists(harness: &mut Harness, key: &str) -> bool {
    harness.call(&["EXISTS", key]) == Value::Int(1)
}

/// Calls that stories make as clients.
pub(crate) trait ClientCalls {
    /// A plain command, spelled with blanks between its words.
    fn run(&mut self, command: &str) -> Value;
    /// A field of a hash, "" when it is not there.
    fn field(&mut self, key: &str, field: &str) -> String;
    /// Creates an execution in the default lane.
    fn create(&mut self, id: &str, policy: &str);
    /// Claims an execution for a worker with this lease time.
    fn claim(&mut self, id: &str, lease_ms: u64);
    /// What scanner `name` counted, over all scans so far.
    fn counts(&self, name: ScannerName) -> ScanCounts;
}

impl ClientCalls for Harness {
    fn run(&mut self, command: &str) -> Value {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = self.call(&words);
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
        reply
    }

    fn field(&mut self, key: &str, field: &str) -> String {
        match self.call(&["HGET", key, field]) {
            Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
            Value::Nil => String::new(),
            other => panic!("{key} {field}: {other:?}"),
        }
    }

    fn create(&mut self, id: &str, policy: &str) {
        let reply = self.call(&[
            "FCALL",
            "ff_create_execution",
            "8",
            &core(id),
            &format!("ff:exec:{{fp:0}}:{id}:payload"),
            &format!("ff:exec:{{fp:0}}:{id}:policy"),
            &format!("ff:exec:{{fp:0}}:{id}:tags"),
            &lane("eligible"),
            "ff:noop:{fp:0}",
            "ff:idx:{fp:0}:execution_deadline",
            "ff:idx:{fp:0}:all_executions",
            id,
            "ns",
            "default",
            "kind",
            "0",
            "maker",
            policy,
            "payload",
            "",
            "",
            "",
            "",
            "0",
        ]);
        assert_ok(&reply);
    }

    fn claim(&mut self, id: &str, lease_ms: u64) {
        let exec = |part: &str| format!("ff:exec:{{fp:0}}:{id}:{part}");
        let expires = (self.now_ms() + 60_000).to_string();
        self.call(&[
            "HSET",
            &exec("claim_grant"),
            "worker_id",
            "w",
            "worker_instance_id",
            "wi",
            "grant_expires_at",
            &expires,
        ]);
        let uuid = |n: &str| format!("22222222-2222-4222-8222-{n:0>12}");
        let number = &id[id.len() - 12..];
        let reply = self.call(&[
            "FCALL",
            "ff_claim_execution",
            "14",
            &core(id),
            &exec("claim_grant"),
            &lane("eligible"),
            "ff:idx:{fp:0}:lease_expiry",
            "ff:idx:{fp:0}:worker:wi:leases",
            "ff:noop:{fp:0}",
            "ff:noop:{fp:0}",
            "ff:noop:{fp:0}",
            &exec("attempts"),
            &exec("lease:current"),
            &exec("lease:history"),
            &lane("active"),
            "ff:idx:{fp:0}:attempt_timeout",
            "ff:idx:{fp:0}:execution_deadline",
            id,
            "w",
            "wi",
            "default",
            "",
            &uuid(number),
            &lease_ms.to_string(),
            "1000",
            &uuid(number),
            "{}",
            "",
            "",
        ]);
        assert_ok(&reply);
    }

    fn counts(&self, name: ScannerName) -> ScanCounts {
        let mut sum = ScanCounts::default();
        for (_, fact) in &self.facts {
            if let Observation::ScanDone { scanner, counts, .. } = fact
                && *scanner == name
            {
                sum.add(counts);
            }
        }
        sum
    }
}

/// Demands a success envelope.
pub(crate) fn assert_ok(reply: &Value) {
    let Value::Array(elements) = reply else { panic!("{reply:?}") };
    assert_eq!(elements.first(), Some(&Value::Int(1)), "{reply:?}");
}
