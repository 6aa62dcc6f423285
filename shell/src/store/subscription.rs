//! [`Subscription`]: messages from the server, and the knowledge of having missed some.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::fleet::Fleet;
use super::memory::Listener;
use super::pause::Pause;

/// What a subscription tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// Somebody published this.
    Message {
        /// Where.
        channel: String,
        /// What.
        payload: Vec<u8>,
    },
    /// Messages may have been missed until now; from here on they arrive. The first thing that a
    /// new subscription tells: whoever acts on messages looks at the state of things now.
    Gap,
}

/// Messages of some channels, over a connection of its own that is made again when it ends.
pub struct Subscription(pub(super) Source);

pub(super) enum Source {
    Memory(Listener),
    Servers {
        pushes: mpsc::Receiver<Push>,
        alive: Arc<AtomicBool>,
        _listener: AbortOnDropHandle<()>,
    },
}

impl Subscription {
    /// The next thing to tell. While there is no connection, nothing is told; the gap is told when
    /// there is one again.
    pub async fn next(&mut self) -> Push {
        match &mut self.0 {
            Source::Memory(listener) => listener.next().await,
            Source::Servers { pushes, .. } => match pushes.recv().await {
                Some(push) => push,
                None => std::future::pending().await,
            },
        }
    }

    /// Whether messages arrive at this moment.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            Source::Memory(_) => true,
            Source::Servers { alive, .. } => alive.load(Ordering::Relaxed),
        }
    }

    pub(super) fn start(fleet: Arc<Fleet>, channels: Vec<Vec<u8>>) -> Self {
        let (tell, pushes) = mpsc::channel(PUSHES_KEPT);
        let alive = Arc::new(AtomicBool::new(false));
        let outbox = Outbox { tell, alive: alive.clone(), owes_gap: false };
        let listener = AbortOnDropHandle::new(tokio::spawn(listen(fleet, channels, outbox)));
        Self(Source::Servers { pushes, alive, _listener: listener })
    }
}

/// The way to the reader. It never waits: what does not fit becomes a gap.
struct Outbox {
    tell: mpsc::Sender<Push>,
    alive: Arc<AtomicBool>,
    owes_gap: bool,
}

impl Outbox {
    fn put(&mut self, push: Push) {
        if self.owes_gap {
            self.owes_gap = self.tell.try_send(Push::Gap).is_err();
        }
        if self.owes_gap || self.tell.try_send(push).is_err() {
            self.owes_gap = true;
        }
    }
}

async fn listen(fleet: Arc<Fleet>, channels: Vec<Vec<u8>>, mut outbox: Outbox) {
    let mut pause = Pause::new(PAUSE_FIRST, PAUSE_LONGEST);
    loop {
        match subscribe(&fleet, &channels).await {
            Ok(pubsub) => {
                let since = Instant::now();
                outbox.alive.store(true, Ordering::Relaxed);
                outbox.put(Push::Gap);
                forward(pubsub, &mut outbox).await;
                outbox.alive.store(false, Ordering::Relaxed);
                tracing::warn!("the push connection has ended");
                if since.elapsed() > PAUSE_LONGEST {
                    pause.reset();
                }
            }
            Err(error) => tracing::warn!(%error, "no push connection"),
        }
        sleep(pause.grow()).await;
    }
}

async fn subscribe(fleet: &Fleet, channels: &[Vec<u8>]) -> Result<PubSub, String> {
    let within = fleet.yard.access.connect_within;
    let opening = async {
        let address = fleet.any_address();
        let named = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let stream = fleet.yard.access.stream(&address).await.map_err(|error| named(&error))?;
        let credentials = fleet.yard.access.credentials();
        let mut pubsub = PubSub::new(&credentials, stream).await.map_err(|error| named(&error))?;
        pubsub.subscribe(channels).await.map_err(|error| named(&error))?;
        Ok(pubsub)
    };
    timeout(within, opening).await.unwrap_or_else(|_| Err(format!("not within {within:?}")))
}

/// Passes messages on until the connection ends, or does not answer a ping.
async fn forward(pubsub: PubSub, outbox: &mut Outbox) {
    let (mut sink, mut stream): (_, PubSubStream) = pubsub.split();
    let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    loop {
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => outbox.put(Push::Message {
                    channel: message.get_channel_name().to_owned(),
                    payload: message.get_payload_bytes().to_vec(),
                }),
                None => return,
            },
            _ = ping.tick() => {
                let pong = timeout(PONG_WITHIN, sink.ping::<redis::Value>()).await;
                if !matches!(pong, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}

/// Messages that a slow reader may be behind before it is told of a gap.
const PUSHES_KEPT: usize = 4_096;

/// As with any connection: soon after a restart, rarely when the server stays away.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A peer that vanished without a word is noticed within the sum of these.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);
