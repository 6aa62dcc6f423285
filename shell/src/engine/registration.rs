//! Registers a running engine, so that operators see who runs: a field of one hash, which is
//! renewed, and removed by other engines when it is old.

use std::time::Duration;

use selvedge_core::command::Command;
use selvedge_core::error::ServerError;
#[cfg(feature = "inspect")]
use selvedge_core::explain::Engines;
use selvedge_core::key::Key;
use selvedge_core::reply::{fields, text};
use selvedge_core::time::ServerTime;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::driver::Parts;

/// What an engine says about itself, as it is stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Registration {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) started_at: i64,
    pub(crate) seen_at: i64,
    pub(crate) lag_ms: u64,
    pub(crate) slowest_scanner: String,
    /// Why it is not ready; `None` if it is.
    pub(crate) why_not_ready: Option<String>,
}

/// Renews the registration of an engine until this is dropped.
pub(super) async fn keep(parts: Parts, engine: Uuid) {
    let (host, mut started_at) = (host(), None);
    loop {
        if let Err(error) = renew(&parts, engine, &host, &mut started_at).await {
            // Nobody but `selvedge engines` misses it.
            tracing::debug!(%error, "engine not registered");
        }
        sleep(RENEW_EVERY).await;
    }
}

async fn renew(
    parts: &Parts,
    engine: Uuid,
    host: &str,
    started_at: &mut Option<ServerTime>,
) -> Result<(), ServerError> {
    let now = parts.store.server_time().await?;
    let error = parts.store.connection_error().map(|error| error.text);
    let health = parts.record.health(Instant::now(), error);
    let registration = Registration {
        host: host.to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: started_at.get_or_insert(now).0,
        seen_at: now.0,
        lag_ms: u64::try_from(health.scan_lag.as_millis()).unwrap_or(u64::MAX),
        slowest_scanner: health.slowest_scanner.as_str().to_owned(),
        why_not_ready: health.why_not_ready(),
    };
    let (name, json) = (engine.to_string(), serde_json::to_vec(&registration).unwrap_or_default());
    let store = &parts.store;
    store.command(Command::write("HSET", &Key::Engines, &[name.as_bytes(), &json])).await?;
    store.command(Command::write("PEXPIRE", &Key::Engines, &[KEPT_MS.as_bytes()])).await?;
    let known = fields(store.command(Command::read("HGETALL", &Key::Engines, &[])).await?);
    for (old, _) in pairs(known).iter().filter(|(_, one)| now.0 - one.seen_at > FORGOTTEN_MS) {
        store.command(Command::write("HDEL", &Key::Engines, &[old.as_bytes()])).await?;
    }
    Ok(())
}

/// The registrations in the reply of an `HGETALL`; one that cannot be read is an old one.
pub(crate) fn pairs(flat: Vec<String>) -> Vec<(String, Registration)> {
    let mut flat = flat.into_iter();
    let mut all = Vec::new();
    while let (Some(name), Some(json)) = (flat.next(), flat.next()) {
        all.push((name, serde_json::from_str(&json).unwrap_or_default()));
    }
    all
}

#[cfg(feature = "inspect")]
/// Whether an engine runs, by the registrations in the reply of an `HGETALL`.
pub(crate) fn presence(now: ServerTime, flat: Vec<String>) -> Engines {
    let known = pairs(flat);
    let runs = |(name, one): &&(String, Registration)| name != STOPPED && one.is_alive(now);
    let alive = known.iter().filter(runs).count();
    let last = known.iter().map(|(_, one)| one.seen_at).max().filter(|at| *at > 0);
    match (alive, last) {
        (0, Some(at)) => Engines::GoneSince(ServerTime(at)),
        (0, None) => Engines::Never,
        (alive, _) => Engines::Alive(alive),
    }
}

#[cfg(feature = "inspect")]
impl Registration {
    /// Whether it was renewed lately.
    pub(crate) fn is_alive(&self, now: ServerTime) -> bool {
        let age = u128::try_from(now.0.saturating_sub(self.seen_at)).unwrap_or(0);
        age <= 3 * RENEW_EVERY.as_millis()
    }
}

/// Removes the registration of an engine that stops, and notes when it did.
pub(super) async fn leave(parts: &Parts, engine: Uuid) {
    let name = engine.to_string();
    let gone = async {
        let seen_at = parts.store.server_time().await?.0;
        let stopped = Registration { seen_at, ..Registration::default() };
        let json = serde_json::to_vec(&stopped).unwrap_or_default();
        let stopped = Command::write("HSET", &Key::Engines, &[STOPPED.as_bytes(), &json]);
        parts.store.command(stopped).await?;
        parts.store.command(Command::write("HDEL", &Key::Engines, &[name.as_bytes()])).await
    };
    if let Ok(Ok(reply)) = timeout(LEAVE_WITHIN, gone).await {
        tracing::debug!(removed = text(reply), "engine registration removed");
    }
}

/// The name of this machine.
fn host() -> String {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = named.or_else(|| std::env::var("HOSTNAME").ok());
    named.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// The field that says when the last engine stopped that did so by itself.
pub(crate) const STOPPED: &str = "stopped";
/// How often a registration is renewed. One that is older than three times this is of an engine
/// that does not run, or cannot reach the store.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(5);
/// A registration that is older than this is removed by any other engine.
const FORGOTTEN_MS: i64 = 3_600_000;
/// When no engine is left, all of them are forgotten after a day.
const KEPT_MS: &str = "86400000";
/// A stop does not wait longer than this.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);
