//! [`CompletionListener`]: wakes waiters when an execution they wait for may have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;
use selvedge_core::push::{Channel, Hint};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::store::{Push, Store};

/// Listens for ended executions, for all waiters of a client, over one subscription that the first
/// waiter opens.
pub(super) struct CompletionListener {
    store: Store,
    partitions: u16,
    waiters: Arc<Waiters>,
    listener: Mutex<Option<Listener>>,
}

struct Listener {
    partitions: BTreeSet<Partition>,
    _task: AbortOnDropHandle<()>,
}

/// The waiters of each execution.
#[derive(Default)]
struct Waiters {
    waiters: Mutex<BTreeMap<ExecutionId, Vec<Arc<Notify>>>>,
}

/// One registered waiter and the executions it waits for. Dropping it deregisters it.
pub(super) struct Waiter {
    waiters: Arc<Waiters>,
    notify: Arc<Notify>,
    ids: Vec<ExecutionId>,
}

impl Waiter {
    /// Returns when one of the executions may have ended: after a push, or after [`POLL_EVERY`],
    /// because a cluster may lose messages between its nodes. With several executions, it first
    /// waits a little for more of them to end.
    pub(super) async fn changed(&self) {
        let poll_at = Instant::now() + POLL_EVERY;
        if timeout_at(poll_at, self.notify.notified()).await.is_ok() && self.ids.len() > 1 {
            tokio::time::sleep(COALESCE_WITHIN).await;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        for id in &self.ids {
            if let Some(all) = waiters.get_mut(id) {
                all.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
                if all.is_empty() {
                    waiters.remove(id);
                }
            }
        }
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ExecutionId, Vec<Arc<Notify>>>> {
        // No code panics while holding the lock, and the map is valid after every step.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, id: &ExecutionId) {
        for notify in self.lock().get(id).into_iter().flatten() {
            notify.notify_one();
        }
    }

    fn notify_all(&self) {
        for notify in self.lock().values().flatten() {
            notify.notify_one();
        }
    }
}

impl CompletionListener {
    pub(super) fn new(store: Store, partitions: u16) -> Self {
        Self { store, partitions, waiters: Arc::default(), listener: Mutex::new(None) }
    }

    /// Registers a waiter. Read the state after this, not before: an execution that ends in between
    /// wakes the waiter.
    pub(super) fn register(&self, ids: &[ExecutionId]) -> Waiter {
        let notify = Arc::new(Notify::new());
        let mut waiters = self.waiters.lock();
        for id in ids {
            waiters.entry(id.clone()).or_default().push(notify.clone());
        }
        drop(waiters);
        self.listen_to(ids.iter().map(ExecutionId::partition).collect());
        Waiter { waiters: self.waiters.clone(), notify, ids: ids.to_vec() }
    }

    /// Subscribes to these partitions, unless that is done. A new subscription with all channels
    /// replaces the former one; its first item is a gap, which wakes all waiters.
    fn listen_to(&self, wanted: BTreeSet<Partition>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let mut partitions = match &*listener {
            Some(running) if wanted.is_subset(&running.partitions) => return,
            Some(running) => running.partitions.clone(),
            None => BTreeSet::new(),
        };
        partitions.extend(wanted);
        if partitions.len() > PARTITION_CHANNELS_MAX {
            partitions = (0..self.partitions).map(Partition::flow).collect();
        }
        let channels: Vec<String> =
            partitions.iter().map(|partition| Channel::Ended(*partition).to_string()).collect();
        let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
        let (mut pushes, waiters) = (self.store.subscribe(&channels), self.waiters.clone());
        let task = tokio::spawn(async move {
            loop {
                match pushes.next().await {
                    Push::Gap => waiters.notify_all(),
                    Push::Message { channel, payload } => {
                        if let Ok(Hint::Ended(id)) = Hint::read(&channel, &payload) {
                            waiters.notify(&id);
                        }
                    }
                }
            }
        });
        *listener = Some(Listener { partitions, _task: AbortOnDropHandle::new(task) });
    }
}

/// With more partitions than this, subscribe to all of them instead of resubscribing for each.
const PARTITION_CHANNELS_MAX: usize = 8;
/// Executions that end within this time are read together.
const COALESCE_WITHIN: Duration = Duration::from_millis(5);
/// How often a waiter reads without a push.
const POLL_EVERY: Duration = Duration::from_secs(15);
