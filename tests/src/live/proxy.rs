//! [`Proxy`]: a small TCP relay to a server, which can cut and delay, and keep from clients or from
//! replicas what the others are told.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Relays a loopback port to another one. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

/// Who hears what the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Whoever asks.
    Client,
    /// Another server, which is to do as this one does.
    Replica,
}

#[derive(Debug)]
struct Shared {
    /// Where new connections go.
    target: AtomicU16,
    /// How long every piece of data is held back, in milliseconds.
    delay_ms: AtomicU64,
    /// How much longer what a replica is to hear.
    replica_delay_ms: AtomicU64,
    /// Who is told nothing for now.
    held: Mutex<Option<Listener>>,
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

    /// Lets new connections go elsewhere, and cuts the old ones: a failover, as clients see it.
    pub fn redirect(&self, target: u16) {
        self.shared.target.store(target, Ordering::SeqCst);
        self.reset();
    }

    /// Cuts every connection, whatever is on its way; says how many there were.
    pub fn reset(&self) -> usize {
        self.shared.open().drain(..).filter(cut).count()
    }

    /// From now on these hear nothing, while the others have their answers.
    pub fn hold(&self, whom: Listener) {
        *self.shared.held() = Some(whom);
    }

    /// Everybody hears on, and of all that was kept from him.
    pub fn release(&self) {
        *self.shared.held() = None;
    }

    /// Whatever was kept from anybody is lost, and so are all connections.
    pub fn drop_held(&self) {
        self.reset();
        self.release();
    }

    /// Holds all data back for this long from now on.
    pub fn delay(&self, by: Duration) {
        self.shared.delay_ms.store(in_ms(by), Ordering::SeqCst);
    }

    /// Holds back for this long what replicas are to hear.
    pub fn delay_replicas(&self, by: Duration) {
        self.shared.replica_delay_ms.store(in_ms(by), Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.reset();
        // Wakes the listener, so that its thread sees that it is over.
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

    /// Connects a client to the target, and relays both ways until one of them is gone.
    fn serve(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, self.target.load(Ordering::SeqCst)));
        let server = TcpStream::connect_timeout(&target, CONNECT_WITHIN)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut open = self.open();
        // Those that are over by themselves have been shut down on one side. The other may still have
        // something to hear that is held.
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
        let asked = Line { shared: self.clone(), replicates: replicates.clone(), answers: false };
        let answered = Line { shared: self.clone(), replicates, answers: true };
        let (from, to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || asked.relay(from, to));
        thread::spawn(move || answered.relay(server, client));
        Ok(())
    }
}

/// Cuts both ends of a connection; says whether any was open. Who relays may notice the first, and be
/// faster with the second.
fn cut(ends: &[TcpStream; 2]) -> bool {
    ends.each_ref().map(|end| end.shutdown(Shutdown::Both)).iter().any(Result::is_ok)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        // A target that is not there hangs up on the client, as a dead server does.
        if let Ok(client) = client {
            let _ = shared.serve(client);
        }
    }
}

/// One direction of a connection.
struct Line {
    shared: Arc<Shared>,
    /// Whether who connected is a replica; both directions know.
    replicates: Arc<AtomicBool>,
    /// Whether this one leads from the server to who connected.
    answers: bool,
}

impl Line {
    fn relay(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if !self.answers && piece[..count].windows(PSYNC.len()).any(|word| word == PSYNC) {
                self.replicates.store(true, Ordering::SeqCst);
            }
            pause(Duration::from_millis(self.delay_ms()));
            while self.is_held() {
                pause(HELD_FOR);
            }
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn delay_ms(&self) -> u64 {
        let Shared { delay_ms, replica_delay_ms, .. } = &*self.shared;
        let slower = self.answers && self.listener() == Listener::Replica;
        let more = if slower { replica_delay_ms.load(Ordering::SeqCst) } else { 0 };
        delay_ms.load(Ordering::SeqCst) + more
    }

    fn is_held(&self) -> bool {
        let closed = self.shared.closed.load(Ordering::SeqCst);
        self.answers && *self.shared.held() == Some(self.listener()) && !closed
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

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The command by which a replica asks for everything that happens.
const PSYNC: &[u8] = b"PSYNC";

/// How long a line that is held waits before it looks again.
const HELD_FOR: Duration = Duration::from_millis(2);

const CONNECT_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;
    use crate::server::Server;
    use selvedge_core::value::Value;

    #[test]
    fn it_relays_cuts_and_redirects() {
        let (one, other) = (Server::valkey().unwrap(), Server::valkey().unwrap());
        one.connect().unwrap().call(&["SET", "who", "one"]).unwrap();
        other.connect().unwrap().call(&["SET", "who", "other"]).unwrap();
        let proxy = Proxy::start(one.port()).unwrap();
        let who = |connection: &mut Connection| connection.call(&["GET", "who"]).ok();
        let mut client = Connection::open(proxy.port()).unwrap();
        assert_eq!(who(&mut client), Some(Value::Bulk(b"one".to_vec())));
        assert_eq!(proxy.reset(), 1);
        assert_eq!(who(&mut client), None, "the line is cut");
        proxy.redirect(other.port());
        let mut client = Connection::open(proxy.port()).unwrap();
        assert_eq!(who(&mut client), Some(Value::Bulk(b"other".to_vec())));
    }

    #[test]
    fn it_keeps_answers_from_clients() {
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
        assert_eq!(count(), Some(2), "it is others who are not told");
        proxy.hold(Listener::Client);
        assert_eq!(count(), None, "told although it is held");
        let done = server.connect().unwrap().call(&["GET", "count"]).unwrap();
        assert_eq!(done, Value::Bulk(b"3".to_vec()), "what was asked for is done");
        proxy.release();
        assert_eq!(count(), Some(3), "told late, but told");
        proxy.hold(Listener::Client);
        assert_eq!((count(), count()).1, None);
        proxy.drop_held();
        assert_eq!(count(), None, "what was held never comes");
    }
}
