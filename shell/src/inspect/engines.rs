//! Lists the engines that registered themselves.

use selvedge_core::command::Command;
use selvedge_core::key::Key;
use selvedge_core::reply::fields;
use selvedge_core::time::ServerTime;

use crate::client::{Client, ClientError};
use crate::engine::registration;

/// An engine that registered itself within the last hour.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStatus {
    /// The id of this run of it.
    pub id: String,
    /// The machine it runs on.
    pub host: String,
    /// The id of its process.
    pub pid: u32,
    /// The version of the crate.
    pub version: String,
    /// When it started.
    pub started_at: ServerTime,
    /// When it renewed its registration.
    pub seen_at: ServerTime,
    /// How far its slowest scanner is behind, in milliseconds.
    pub lag_ms: u64,
    /// Its slowest scanner.
    pub slowest_scanner: String,
    /// Why it is not ready; `None` if it is.
    pub why_not_ready: Option<String>,
    /// Whether it renewed its registration in the last 15 seconds.
    pub is_alive: bool,
}

impl Client {
    /// The engines that registered themselves, those that started first before others.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn engines(&self) -> Result<Vec<EngineStatus>, ClientError> {
        let now = self.server_time().await?;
        let reply = self.read_one(Command::read("HGETALL", &Key::Engines, &[])).await?;
        let mut engines: Vec<EngineStatus> = registration::pairs(fields(reply))
            .into_iter()
            .filter(|(id, _)| id != registration::STOPPED)
            .map(|(id, found)| EngineStatus {
                is_alive: found.is_alive(now),
                id,
                host: found.host,
                pid: found.pid,
                version: found.version,
                started_at: ServerTime(found.started_at),
                seen_at: ServerTime(found.seen_at),
                lag_ms: found.lag_ms,
                slowest_scanner: found.slowest_scanner,
                why_not_ready: found.why_not_ready,
            })
            .collect();
        engines.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        Ok(engines)
    }
}
