//! [`Connection`]: a small blocking client that returns replies exactly as they are on the wire.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use selvedge_core::value::Value;

/// One connection, speaking RESP2 by hand.
///
/// The `redis` crate would turn errors into its own types, statuses into texts and nested replies
/// into what the caller asked for. Conformance compares what the server really said, so nothing
/// may stand between the bytes and the [`Value`].
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// One message that a subscribed connection received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel it was published to.
    pub channel: Vec<u8>,
    /// What was published.
    pub payload: Vec<u8>,
}

impl Connection {
    /// Connects to a loopback port.
    pub fn open(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, REPLY_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(REPLY_WITHIN))?;
        stream.set_read_timeout(Some(REPLY_WITHIN))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command and reads its reply. A server error is a [`Value::Error`]; an `io::Error`
    /// means that there was no reply, or none in time.
    pub fn call(&mut self, command: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        self.stream.get_mut().write_all(&bytes)?;
        self.read()
    }

    /// Sends all commands at once and reads one reply for each, in order.
    pub fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<Vec<Value>> {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command, &mut bytes);
        }
        self.stream.get_mut().write_all(&bytes)?;
        commands.iter().map(|_| self.read()).collect()
    }

    /// Turns this into a subscriber of every channel that matches `pattern`, and returns when the
    /// server has confirmed it.
    pub fn subscribe(&mut self, pattern: &str) -> io::Result<()> {
        match self.call(&["PSUBSCRIBE", pattern])? {
            Value::Array(_) => Ok(()),
            refused @ (Value::Nil
            | Value::Int(_)
            | Value::Bulk(_)
            | Value::Status(_)
            | Value::Error(_)) => Err(io::Error::other(format!("not subscribed: {refused:?}"))),
        }
    }

    /// The next message of a subscribed connection, waiting for it as long as for any reply.
    pub fn next_message(&mut self) -> io::Result<Message> {
        let said = self.read()?;
        if let Value::Array(parts) = &said
            && let [Value::Bulk(word), _, Value::Bulk(channel), Value::Bulk(payload)] = &parts[..]
            && word == b"pmessage"
        {
            return Ok(Message { channel: channel.clone(), payload: payload.clone() });
        }
        Err(io::Error::other(format!("not a message: {said:?}")))
    }

    /// Bounds each single wait for a reply from here on.
    pub fn reply_within(&mut self, limit: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(limit))
    }

    fn read(&mut self) -> io::Result<Value> {
        let line = self.read_line()?;
        let (kind, rest) = line
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an empty reply line"))?;
        match kind {
            b'+' => Ok(Value::Status(String::from_utf8_lossy(rest).into_owned())),
            b'-' => Ok(Value::Error(String::from_utf8_lossy(rest).into_owned())),
            b':' => integer(rest).map(Value::Int),
            b'$' => self.read_bulk(integer(rest)?),
            b'*' => self.read_array(integer(rest)?),
            _ => Err(malformed(&line)),
        }
    }

    fn read_bulk(&mut self, length: i64) -> io::Result<Value> {
        let Ok(length) = usize::try_from(length) else { return Ok(Value::Nil) };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Value::Bulk(bytes))
    }

    fn read_array(&mut self, length: i64) -> io::Result<Value> {
        let Ok(length) = usize::try_from(length) else { return Ok(Value::Nil) };
        (0..length).map(|_| self.read()).collect::<io::Result<_>>().map(Value::Array)
    }

    fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
        }
        if !line.ends_with(b"\r\n") {
            return Err(malformed(&line));
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }
}

fn encode(command: &[impl AsRef<[u8]>], into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for part in command {
        let part = part.as_ref();
        into.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        into.extend_from_slice(part);
        into.extend_from_slice(b"\r\n");
    }
}

fn integer(text: &[u8]) -> io::Result<i64> {
    str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| malformed(text))
}

fn malformed(line: &[u8]) -> io::Error {
    let line = String::from_utf8_lossy(line);
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply line: {line:?}"))
}

/// Far beyond any reply of a healthy server on loopback, short enough that a hung one is noticed.
const REPLY_WITHIN: Duration = Duration::from_secs(20);
