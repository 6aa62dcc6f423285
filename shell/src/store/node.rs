//! [`Node`]: one server of a store, kept connected.

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::engine::Answer;
use selvedge_core::error::{Class, ServerError};
use selvedge_core::value::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::access::Access;
use super::library::Library;
use super::link::Link;
use super::pause::Pause;
use super::url::Address;

/// One server. A task of its own connects, makes sure of the library, and connects again when the
/// connection ends, with growing pauses.
pub(super) struct Node {
    pub(super) address: Address,
    state: watch::Receiver<State>,
    library: Arc<Library>,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Clone)]
enum State {
    Connecting,
    Up(Arc<Link>),
    Down(ServerError),
}

impl Node {
    /// Begins to connect.
    pub(super) fn start(address: Address, access: Arc<Access>, library: Library) -> Arc<Self> {
        let (tell, state) = watch::channel(State::Connecting);
        let library = Arc::new(library);
        let keeper = tokio::spawn(keep(address.clone(), access, library.clone(), tell));
        Arc::new(Self { address, state, library, _keeper: AbortOnDropHandle::new(keeper) })
    }

    /// The connection, as soon as there is one. Nobody waits for a server that refuses us.
    pub(super) async fn link(&self, until: Instant) -> Result<Arc<Link>, ServerError> {
        let mut state = self.state.clone();
        loop {
            let error = match &*state.borrow_and_update() {
                State::Up(link) if !link.has_ended() => return Ok(link.clone()),
                State::Up(_) => ServerError::never_sent("the connection has just ended"),
                State::Connecting => ServerError::never_sent("still connecting"),
                State::Down(error) if error.class == Class::Denied => return Err(error.clone()),
                State::Down(error) => error.clone(),
            };
            match timeout_at(until, state.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(ServerError::never_sent("the store is closed")),
                Err(_) => return Err(error),
            }
        }
    }

    /// Sends commands as one pipeline; one answer each, in order. Waits for a connection until
    /// `reachable_by`, and for the answers until `until`. A missing library is loaded, and what it
    /// kept from running is sent once more.
    pub(super) async fn carry_out(
        &self,
        commands: &[&[Vec<u8>]],
        reachable_by: Instant,
        until: Instant,
    ) -> Vec<Answer> {
        let loads = self.library.loads();
        let link = match self.link(reachable_by).await {
            Ok(link) => link,
            Err(error) => return vec![Answer::NotApplied(error); commands.len()],
        };
        let mut answers = link.send(commands, left(until)).await;
        let missed: Vec<usize> =
            (0..answers.len()).filter(|&place| lacks_library(&answers[place])).collect();
        if missed.is_empty() {
            return answers;
        }
        let second = match self.library.reload(&link, loads, left(until)).await {
            Ok(()) => {
                let commands: Vec<&[Vec<u8>]> = missed.iter().map(|&at| commands[at]).collect();
                link.send(&commands, left(until)).await
            }
            // What keeps the library away says more than that it is away.
            Err(error) => vec![Answer::NotApplied(error); missed.len()],
        };
        for (place, answer) in missed.into_iter().zip(second) {
            answers[place] = answer;
        }
        answers
    }

    /// Waits for the first attempt to come out one way or the other.
    pub(super) async fn first_attempt(&self) -> Result<(), ServerError> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting)).await;
        match settled.as_deref() {
            Ok(State::Down(error)) => Err(error.clone()),
            Ok(State::Up(_) | State::Connecting) => Ok(()),
            Err(_) => Err(ServerError::never_sent("the store is closed")),
        }
    }

    /// What keeps us from this server, if anything does.
    pub(super) fn trouble(&self) -> Option<ServerError> {
        match &*self.state.borrow() {
            State::Up(_) | State::Connecting => None,
            State::Down(error) => Some(error.clone()),
        }
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn lacks_library(answer: &Answer) -> bool {
    match answer {
        Answer::Applied(Value::Error(text)) => {
            ServerError::from_reply(text.as_str()).class == Class::Library
        }
        Answer::Applied(_) | Answer::NotApplied(_) | Answer::PerhapsApplied(_) => false,
    }
}

async fn keep(
    address: Address,
    access: Arc<Access>,
    library: Arc<Library>,
    tell: watch::Sender<State>,
) {
    let mut pause = Pause::new(PAUSE_FIRST, PAUSE_LONGEST);
    loop {
        match connect(&address, &access, &library).await {
            Ok(link) => {
                tracing::debug!(server = %address, "connected");
                let link = Arc::new(link);
                let since = Instant::now();
                tell.send_replace(State::Up(link.clone()));
                link.ended().await;
                tracing::warn!(server = %address, "the connection has ended");
                tell.send_replace(State::Connecting);
                // A server that takes connections only to drop them is not to be hammered.
                if since.elapsed() > STEADY_AFTER {
                    pause.reset();
                }
            }
            Err(error) => {
                tracing::warn!(server = %address, error = %error, "not connected");
                tell.send_replace(State::Down(error));
            }
        }
        sleep(pause.grow()).await;
    }
}

async fn connect(
    address: &Address,
    access: &Access,
    library: &Library,
) -> Result<Link, ServerError> {
    let link = Link::open(address, access).await?;
    library.ensure(&link, access.connect_within).await?;
    Ok(link)
}

/// A restarted server is back within a second or so; one that stays away is asked every 5 s.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A connection that lived so long was a good one.
const STEADY_AFTER: Duration = Duration::from_secs(5);
