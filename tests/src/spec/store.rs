//! [`SpecStore`]: a store that the cases run on.

use std::io;

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};

use crate::connection::{Connection, Message};
use crate::server::{Kind, Options, Server, ServerError};
use crate::spec::keyspace::texts;

/// A store with the library in it. The same cases run on each.
pub trait SpecStore {
    /// What the report calls it.
    fn name(&self) -> String;

    /// Carries out one command.
    fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value>;

    /// Everything published since the last time it was asked, in order.
    fn published(&mut self) -> io::Result<Vec<Message>>;
}

/// Puts a library into a store, in place of the one that may be there.
pub fn load(store: &mut dyn SpecStore, library: &str) -> Result<(), String> {
    let command = ["FUNCTION", "LOAD", "REPLACE", library].map(|part| part.as_bytes().to_vec());
    match store.call(&command) {
        Ok(Value::Error(error)) => Err(format!("{} refuses the library: {error}", store.name())),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{} is gone: {error}", store.name())),
    }
}

/// The store's clock in milliseconds.
pub fn clock_ms(store: &mut dyn SpecStore) -> Result<i64, String> {
    let reply = store.call(&[b"TIME".to_vec()]).map_err(|error| error.to_string())?;
    let malformed = || format!("TIME answered {reply:?}");
    let parts: Vec<i64> = texts(reply.clone())
        .iter()
        .map(|text| str::from_utf8(text).ok()?.parse().ok())
        .collect::<Option<_>>()
        .ok_or_else(malformed)?;
    let [seconds, micros] = parts[..] else { return Err(malformed()) };
    Ok(seconds * 1000 + micros / 1000)
}

/// A real server of its own, and a second connection that listens.
#[derive(Debug)]
pub struct ServerStore {
    server: Server,
    caller: Connection,
    listener: Connection,
}

impl ServerStore {
    /// Starts a server for it.
    pub fn start(kind: Kind) -> Result<Self, ServerError> {
        let server = Server::start(kind, Options::default())?;
        let (caller, mut listener) = (server.connect()?, server.connect()?);
        listener.subscribe("*")?;
        Ok(Self { server, caller, listener })
    }
}

impl SpecStore for ServerStore {
    fn name(&self) -> String {
        self.server.kind().to_string()
    }

    fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value> {
        self.caller.call(command)
    }

    /// A message of our own marks the end: the server delivers in order, so there is nothing to
    /// wait for behind it.
    fn published(&mut self) -> io::Result<Vec<Message>> {
        self.caller.call(&["PUBLISH", END_OF_MESSAGES, ""])?;
        let mut messages = Vec::new();
        loop {
            let message = self.listener.next_message()?;
            if message.channel == END_OF_MESSAGES.as_bytes() {
                return Ok(messages);
            }
            messages.push(message);
        }
    }
}

/// The in-process host. Its clock moves by a millisecond with every command, so that a time taken
/// from the wrong call shows.
pub struct HostStore {
    host: Host,
}

impl HostStore {
    /// Makes an empty one.
    #[must_use]
    pub fn start() -> Self {
        Self::with(HostConfig::default())
    }

    /// An empty one that counts what a call takes: every inner command and every instruction.
    #[must_use]
    pub fn counting() -> Self {
        let mut store =
            Self::with(HostConfig { exact_instructions: true, ..HostConfig::default() });
        store.host.log_inner_commands(true);
        store
    }

    fn with(config: HostConfig) -> Self {
        let mut host = Host::new(config);
        host.set_now_us(HOST_STARTS_AT_US);
        Self { host }
    }

    /// The host itself, for counting commands.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }
}

impl SpecStore for HostStore {
    fn name(&self) -> String {
        "host".to_owned()
    }

    fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value> {
        self.host.set_now_us(self.host.now_us() + 1_000);
        Ok(self.host.call(command))
    }

    fn published(&mut self) -> io::Result<Vec<Message>> {
        let messages = self.host.take_published().into_iter();
        Ok(messages.map(|sent| Message { channel: sent.channel, payload: sent.payload }).collect())
    }
}

/// Some day of this century, so that times have as many digits as on a server.
const HOST_STARTS_AT_US: u64 = 1_800_000_000_000_000;

const END_OF_MESSAGES: &str = "selvedge-tests:end-of-messages";
