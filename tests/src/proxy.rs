//! [`Proxy`]: a TCP relay to a server that can reset connections, delay data, hold replies back
//! from clients or replicas, redirect to another server, and lose replies.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Relays a loopback port to another one. Dropping it resets every connection.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

/// Who receives what the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A client.
    Client,
    /// A replica of the server.
    Replica,
}

#[derive(Debug)]
struct Shared {
    /// Where new connections go.
    target: AtomicU16,
    /// How long all data is delayed, in milliseconds.
    delay_ms: AtomicU64,
    /// How much longer data to replicas is delayed.
    replica_delay_ms: AtomicU64,
    /// Who receives nothing for now.
    held: Mutex<Option<Listener>>,
    /// The replies to so many requests that contain this text are lost.
    losing: Mutex<(&'static str, u32)>,
    lost_replies: AtomicU32,
    closed: AtomicBool,
    /// Both ends of all connections that may be open.
    open: Mutex<Vec<[TcpStream; 2]>>,
}

impl Proxy {
    /// Listens on a port of its own and relays to `target`.
    pub fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            delay_ms: AtomicU64::new(0),
            replica_delay_ms: AtomicU64::new(0),
            held: Mutex::new(None),
            losing: Mutex::new(("", 0)),
            lost_replies: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            open: Mutex::new(Vec::new()),
        });
        let accepting = shared.clone();
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { shared, port })
    }

    /// The port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connects new clients to another server and resets the others: a failover, as clients see it.
    pub fn redirect(&self, target: u16) {
        self.shared.target.store(target, Ordering::SeqCst);
        self.reset();
    }

    /// Resets every connection, whatever is in flight; returns how many there were.
    pub fn reset(&self) -> usize {
        self.shared.open().drain(..).filter(cut).count()
    }

    /// Holds data back from clients or from replicas, while the others receive theirs.
    pub fn hold(&self, from: Listener) {
        *self.shared.held() = Some(from);
    }

    /// Passes on what was held, and everything from now on.
    pub fn release(&self) {
        *self.shared.held() = None;
    }

    /// Drops what was held, and resets all connections.
    pub fn drop_held(&self) {
        self.reset();
        self.release();
    }

    /// Delays all data by this much from now on.
    pub fn delay(&self, by: Duration) {
        self.shared.delay_ms.store(in_ms(by), Ordering::SeqCst);
    }

    /// Delays data to replicas by this much from now on.
    pub fn delay_replicas(&self, by: Duration) {
        self.shared.replica_delay_ms.store(in_ms(by), Ordering::SeqCst);
    }

    /// Loses the replies to the next `times` requests that contain `text`: the server carries them
    /// out, and the connection is reset in place of the reply.
    pub fn lose_replies(&self, text: &'static str, times: u32) {
        *self.shared.losing() = (text, times);
    }

    /// How many replies were lost so far.
    #[must_use]
    pub fn lost_replies(&self) -> u32 {
        self.shared.lost_replies.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.reset();
        // Wakes the listener's thread, so that it ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Vec<[TcpStream; 2]>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Option<Listener>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn losing(&self) -> MutexGuard<'_, (&'static str, u32)> {
        self.losing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the reply to this request is to be lost.
    fn loses_reply_to(&self, request: &[u8]) -> bool {
        let (text, times) = &mut *self.losing();
        let loses = *times > 0 && contains(request, text.as_bytes());
        *times -= u32::from(loses);
        loses
    }

    /// Connects a client to the target, and relays both ways until one of them is gone.
    fn serve(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, self.target.load(Ordering::SeqCst)));
        let server = TcpStream::connect_timeout(&target, CONNECT_WITHIN)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut open = self.open();
        // A connection that ended by itself is shut down on one side; the other may still be
        // waiting for data that is held.
        open.retain(|ends| {
            let is_open = ends.iter().all(|end| end.peer_addr().is_ok());
            if !is_open {
                cut(ends);
            }
            is_open
        });
        open.push([client.try_clone()?, server.try_clone()?]);
        drop(open);
        let replicates = Arc::new(AtomicBool::new(false));
        let loses_reply = Arc::new(AtomicBool::new(false));
        let direction = |to_client| Direction {
            shared: self.clone(),
            replicates: replicates.clone(),
            loses_reply: loses_reply.clone(),
            to_client,
        };
        let (requests, replies) = (direction(false), direction(true));
        let (from, to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || requests.relay(from, to));
        thread::spawn(move || replies.relay(server, client));
        Ok(())
    }
}

/// Resets both ends of a connection; returns whether any was open. The relaying threads may close
/// the second end first.
fn cut(ends: &[TcpStream; 2]) -> bool {
    ends.each_ref().map(|end| end.shutdown(Shutdown::Both)).iter().any(Result::is_ok)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        // Without a target the client's connection is closed, as by a dead server.
        if let Ok(client) = client {
            let _ = shared.serve(client);
        }
    }
}

