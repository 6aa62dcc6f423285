//! Waiting for ends, by push. A waiter first says what it waits for, then reads: whatever ends in
//! between is told. Whenever messages may have been missed, it reads again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge_core::engine::Command;
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use selvedge_core::push::{Channel, Hint};
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::read::{as_bytes, fields};
use super::{Client, ClientError, MemberCursor};
use crate::store::{Push, Store};

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The execution.
    pub id: ExecutionId,
    /// How it ended.
    pub outcome: TerminalOutcome,
    /// What its handler gave back: any bytes; empty for nothing.
    pub result: Vec<u8>,
    /// Why it failed, expired or was cancelled; empty otherwise.
    pub reason: String,
}

impl Outcome {
    /// Whether it ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome == TerminalOutcome::Success
    }
}

/// How a flow ended, task by task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowOutcome {
    /// The flow.
    pub id: FlowId,
    /// How each of its tasks ended.
    pub tasks: BTreeMap<ExecutionId, TerminalOutcome>,
}

impl FlowOutcome {
    /// How many tasks ended like this.
    #[must_use]
    pub fn count(&self, outcome: TerminalOutcome) -> usize {
        self.tasks.values().filter(|ended| **ended == outcome).count()
    }

    /// Whether no task failed or expired.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.count(TerminalOutcome::Failed) + self.count(TerminalOutcome::Expired) == 0
    }
}

impl Client {
    /// Waits until an execution has ended, for as long as it takes. No polling: the store tells.
    ///
    /// # Errors
    /// When there is none (any more), or the store does not answer.
    pub async fn wait(&self, id: &ExecutionId) -> Result<Outcome, ClientError> {
        let interest = self.ends().watch(std::slice::from_ref(id));
        loop {
            if let Some(outcome) = self.outcome(id).await? {
                return Ok(outcome);
            }
            interest.told().await;
        }
    }

    /// The same with a limit.
    ///
    /// # Errors
    /// The same, and [`ClientError::TimedOut`].
    pub async fn wait_within(
        &self,
        id: &ExecutionId,
        limit: Duration,
    ) -> Result<Outcome, ClientError> {
        timeout(limit, self.wait(id)).await.unwrap_or(Err(ClientError::TimedOut(limit)))
    }

    /// How an execution ended; `None` while it has not.
    ///
    /// # Errors
    /// When there is none, or the store does not answer.
    pub async fn outcome(&self, id: &ExecutionId) -> Result<Option<Outcome>, ClientError> {
        let keys = Key::execution(id);
        let names: [&[u8]; 3] = [b"terminal_outcome", b"failure_reason", b"cancellation_reason"];
        let reads = vec![
            Command::read("HMGET", &keys.core(), &names),
            Command::read("GET", &keys.result(), &[]),
        ];
        let mut replies = self.read(reads).await?.into_iter();
        let record = replies.next().unwrap_or(Value::Nil);
        if matches!(&record, Value::Array(all) if all.first() == Some(&Value::Nil)) {
            return Err(ClientError::NotFound { kind: "execution", id: id.to_string() });
        }
        let record = fields(record);
        let field = |at: usize| record.get(at).map(String::as_str).unwrap_or_default();
        let outcome = field(0).parse().unwrap_or(TerminalOutcome::None);
        if outcome == TerminalOutcome::None {
            return Ok(None);
        }
        let reason = if outcome == TerminalOutcome::Cancelled { field(2) } else { field(1) };
        let result = replies.next().and_then(as_bytes).unwrap_or_default();
        Ok(Some(Outcome { id: id.clone(), outcome, result, reason: reason.to_owned() }))
    }

    /// Waits until all tasks of a flow have ended, for as long as it takes.
    ///
    /// # Errors
    /// When there is no such flow (any more), or the store does not answer.
    pub async fn wait_flow(&self, id: FlowId) -> Result<FlowOutcome, ClientError> {
        let mut open = self.members(id).await?;
        let mut tasks = BTreeMap::new();
        let watched: Vec<ExecutionId> = open.iter().cloned().collect();
        let interest = self.ends().watch(&watched);
        loop {
            for id in self.ended(&open, &mut tasks).await? {
                open.remove(&id);
            }
            if open.is_empty() {
                return Ok(FlowOutcome { id, tasks });
            }
            interest.told().await;
        }
    }

    /// The same with a limit.
    ///
    /// # Errors
    /// The same, and [`ClientError::TimedOut`].
    pub async fn wait_flow_within(
        &self,
        id: FlowId,
        limit: Duration,
    ) -> Result<FlowOutcome, ClientError> {
        timeout(limit, self.wait_flow(id)).await.unwrap_or(Err(ClientError::TimedOut(limit)))
    }

    async fn members(&self, id: FlowId) -> Result<BTreeSet<ExecutionId>, ClientError> {
        self.flow(id).await?;
        let mut members = BTreeSet::new();
        let mut from = Some(MemberCursor::default());
        while let Some(cursor) = from {
            let (page, next) = self.flow_members(id, cursor, READ_AT_ONCE).await?;
            members.extend(page.into_iter().map(|listed| listed.id));
            from = next;
        }
        Ok(members)
    }

