//! The in-process store: the function library in a Lua VM over an in-memory keyspace.

use std::sync::{Mutex, MutexGuard, PoisonError};

use selvedge_core::command::{Answer, Command};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};
use selvedge_lua::library;
use tokio::sync::broadcast;

use super::StoreError;
use super::subscription::Push;
use crate::clock::wall_clock_us;

pub(super) struct Memory {
    host: Mutex<Host>,
    published: broadcast::Sender<(Vec<u8>, Vec<u8>)>,
    /// How far its clock is ahead of the wall clock.
    clock_offset_us: i64,
}

impl Memory {
    pub(super) fn open(clock_offset_us: i64) -> Result<Self, StoreError> {
        let mut host = Host::new(HostConfig::default());
        if let Value::Error(text) = host.call(&["FUNCTION", "LOAD", library::SOURCE]) {
            return Err(StoreError::Library(ServerError::from_reply(text)));
        }
        let published = broadcast::Sender::new(MESSAGES_BUFFERED);
        Ok(Self { host: Mutex::new(host), published, clock_offset_us })
    }

    pub(super) fn run(&self, batch: &[Command]) -> Vec<Answer> {
        let mut host = self.lock();
        host.set_now_us(wall_clock_us().saturating_add_signed(self.clock_offset_us));
        let answers =
            batch.iter().map(|command| Answer::Applied(host.call(&command.argv))).collect();
        // Under the lock, so that messages keep the order of the commands.
        for message in host.take_published() {
            // Fails only if nobody is subscribed.
            let _ = self.published.send((message.channel, message.payload));
        }
        answers
    }

    pub(super) fn subscribe(&self, channels: Vec<Vec<u8>>) -> MemorySubscription {
        MemorySubscription {
            published: self.published.subscribe(),
            channels,
            first_gap_sent: false,
        }
    }

    /// After a panic in a command, the keyspace is used as that command left it.
    fn lock(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription to the in-process store.
pub(super) struct MemorySubscription {
    published: broadcast::Receiver<(Vec<u8>, Vec<u8>)>,
    channels: Vec<Vec<u8>>,
    first_gap_sent: bool,
}

impl MemorySubscription {
    pub(super) async fn next(&mut self) -> Push {
        if !self.first_gap_sent {
            self.first_gap_sent = true;
            return Push::Gap;
        }
        loop {
            match self.published.recv().await {
                Ok((channel, payload)) if self.channels.contains(&channel) => {
                    let channel = String::from_utf8_lossy(&channel).into_owned();
                    return Push::Message { channel, payload };
                }
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return Push::Gap,
                // The store was dropped: no message can follow.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// Messages buffered for a slow reader; more become a gap.
const MESSAGES_BUFFERED: usize = 4_096;
