//! [`Proxy`]: a small TCP relay between clients and a server, which can cut and delay, and keep
//! from replicas what everybody else is told.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Relays a loopback port to another one. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

#[derive(Debug)]
struct Shared {
    /// Where new connections go.
    target: AtomicU16,
    /// How long every piece of data is held back, in milliseconds.
    delay_ms: AtomicU64,
    /// Whether replicas are told nothing for now.
    replicas_held: AtomicBool,
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
            replicas_held: AtomicBool::new(false),
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
        // Who relays may notice the first end, and be faster with the second.
        let cut = |ends: &[TcpStream; 2]| ends.each_ref().map(|end| end.shutdown(Shutdown::Both));
        self.shared.open().drain(..).filter(|ends| cut(ends).iter().any(Result::is_ok)).count()
    }

    /// From now on replicas hear nothing, while clients have their answers.
    pub fn hold_replicas(&self) {
        self.shared.replicas_held.store(true, Ordering::SeqCst);
    }

    /// Replicas hear on, and of all that was kept from them.
    pub fn release_replicas(&self) {
        self.shared.replicas_held.store(false, Ordering::SeqCst);
    }

    /// Whatever was kept from replicas is lost, and so are all connections.
    pub fn drop_held(&self) {
        self.reset();
        self.release_replicas();
    }

    /// Holds all data back for this long from now on.
    pub fn delay(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_ms.store(ms, Ordering::SeqCst);
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
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<[TcpStream; 2]>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a client to the target, and relays both ways until one of them is gone.
    fn serve(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, self.target.load(Ordering::SeqCst)));
        let server = TcpStream::connect_timeout(&target, CONNECT_WITHIN)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut open = self.open();
        // Those that are over by themselves have been shut down on one side.
        open.retain(|ends| ends.iter().all(|end| end.peer_addr().is_ok()));
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
            let ms = self.shared.delay_ms.load(Ordering::SeqCst);
            if ms > 0 {
                pause(Duration::from_millis(ms));
            }
            while self.is_held() {
                pause(HELD_FOR);
            }
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn is_held(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        let Shared { replicas_held, closed, .. } = &*self.shared;
        self.answers && is(&self.replicates) && is(replicas_held) && !is(closed)
    }
}

#[expect(clippy::disallowed_methods, reason = "a delay on the line is time that passes")]
fn pause(duration: Duration) {
    thread::sleep(duration);
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
}
