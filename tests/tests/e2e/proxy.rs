//! A way to the server on which replies get lost: the request is carried out, the connection ends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Listens until the process ends, as its test does.
pub(crate) struct Proxy {
    port: u16,
    fate: Arc<Fate>,
}

/// What becomes of replies.
#[derive(Default)]
struct Fate {
    /// The replies to so many requests that name this are lost.
    swallow: Mutex<(&'static str, u32)>,
    swallowed: AtomicU32,
}

impl Fate {
    /// Whether the reply to this request is to be lost.
    fn strikes(&self, request: &[u8]) -> bool {
        let mut swallow = self.swallow.lock().unwrap();
        let (name, times) = &mut *swallow;
        let named = |window| window == name.as_bytes();
        let strikes = *times > 0 && request.windows(name.len()).any(named);
        if strikes {
            *times -= 1;
        }
        strikes
    }
}

impl Proxy {
    pub(crate) fn start(server: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let fate = Arc::new(Fate::default());
        let shared = fate.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be made is closed, as a server's would be.
                drop(connect(client, server, shared.clone()));
            }
        });
        Ok(Self { port, fate })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn swallow_next(&self, name: &'static str, times: u32) {
        *self.fate.swallow.lock().unwrap() = (name, times);
    }

    pub(crate) fn swallowed(&self) -> u32 {
        self.fate.swallowed.load(Ordering::SeqCst)
    }
}

/// Passes bytes both ways, until one side ends or fate strikes.
fn connect(client: TcpStream, port: u16, fate: Arc<Fate>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", port))?;
    let doomed = Arc::new(AtomicBool::new(false));
    let (to_server, to_client) = (server.try_clone()?, client.try_clone()?);
    let (strikes, is_doomed) = (fate.clone(), doomed.clone());
    thread::spawn(move || {
        pass(client, to_server, |request| {
            if strikes.strikes(request) {
                is_doomed.store(true, Ordering::SeqCst);
            }
            true
        });
    });
    thread::spawn(move || {
        pass(server, to_client, |_| {
            let lost = doomed.load(Ordering::SeqCst);
            if lost {
                fate.swallowed.fetch_add(1, Ordering::SeqCst);
            }
            !lost
        });
    });
    Ok(())
}

/// Copies while `look` allows it; then both connections are over.
fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let part = &bytes[..count];
        if !look(part) || to.write_all(part).is_err() {
            break;
        }
    }
    for end in [&from, &to] {
        // It may be closed already.
        let _ = end.shutdown(Shutdown::Both);
    }
}
