//! [`Node`]: one server of a store, and the task that keeps it connected.

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::command::Answer;
use selvedge_core::error::{Class, ServerError};
use selvedge_core::value::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::connection::Connection;
use super::connector::Connector;
use super::library::Library;
use super::url::Address;
use crate::retry::Backoff;

/// One server. Its task connects, loads the library where needed, and reconnects with backoff when
/// the connection ends.
pub(super) struct Node {
    pub(super) address: Address,
    state: watch::Receiver<State>,
    library: Arc<Library>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone)]
enum State {
    Connecting,
    Up(Arc<Connection>),
    Down(ServerError),
}

impl Node {
    /// Starts the task that connects.
    pub(super) fn start(
        address: Address,
        connector: Arc<Connector>,
        library: Library,
    ) -> Arc<Self> {
        let (state_tx, state) = watch::channel(State::Connecting);
        let library = Arc::new(library);
        let task =
            tokio::spawn(keep_connected(address.clone(), connector, library.clone(), state_tx));
        Arc::new(Self { address, state, library, _task: AbortOnDropHandle::new(task) })
    }

    /// Waits for a connection until `until`. Fails at once if the server denies access.
    pub(super) async fn connection(&self, until: Instant) -> Result<Arc<Connection>, ServerError> {
        let mut state = self.state.clone();
        loop {
            let error = match &*state.borrow_and_update() {
                State::Up(connection) if !connection.has_ended() => return Ok(connection.clone()),
                State::Up(_) => ServerError::never_sent("reconnecting"),
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
    /// `reachable_by`, and for the replies until `until`. If the library is missing, it is loaded
    /// and the commands that failed for it are sent again.
    pub(super) async fn execute(
        &self,
        commands: &[&[Vec<u8>]],
        reachable_by: Instant,
        until: Instant,
    ) -> Vec<Answer> {
        let loads = self.library.loads();
        let connection = match self.connection(reachable_by).await {
            Ok(connection) => connection,
            Err(error) => return vec![Answer::NotApplied(error); commands.len()],
        };
        let mut answers = connection.send(commands, time_left(until)).await;
        let without_library: Vec<usize> =
            (0..answers.len()).filter(|&index| library_missing(&answers[index])).collect();
        if without_library.is_empty() {
            return answers;
        }
        let resent = match self.library.reload(&connection, loads, time_left(until)).await {
            Ok(()) => {
                let commands: Vec<&[Vec<u8>]> =
                    without_library.iter().map(|&at| commands[at]).collect();
                connection.send(&commands, time_left(until)).await
            }
            // The error of loading says more than "function not found".
            Err(error) => vec![Answer::NotApplied(error); without_library.len()],
        };
        for (index, answer) in without_library.into_iter().zip(resent) {
            answers[index] = answer;
        }
        answers
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(super) async fn first_connect(&self) -> Result<(), ServerError> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting)).await;
        match settled.as_deref() {
            Ok(State::Down(error)) => Err(error.clone()),
            Ok(State::Up(_) | State::Connecting) => Ok(()),
            Err(_) => Err(ServerError::never_sent("the store is closed")),
        }
    }

    /// Why this server is not connected; `None` while it is connected or connecting.
    pub(super) fn connection_error(&self) -> Option<ServerError> {
        match &*self.state.borrow() {
            State::Up(_) | State::Connecting => None,
            State::Down(error) => Some(error.clone()),
        }
    }
}

fn time_left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn library_missing(answer: &Answer) -> bool {
    match answer {
        Answer::Applied(Value::Error(text)) => {
            ServerError::from_reply(text.as_str()).class == Class::Library
        }
        Answer::Applied(_) | Answer::NotApplied(_) | Answer::PerhapsApplied(_) => false,
    }
}

async fn keep_connected(
    address: Address,
    connector: Arc<Connector>,
    library: Arc<Library>,
    state_tx: watch::Sender<State>,
) {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    loop {
        match connect(&address, &connector, &library).await {
            Ok(connection) => {
                tracing::debug!(server = %address, "connected");
                let connection = Arc::new(connection);
                let since = Instant::now();
                state_tx.send_replace(State::Up(connection.clone()));
                connection.ended().await;
                tracing::warn!(server = %address, "connection lost, reconnecting");
                state_tx.send_replace(State::Connecting);
                // Keep the backoff for a server that accepts connections and drops them at once.
                if since.elapsed() > STEADY_AFTER {
                    backoff.reset();
                }
            }
            Err(error) => {
                tracing::warn!(server = %address, error = %error, "cannot connect, retrying");
                state_tx.send_replace(State::Down(error));
            }
        }
        backoff.wait().await;
    }
}

async fn connect(
    address: &Address,
    connector: &Connector,
    library: &Library,
) -> Result<Connection, ServerError> {
    let connection = Connection::open(address, connector).await?;
    library.ensure(&connection, connector.connect_within).await?;
    Ok(connection)
}

/// Reconnects soon after a restart, and every 5 s while the server stays down.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A connection that lasted this long resets the backoff.
const STEADY_AFTER: Duration = Duration::from_secs(5);
