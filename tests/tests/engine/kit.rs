//! What the stories share: small worlds, made with the library's own functions where that is
//! short, and by hand where the story is about what a crash left behind.

use selvedge_core::engine::{EngineConfig, Observation, ScannerName, Tally};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::value::Value;
use selvedge_tests::rig::Rig;
use std::num::NonZeroU16;
use std::time::Duration;

/// One partition of each family, and only the named scanners: the others sleep for an hour after
/// their first run.
pub(crate) fn only(scanners: &[ScannerName]) -> EngineConfig {
    let one = NonZeroU16::MIN;
    let mut config = EngineConfig {
        partitions: PartitionCounts { flow: one, budget: one, quota: one },
        ..EngineConfig::default()
    };
    for &name in ScannerName::ALL {
        if !scanners.contains(&name) {
            config.intervals.insert(name, Duration::from_secs(3_600));
        }
    }
    config
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

/// Calls that stories make as clients.
pub(crate) trait World {
    /// A plain command, spelled with blanks between its words.
    fn run(&mut self, command: &str) -> Value;
    /// A field of a hash, "" when it is not there.
    fn field(&mut self, key: &str, field: &str) -> String;
    /// Creates an execution in the default lane.
    fn create(&mut self, id: &str, policy: &str);
    /// Claims an execution for a worker with this lease time.
    fn claim(&mut self, id: &str, lease_ms: u64);
    /// What scanner `name` counted, over all scans so far.
    fn tally(&self, name: ScannerName) -> Tally;
}

impl World for Rig {
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

    fn tally(&self, name: ScannerName) -> Tally {
        let mut sum = Tally::default();
        for (_, fact) in &self.facts {
            if let Observation::ScanDone { scanner, tally, .. } = fact
                && *scanner == name
            {
                sum.add(tally);
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