/// One direction of a connection.
struct Direction {
    shared: Arc<Shared>,
    /// Whether the client is a replica; both directions know.
    replicates: Arc<AtomicBool>,
    /// Whether the next reply is lost; set by the direction of requests.
    loses_reply: Arc<AtomicBool>,
    /// Whether this is the direction of replies.
    to_client: bool,
}

impl Direction {
    fn relay(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let data = &buffer[..count];
            if self.to_client {
                if self.loses_reply.load(Ordering::SeqCst) {
                    self.shared.lost_replies.fetch_add(1, Ordering::SeqCst);
                    break;
                }
            } else {
                self.look_at_request(data);
            }
            pause(Duration::from_millis(self.delay_ms()));
            while self.is_held() {
                pause(HELD_FOR);
            }
            if to.write_all(data).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn look_at_request(&self, request: &[u8]) {
        if contains(request, PSYNC) {
            self.replicates.store(true, Ordering::SeqCst);
        }
        if self.shared.loses_reply_to(request) {
            self.loses_reply.store(true, Ordering::SeqCst);
        }
    }

    fn delay_ms(&self) -> u64 {
        let Shared { delay_ms, replica_delay_ms, .. } = &*self.shared;
        let slower = self.to_client && self.listener() == Listener::Replica;
        let more = if slower { replica_delay_ms.load(Ordering::SeqCst) } else { 0 };
        delay_ms.load(Ordering::SeqCst) + more
    }

    fn is_held(&self) -> bool {
        let closed = self.shared.closed.load(Ordering::SeqCst);
        self.to_client && *self.shared.held() == Some(self.listener()) && !closed
    }

    fn listener(&self) -> Listener {
        let replicates = self.replicates.load(Ordering::SeqCst);
        if replicates { Listener::Replica } else { Listener::Client }
    }
}

#[expect(clippy::disallowed_methods, reason = "a delay on the line is time that passes")]
fn pause(duration: Duration) {
    if duration > Duration::ZERO {
        thread::sleep(duration);
    }
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    data.windows(text.len()).any(|window| window == text)
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The command by which a replica asks for the stream of writes.
const PSYNC: &[u8] = b"PSYNC";

/// How often a direction that is held looks again.
const HELD_FOR: Duration = Duration::from_millis(2);

const CONNECT_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;
    use crate::server::Server;
    use selvedge_core::value::Value;

    #[test]
    fn it_relays_resets_and_redirects() {
        let (one, other) = (Server::valkey().unwrap(), Server::valkey().unwrap());
        one.connect().unwrap().call(&["SET", "who", "one"]).unwrap();
        other.connect().unwrap().call(&["SET", "who", "other"]).unwrap();
        let proxy = Proxy::start(one.port()).unwrap();
        let who = |connection: &mut Connection| connection.call(&["GET", "who"]).ok();
        let mut client = Connection::open(proxy.port()).unwrap();
        assert_eq!(who(&mut client), Some(Value::Bulk(b"one".to_vec())));
        assert_eq!(proxy.reset(), 1);
        assert_eq!(who(&mut client), None, "the connection is reset");
        proxy.redirect(other.port());
        let mut client = Connection::open(proxy.port()).unwrap();
        assert_eq!(who(&mut client), Some(Value::Bulk(b"other".to_vec())));
    }

    #[test]
    fn it_holds_replies_back_from_clients() {
        let server = Server::valkey().unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        let mut client = Connection::open(proxy.port()).unwrap();
        client.reply_within(Duration::from_millis(200)).unwrap();
        let mut count = || match client.call(&["INCR", "count"]) {
            Ok(Value::Int(count)) => Some(count),
            _ => None,
        };
        assert_eq!(count(), Some(1));
        proxy.hold(Listener::Replica);
        assert_eq!(count(), Some(2), "replicas are held, not clients");
        proxy.hold(Listener::Client);
        assert_eq!(count(), None, "a reply that is held");
        let done = server.connect().unwrap().call(&["GET", "count"]).unwrap();
        assert_eq!(done, Value::Bulk(b"3".to_vec()), "the server has done it");
        proxy.release();
        assert_eq!(count(), Some(3), "late, but there");
        proxy.hold(Listener::Client);
        assert_eq!((count(), count()).1, None);
        proxy.drop_held();
        assert_eq!(count(), None, "what was held is dropped");
    }
    #[test]
    fn it_loses_the_reply_to_a_request_that_is_carried_out() {
        let server = Server::valkey().unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        proxy.lose_replies("INCR", 1);
        let count = |command: &str| {
            let mut client = Connection::open(proxy.port()).unwrap();
            client.call(&[command, "count"]).ok()
        };
        assert_eq!(count("GET"), Some(Value::Nil), "another request");
        assert_eq!(count("INCR"), None);
        assert_eq!(count("INCR"), Some(Value::Int(2)));
        assert_eq!(proxy.lost_replies(), 1);
    }
}
