//! The store inside the process: the library in its own Lua VM over an in-memory keyspace.

use std::sync::{Mutex, MutexGuard, PoisonError};

use selvedge_core::engine::{Answer, Command};
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
    /// How far its clock is ahead of this machine's.
    ahead_us: i64,
}

impl Memory {
    pub(super) fn open(ahead_us: i64) -> Result<Self, StoreError> {
        let mut host = Host::new(HostConfig::default());
        if let Value::Error(text) = host.call(&["FUNCTION", "LOAD", library::SOURCE]) {
            return Err(StoreError::Library(text));
        }
        let published = broadcast::Sender::new(MESSAGES_KEPT);
        Ok(Self { host: Mutex::new(host), published, ahead_us })
    }

    pub(super) fn run(&self, batch: &[Command]) -> Vec<Answer> {
        let mut host = self.lock();
        host.set_now_us(wall_clock_us().saturating_add_signed(self.ahead_us));
        let answers =
            batch.iter().map(|command| Answer::Applied(host.call(&command.argv))).collect();
        // Under the lock, so that messages keep the order of the commands.
        for message in host.take_published() {
            // Nobody listening is fine.
            let _ = self.published.send((message.channel, message.payload));
        }
        answers
    }

    pub(super) fn listen(&self, channels: Vec<Vec<u8>>) -> Listener {
        Listener { published: self.published.subscribe(), channels, greeted: false }
    }

    /// A command that panicked has been answered to nobody; the keyspace is as it left it.
    fn lock(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription to the in-process store.
pub(super) struct Listener {
    published: broadcast::Receiver<(Vec<u8>, Vec<u8>)>,
    channels: Vec<Vec<u8>>,
    greeted: bool,
}

impl Listener {
    pub(super) async fn next(&mut self) -> Push {
        if !self.greeted {
            self.greeted = true;
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
                // The store is gone, and with it everything that could ever be said.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// Messages that a slow listener may be behind before it is told of a gap.
const MESSAGES_KEPT: usize = 4_096;
