//! [`Subscription`]: messages from channels, with a marker where messages may have been missed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubStream};
use selvedge_core::error::ServerError;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::memory::MemorySubscription;
use super::topology::Topology;
use crate::retry::Backoff;

/// One item of a [`Subscription`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Push {
    /// A message was published.
    Message {
        /// The channel.
        channel: String,
        /// The message.
        payload: Vec<u8>,
    },
    /// Messages may have been missed until now; from here on they are delivered. Always the first
    /// item. Read the current state when it comes.
    Gap,
}

/// Messages from some channels, over a connection of its own that is reopened when it ends.
pub struct Subscription(pub(super) Source);

/// Why the last try to connect failed.
type Refused = Arc<Mutex<Option<String>>>;

pub(super) enum Source {
    Memory(MemorySubscription),
    Servers {
        pushes: mpsc::Receiver<Push>,
        alive: Arc<AtomicBool>,
        refused: Refused,
        _listener: AbortOnDropHandle<()>,
    },
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}

impl Subscription {
    /// The next item. Waits while there is no connection; after reconnecting, a [`Push::Gap`] comes
    /// first. Never ends.
    pub async fn next(&mut self) -> Push {
        match &mut self.0 {
            Source::Memory(listener) => listener.next().await,
            Source::Servers { pushes, .. } => match pushes.recv().await {
                Some(push) => push,
                None => std::future::pending().await,
            },
        }
    }

    /// Whether the subscription is connected at this moment.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            Source::Memory(_) => true,
            Source::Servers { alive, .. } => alive.load(Ordering::Relaxed),
        }
    }

    /// Why the last try to connect failed; `None` while it is connected.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match &self.0 {
            Source::Memory(_) => None,
            Source::Servers { refused, .. } => {
                refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
        }
    }

    pub(super) fn start(topology: Arc<Topology>, channels: Vec<Vec<u8>>) -> Self {
        let (sender, pushes) = mpsc::channel(PUSHES_BUFFERED);
        let alive = Arc::new(AtomicBool::new(false));
        let refused = Refused::default();
        let sender = PushSender {
            sender,
            alive: alive.clone(),
            refused: refused.clone(),
            gap_pending: false,
        };
        let listener = AbortOnDropHandle::new(tokio::spawn(listen(topology, channels, sender)));
        Self(Source::Servers { pushes, alive, refused, _listener: listener })
    }
}

/// Passes items to the reader without waiting: items that do not fit become a gap.
struct PushSender {
    sender: mpsc::Sender<Push>,
    alive: Arc<AtomicBool>,
    refused: Refused,
    gap_pending: bool,
}

impl PushSender {
    fn on_refused(&self, why: Option<String>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Tells of messages that did not fit, as soon as there is room: perhaps no other push comes.
    fn send_pending_gap(&mut self) {
        if self.gap_pending {
            self.gap_pending = self.sender.try_send(Push::Gap).is_err();
        }
    }

    fn send(&mut self, push: Push) {
        self.send_pending_gap();
        if self.gap_pending || self.sender.try_send(push).is_err() {
            self.gap_pending = true;
        }
    }
}

async fn listen(topology: Arc<Topology>, channels: Vec<Vec<u8>>, mut sender: PushSender) {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    loop {
        match subscribe(&topology, &channels).await {
            Ok(pubsub) => {
                let since = Instant::now();
                sender.on_refused(None);
                sender.alive.store(true, Ordering::Relaxed);
                sender.send(Push::Gap);
                forward(pubsub, &mut sender).await;
                sender.alive.store(false, Ordering::Relaxed);
                tracing::warn!("push connection lost, reconnecting");
                if since.elapsed() > PAUSE_LONGEST {
                    backoff.reset();
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot open push connection, retrying");
                sender.on_refused(Some(error));
            }
        }
        backoff.wait().await;
    }
}

async fn subscribe(topology: &Topology, channels: &[Vec<u8>]) -> Result<PubSub, String> {
    let within = topology.factory.connector.connect_within;
    let opening = async {
        let address = topology.next_subscribe_address();
        let named = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let stream =
            topology.factory.connector.stream(&address).await.map_err(|error| named(&error))?;
        let credentials = topology.factory.connector.credentials();
        let mut pubsub = PubSub::new(&credentials, stream).await.map_err(|error| named(&error))?;
        pubsub.subscribe(channels).await.map_err(|error| named(&server_words(&error)))?;
        Ok(pubsub)
    };
    timeout(within, opening)
        .await
        .unwrap_or_else(|_| Err(format!("no connection within {within:?}")))
}

/// An error in the words of the server, with the right that is missing.
fn server_words(error: &redis::RedisError) -> String {
    let text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    match ServerError::from_reply(text.as_str()).missing_right() {
        Some(right) => format!("{text} (missing right: {right})"),
        None => text,
    }
}

/// Passes messages on until the connection ends or a ping is not answered.
async fn forward(pubsub: PubSub, sender: &mut PushSender) {
    let (mut sink, mut stream): (_, PubSubStream) = pubsub.split();
    let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    loop {
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => sender.send(Push::Message {
                    channel: message.get_channel_name().to_owned(),
                    payload: message.get_payload_bytes().to_vec(),
                }),
                None => return,
            },
            _ = ping.tick() => {
                sender.send_pending_gap();
                let pong = timeout(PONG_WITHIN, sink.ping::<redis::Value>()).await;
                if !matches!(pong, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}

/// Messages buffered for a slow reader; more become a gap.
const PUSHES_BUFFERED: usize = 4_096;

/// Reconnects soon after a restart, and every 5 s while the server stays down.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A peer that vanished without closing the connection is noticed within the sum of these.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);
