//! Registration of this worker: its instance, lanes, kinds and capabilities, kept alive until it
//! stops.
//! See [`selvedge_core::client::RegisterWorker`].

use std::sync::Arc;

use selvedge_core::client::{DeregisterWorker, RegisterWorker, WorkerEntry};
use selvedge_core::time::ServerTime;
use tokio::time::{sleep, timeout};

use super::Shared;
use crate::client::ClientError;

/// Registers the instance. Returns the time of registration.
pub(super) async fn register(shared: &Shared) -> Result<ServerTime, ClientError> {
    shared.client.register_lanes(shared.lanes.iter()).await?;
    shared.client.run(RegisterWorker::new(entry(shared), None)).await
}

/// Registers it again and again; never returns.
pub(super) async fn send_heartbeats(shared: Arc<Shared>, since: ServerTime) {
    let entry = entry(&shared);
    loop {
        sleep(entry.interval()).await;
        let refreshed = shared.client.run(RegisterWorker::new(entry.clone(), Some(since))).await;
        if let Err(error) = refreshed {
            tracing::debug!(%error, "registration of the worker not refreshed");
        }
    }
}

/// Removes the instance from the registry. If that fails, its entry expires.
pub(super) async fn deregister(shared: &Shared) {
    let removal = shared.client.run(DeregisterWorker::new(entry(shared)));
    drop(timeout(DeregisterWorker::WITHIN, removal).await);
}

fn entry(shared: &Shared) -> WorkerEntry {
    WorkerEntry {
        namespace: shared.filter.namespace().cloned().unwrap_or_else(WorkerEntry::everywhere),
        instance: shared.instance.clone(),
        worker: shared.worker.clone(),
        lanes: shared.lanes.clone(),
        capabilities: shared.capabilities.clone(),
        kinds: shared.filter.kinds().cloned(),
        lease_ttl: shared.lease_ttl,
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use selvedge_core::command::Command;
    use selvedge_core::key::Key;
    use selvedge_core::reply::fields;

    use crate::client::Client;
    use crate::worker::{Context, Failed, Worker};

    #[tokio::test]
    async fn a_worker_removes_killed_ones_from_the_registry() {
        let client = Client::connect("memory://").await.expect("memory:// needs no server");
        let index = Key::Workers(client.namespace().clone());
        let killed = Command::write("SADD", &index, &[b"killed-1", b"killed-2"]);
        client.store().command(killed).await.expect("a set");
        let worker = Worker::builder(client.clone())
            .handler("any", |_: Context| async { Ok::<_, Failed>(()) })
            .run_until(async {});
        worker.await.expect("it starts and ends");
        let listed = client.store().command(Command::read("SMEMBERS", &index, &[])).await;
        assert_eq!(fields(listed.expect("a set")), Vec::<String>::new());
    }
}