    /// Notes which of the open ones have ended, and answers them. One that is gone had ended.
    async fn ended(
        &self,
        open: &BTreeSet<ExecutionId>,
        tasks: &mut BTreeMap<ExecutionId, TerminalOutcome>,
    ) -> Result<Vec<ExecutionId>, ClientError> {
        let open: Vec<ExecutionId> = open.iter().cloned().collect();
        let mut over = Vec::new();
        for ids in open.chunks(usize::try_from(READ_AT_ONCE).unwrap_or(usize::MAX)) {
            let reads = ids
                .iter()
                .map(|id| {
                    Command::read("HMGET", &Key::execution(id).core(), &[b"terminal_outcome"])
                })
                .collect();
            for (id, reply) in ids.iter().zip(self.read(reads).await?) {
                let word = fields(reply).into_iter().next().unwrap_or_default();
                let outcome = word.parse().unwrap_or(TerminalOutcome::None);
                if outcome != TerminalOutcome::None {
                    tasks.insert(id.clone(), outcome);
                    over.push(id.clone());
                } else if word.is_empty() {
                    over.push(id.clone());
                }
            }
        }
        Ok(over)
    }
}

/// All that a client waits for, over one connection that is opened by the first waiter.
pub(super) struct Ends {
    store: Store,
    partitions: u16,
    board: Arc<Board>,
    listener: Mutex<Option<Listener>>,
}

struct Listener {
    partitions: BTreeSet<Partition>,
    _task: AbortOnDropHandle<()>,
}

/// Who waits for what.
#[derive(Default)]
struct Board {
    waiters: Mutex<BTreeMap<ExecutionId, Vec<Arc<Notify>>>>,
}

/// What one waiter waits for; it is taken off the board when this goes.
pub(super) struct Interest {
    board: Arc<Board>,
    notify: Arc<Notify>,
    ids: Vec<ExecutionId>,
}

impl Interest {
    /// Returns when one of them may have ended. Ends that follow each other closely are told
    /// together, and a slow look covers what a cluster loses between its own nodes.
    pub(super) async fn told(&self) {
        let slow_look = Instant::now() + SLOW_LOOK;
        if timeout_at(slow_look, self.notify.notified()).await.is_ok() && self.ids.len() > 1 {
            tokio::time::sleep(TOGETHER).await;
        }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut waiters = self.board.lock();
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

impl Board {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ExecutionId, Vec<Arc<Notify>>>> {
        // Nobody panics while holding it, and what it holds is whole at any time.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, id: &ExecutionId) {
        for notify in self.lock().get(id).into_iter().flatten() {
            notify.notify_one();
        }
    }

    fn tell_all(&self) {
        for notify in self.lock().values().flatten() {
            notify.notify_one();
        }
    }
}

impl Ends {
    pub(super) fn new(store: Store, partitions: u16) -> Self {
        Self { store, partitions, board: Arc::default(), listener: Mutex::new(None) }
    }

    /// Puts a waiter on the board. Read after this, not before.
    pub(super) fn watch(&self, ids: &[ExecutionId]) -> Interest {
        let notify = Arc::new(Notify::new());
        let mut waiters = self.board.lock();
        for id in ids {
            waiters.entry(id.clone()).or_default().push(notify.clone());
        }
        drop(waiters);
        self.listen_to(ids.iter().map(ExecutionId::partition).collect());
        Interest { board: self.board.clone(), notify, ids: ids.to_vec() }
    }

    /// Sees to it that these partitions are heard. A connection with more channels takes the place
    /// of the one before; its first word is a gap, which lets all waiters read again.
    fn listen_to(&self, wanted: BTreeSet<Partition>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let mut partitions = match &*listener {
            Some(running) if wanted.is_subset(&running.partitions) => return,
            Some(running) => running.partitions.clone(),
            None => BTreeSet::new(),
        };
        partitions.extend(wanted);
        if partitions.len() > PARTITIONS_ONE_BY_ONE {
            partitions = (0..self.partitions).map(Partition::flow).collect();
        }
        let channels: Vec<String> =
            partitions.iter().map(|partition| Channel::Ended(*partition).to_string()).collect();
        let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
        let (mut pushes, board) = (self.store.subscribe(&channels), self.board.clone());
        let task = tokio::spawn(async move {
            loop {
                match pushes.next().await {
                    Push::Gap => board.tell_all(),
                    Push::Message { channel, payload } => {
                        if let Ok(Hint::Ended(id)) = Hint::read(&channel, &payload) {
                            board.tell(&id);
                        }
                    }
                }
            }
        });
        *listener = Some(Listener { partitions, _task: AbortOnDropHandle::new(task) });
    }
}

/// Whoever waits on more partitions than this listens to all, instead of connecting again for each.
const PARTITIONS_ONE_BY_ONE: usize = 8;
/// Executions that are read in one round trip.
const READ_AT_ONCE: u32 = 500;
/// Ends of one flow that come within this time are read together.
const TOGETHER: Duration = Duration::from_millis(5);
/// How often a waiter looks without having been told.
const SLOW_LOOK: Duration = Duration::from_secs(15);
