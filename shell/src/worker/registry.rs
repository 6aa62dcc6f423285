//! The registry of workers: who is there, which lanes it serves, what it can do.
//!
//! The contract's functions for it name keys of different slots, which a cluster refuses; so these
//! are the same writes, key by key.

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::engine::Command;
use selvedge_core::id::LaneId;
use selvedge_core::key::Key;
use selvedge_core::time::ServerTime;
use tokio::time::sleep;

use super::Shared;
use crate::client::{ClientError, millis, write};

/// Registers the instance; answers since when.
pub(super) async fn register(shared: &Shared) -> Result<ServerTime, ClientError> {
    let since = shared.client.server_time().await?;
    shared.client.announce_lanes(shared.lanes.iter()).await?;
    shared.client.read(entries(shared, since, since)).await?;
    Ok(since)
}

/// Says again and again that the instance is there. Writing everything each time also mends what
/// a flush or a failover lost.
pub(super) async fn keep(shared: Arc<Shared>, since: ServerTime) {
    loop {
        sleep(time_to_live(&shared) / HEARTBEATS_PER_TTL).await;
        let Ok(now) = shared.client.store().server_time().await else { continue };
        let within = shared.client.store().options().call_within;
        drop(shared.client.store().run(entries(&shared, since, now), within).await);
    }
}

/// Takes the instance off the registry; when that fails, its entry lapses by itself.
pub(super) async fn leave(shared: &Shared) {
    let (namespace, instance) = (shared.client.namespace(), &shared.instance);
    let name = instance.as_str().as_bytes();
    let batch = vec![
        write("DEL", &Key::worker_alive(namespace, instance), &[]),
        write("DEL", &Key::worker_capabilities(namespace, instance), &[]),
        write("SREM", &Key::Workers(namespace.clone()), &[name]),
    ];
    drop(shared.client.store().run(batch, LEAVE_WITHIN).await);
}

fn entries(shared: &Shared, since: ServerTime, now: ServerTime) -> Vec<Command> {
    let (namespace, instance) = (shared.client.namespace(), &shared.instance);
    let capabilities = Key::worker_capabilities(namespace, instance);
    let ttl = millis(time_to_live(shared)).to_string();
    let mut lanes: Vec<&str> = shared.lanes.iter().map(LaneId::as_str).collect();
    lanes.sort_unstable();
    let fields = [
        ("worker_id", shared.worker.to_string()),
        ("lanes_csv", lanes.join(",")),
        ("caps_csv", shared.capabilities.to_string()),
        ("ttl_ms", ttl.clone()),
        ("registered_at_ms", since.to_string()),
        ("last_heartbeat_ms", now.to_string()),
    ];
    let flat: Vec<&[u8]> =
        fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect();
    vec![
        write("SET", &Key::worker_alive(namespace, instance), &[b"1", b"PX", ttl.as_bytes()]),
        write("HSET", &capabilities, &flat),
        write("PEXPIRE", &capabilities, &[ttl.as_bytes()]),
        write("SADD", &Key::Workers(namespace.clone()), &[instance.as_str().as_bytes()]),
    ]
}

fn time_to_live(shared: &Shared) -> Duration {
    (shared.lease_ttl * 2).max(TTL_LEAST)
}

const HEARTBEATS_PER_TTL: u32 = 3;
/// An entry stands this long at least; heartbeats are no reason for traffic.
const TTL_LEAST: Duration = Duration::from_secs(60);
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
