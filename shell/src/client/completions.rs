//! [`CompletionListener`]: delivers pushes about ended executions to the waiters of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selvedge_core::client::Input;
use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;
use selvedge_core::push::{Channel, Hint};
use tokio::sync::mpsc;
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
    waiters: Mutex<BTreeMap<ExecutionId, Vec<Registered>>>,
    next: AtomicU64,
}

struct Registered {
    number: u64,
    inputs: mpsc::Sender<Input>,
}

/// One registered waiter and the executions it waits for. Dropping it deregisters it.
pub(super) struct Waiter {
    waiters: Arc<Waiters>,
    number: u64,
    inputs: mpsc::Receiver<Input>,
    ids: Vec<ExecutionId>,
}

impl Waiter {
    /// The next push about one of the executions, or a gap.
    pub(super) async fn next(&mut self) -> Input {
        match self.inputs.recv().await {
            Some(input) => input,
            // The senders live as long as this waiter is registered.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        for id in &self.ids {
            if let Some(all) = waiters.get_mut(id) {
                all.retain(|registered| registered.number != self.number);
                if all.is_empty() {
                    waiters.remove(id);
                }
            }
        }
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ExecutionId, Vec<Registered>>> {
        // No code panics while holding the lock, and the map is valid after every step.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, id: ExecutionId) {
        if let Some(waiting) = self.lock().get(&id) {
            let input = Input::Push(Hint::Ended(id));
            waiting.iter().for_each(|registered| registered.send(&input));
        }
    }

    fn gap(&self) {
        let waiters = self.lock();
        let mut told = BTreeSet::new();
        for registered in waiters.values().flatten() {
            if told.insert(registered.number) {
                registered.send(&Input::PushGap);
            }
        }
    }
}

impl Registered {
    fn send(&self, input: &Input) {
        // When the queue is full, the waiter has yet to take inputs that make it read: that read
        // comes later than this push.
        let _ = self.inputs.try_send(input.clone());
    }
}

impl CompletionListener {
    pub(super) fn new(store: Store, partitions: u16) -> Self {
        Self { store, partitions, waiters: Arc::default(), listener: Mutex::new(None) }
    }

    /// Registers a waiter. Read the state after this, not before: an execution that ends in between
    /// wakes the waiter.
    pub(super) fn register(&self, ids: &[ExecutionId]) -> Waiter {
        let number = self.waiters.next.fetch_add(1, Ordering::Relaxed);
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let mut waiters = self.waiters.lock();
        for id in ids {
            let registered = Registered { number, inputs: sender.clone() };
            waiters.entry(id.clone()).or_default().push(registered);
        }
        drop(waiters);
        self.listen_to(ids.iter().map(ExecutionId::partition).collect());
        Waiter { waiters: self.waiters.clone(), number, inputs, ids: ids.to_vec() }
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
                    Push::Gap => waiters.gap(),
                    Push::Message { channel, payload } => {
                        if let Ok(Hint::Ended(id)) = Hint::read(&channel, &payload) {
                            waiters.ended(id);
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
/// Inputs that a waiter may have to take yet.
const INPUTS_MAX: usize = 64;
