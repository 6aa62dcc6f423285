//! The facts that checks judge, and the parsers of the replies that they come from.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::access::Access;
use super::cluster::ClusterFacts;
use crate::partition::PartitionCounts;
use crate::value::Value;

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Each server that owns data.
    pub servers: Vec<ServerFacts>,
    /// The cluster, as one of its servers describes it; none for a single server.
    pub cluster: Option<ClusterFacts>,
    /// The library that this program would install.
    pub own_library: InstalledLibrary,
    /// The partition counts that are stored; `Ok(None)` before the first start of an engine.
    pub stored_partitions: Result<Option<PartitionCounts>, String>,
    /// The partition counts that this configuration sets; none where it sets none.
    pub configured_partitions: Option<PartitionCounts>,
}

/// What was read from one server. `Err` holds why something could not be read.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// Its address: a host, a colon and a port.
    pub address: String,
    /// Why it does not answer; none when it does.
    pub silent: Option<String>,
    /// Its settings by name: the reply to `CONFIG GET`.
    pub settings: Result<BTreeMap<String, String>, String>,
    /// Its state by name: the reply to `INFO`.
    pub info: Result<BTreeMap<String, String>, String>,
    /// Its clock; none when it did not answer.
    pub clock: Option<ClockReading>,
    /// The library that is installed; `Ok(None)` when there is none.
    pub library: Result<Option<InstalledLibrary>, String>,
    /// What the user of this connection may do.
    pub access: Access,
}

impl ServerFacts {
    /// Whether it was started with a configuration file, to which it can write settings.
    pub(super) fn has_configuration_file(&self) -> bool {
        let info = self.info.as_ref().ok();
        info.and_then(|info| info.get("config_file")).is_some_and(|file| !file.is_empty())
    }
}

/// A server's clock, compared with the clock of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// How far it is ahead of this machine's clock.
    pub ahead_ms: i64,
    /// By how much the reading may be wrong: the time that it took.
    pub uncertainty_ms: u64,
}

/// One version of the function library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledLibrary {
    /// The version of the wire contract.
    pub version: String,
    /// Our revision of it; none for a library that is not ours.
    pub revision: Option<u32>,
    /// The digest of its text; empty for a library that is not ours.
    pub digest: String,
}

/// The settings in a reply to `CONFIG GET`.
#[must_use]
pub fn read_settings(reply: &Value) -> BTreeMap<String, String> {
    let Value::Array(flat) = reply else { return BTreeMap::new() };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Status(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    };
    flat.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// The fields in a reply to `INFO`: lines of a name, a colon and a value.
#[must_use]
pub fn read_info(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}
