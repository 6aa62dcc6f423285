//! Reads a server's whole keyspace into the snapshot that the oracles check.

use std::collections::BTreeMap;
use std::io;

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::connection::Connection;

/// Everything that a server holds, and those read before it. The first server's clock is the
/// snapshot's.
pub fn read(before: Option<Snapshot>, connection: &mut Connection) -> io::Result<Snapshot> {
    let time: Vec<i64> = texts(connection.call(&["TIME"])?)
        .into_iter()
        .map(|part| lossy(part).parse().unwrap_or_default())
        .collect();
    let [seconds, micros] = time[..] else { return Err(io::Error::other("TIME told no time")) };
    let now = ServerTime(seconds * 1000 + micros / 1000);
    let mut snapshot = before.unwrap_or_else(|| Snapshot::new(now));
    let keys = connection.call(&["KEYS", "*"])?;
    if !matches!(keys, Value::Array(_)) {
        return Err(io::Error::other(format!("KEYS told no keys: {keys:?}")));
    }
    let keys = texts(keys);
    // Many keys at a time: the types first, then what each holds.
    for keys in keys.chunks(KEYS_AT_A_TIME) {
        let ask = |name: &[u8], key: &[u8]| vec![name.to_vec(), key.to_vec()];
        let types: Vec<_> = keys.iter().map(|key| ask(b"TYPE", key)).collect();
        let expiries: Vec<_> = keys.iter().map(|key| ask(b"PEXPIRETIME", key)).collect();
        let types = connection.pipeline(&types)?;
        let expiries = connection.pipeline(&expiries)?;
        let reads: Vec<_> =
            keys.iter().zip(&types).map(|(key, kind)| content_of(kind, key)).collect();
        let contents = connection.pipeline(&reads)?;
        let mut told = types.iter().chain(&expiries).chain(&contents);
        if let Some(error) = told.find(|told| matches!(told, Value::Error(_))) {
            return Err(io::Error::other(format!("a key cannot be read: {error:?}")));
        }
        let found = keys.iter().zip(types).zip(contents).zip(expiries);
        for (((key, kind), content), expiry) in found {
            if let Some(stored) = stored(&kind, content) {
                let expires_at =
                    if let Value::Int(at @ 0..) = expiry { Some(ServerTime(at)) } else { None };
                snapshot.put(key, Some(Entry { stored, expires_at }));
            }
        }
    }
    Ok(snapshot)
}

/// The command that reads a value of this type.
fn content_of(kind: &Value, key: &[u8]) -> Vec<Vec<u8>> {
    let words = |name: &str, rest: &[&str]| {
        let mut command = vec![name.as_bytes().to_vec(), key.to_vec()];
        command.extend(rest.iter().map(|word| word.as_bytes().to_vec()));
        command
    };
    match type_of(kind) {
        "hash" => words("HGETALL", &[]),
        "set" => words("SMEMBERS", &[]),
        "zset" => words("ZRANGE", &["0", "-1", "WITHSCORES"]),
        "stream" => words("XLEN", &[]),
        _ => words("GET", &[]),
    }
}

fn stored(kind: &Value, content: Value) -> Option<Stored> {
    Some(match type_of(kind) {
        "string" => {
            let Value::Bulk(bytes) = content else { return None };
            Stored::Text(bytes)
        }
        "hash" => Stored::Hash(pairs(content).map(|(name, value)| (lossy(name), value)).collect()),
        "set" => Stored::Set(texts(content).into_iter().map(lossy).collect()),
        "zset" => {
            let score = |text: Vec<u8>| lossy(text).parse().unwrap_or(f64::NAN);
            let members: BTreeMap<_, _> =
                pairs(content).map(|(member, text)| (lossy(member), score(text))).collect();
            Stored::Zset(members)
        }
        "stream" => {
            let Value::Int(length) = content else { return None };
            Stored::Stream(usize::try_from(length).unwrap_or_default())
        }
        // It has ended since its name was read.
        _ => return None,
    })
}

fn type_of(kind: &Value) -> &str {
    if let Value::Status(kind) = kind { kind } else { "none" }
}

fn pairs(value: Value) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut texts = texts(value).into_iter();
    std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
}

fn texts(value: Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = value else { return Vec::new() };
    let bytes = |element| if let Value::Bulk(bytes) = element { bytes } else { Vec::new() };
    elements.into_iter().map(bytes).collect()
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

const KEYS_AT_A_TIME: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    #[test]
    fn an_unreadable_store_is_an_error() {
        let server = Server::valkey().unwrap();
        let mut admin = server.connect().unwrap();
        admin.call(&["SET", "text", "1"]).unwrap();
        admin.call(&["HSET", "hash", "field", "1"]).unwrap();
        let snapshot = read(None, &mut admin).unwrap();
        assert_eq!(snapshot.foreign_keys().count(), 2);
        for command in ["time", "keys", "type", "pexpiretime", "get", "hgetall"] {
            for (sign, readable) in [('-', false), ('+', true)] {
                admin.call(&["ACL", "SETUSER", "default", &format!("{sign}{command}")]).unwrap();
                let found = read(None, &mut server.connect().unwrap());
                assert_eq!(found.is_ok(), readable, "{sign}{command}: {found:?}");
            }
        }
    }
}
