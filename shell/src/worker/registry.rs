//! Registration of this worker: its instance, lanes and capabilities, kept alive by heartbeats.
//!
//! The contract's functions for this use keys of different slots, which a cluster refuses. So the
//! same writes are sent key by key.

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::command::Command;
use selvedge_core::id::LaneId;
use selvedge_core::key::Key;
use selvedge_core::time::ServerTime;
use tokio::time::sleep;

use super::Shared;
use crate::client::{ClientError, millis};

/// Registers the instance. Returns the time of registration.
pub(super) async fn register(shared: &Shared) -> Result<ServerTime, ClientError> {
    let since = shared.client.server_time().await?;
    shared.client.register_lanes(shared.lanes.iter()).await?;
    shared.client.read(registration(shared, since, since)).await?;
    Ok(since)
}

/// Sends heartbeats; never returns. Each one writes the whole entry, which also restores what a
/// flush or a failover lost.
pub(super) async fn send_heartbeats(shared: Arc<Shared>, since: ServerTime) {
    loop {
        sleep(time_to_live(&shared) / HEARTBEATS_PER_TTL).await;
        let Ok(now) = shared.client.store().server_time().await else { continue };
        let within = shared.client.store().options().call_within;
        drop(shared.client.store().run(registration(&shared, since, now), within).await);
    }
}

/// Removes the instance from the registry. If that fails, its entry expires.
pub(super) async fn deregister(shared: &Shared) {
    let (namespace, instance) = (shared.client.namespace(), &shared.instance);
    let name = instance.as_str().as_bytes();
    let batch = vec![
        Command::write("DEL", &Key::worker_alive(namespace, instance), &[]),
        Command::write("DEL", &Key::worker_capabilities(namespace, instance), &[]),
        Command::write("SREM", &Key::Workers(namespace.clone()), &[name]),
    ];
    drop(shared.client.store().run(batch, DEREGISTER_WITHIN).await);
}

fn registration(shared: &Shared, since: ServerTime, now: ServerTime) -> Vec<Command> {
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
        Command::write(
            "SET",
            &Key::worker_alive(namespace, instance),
            &[b"1", b"PX", ttl.as_bytes()],
        ),
        Command::write("HSET", &capabilities, &flat),
        Command::write("PEXPIRE", &capabilities, &[ttl.as_bytes()]),
        Command::write("SADD", &Key::Workers(namespace.clone()), &[instance.as_str().as_bytes()]),
    ]
}

fn time_to_live(shared: &Shared) -> Duration {
    (shared.lease_ttl * 2).max(TTL_LEAST)
}

const HEARTBEATS_PER_TTL: u32 = 3;
/// An entry lives at least this long, so that heartbeats cause little traffic.
const TTL_LEAST: Duration = Duration::from_secs(60);
const DEREGISTER_WITHIN: Duration = Duration::from_secs(2);
