//! The host's keyspace as the snapshot that the oracles judge.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_lua::host::Host;

/// Reads everything.
#[must_use]
pub fn read(host: &mut Host) -> Snapshot {
    let mut snapshot = Snapshot::new(now(host));
    for key in texts(host.call(&["KEYS", "*"])) {
        snapshot.put(&key, entry(host, &key));
    }
    snapshot
}

/// Reads again what the last call of the host wrote.
pub fn refresh(host: &mut Host, snapshot: &mut Snapshot) {
    snapshot.advance(now(host));
    let touched: BTreeSet<Vec<u8>> =
        host.last_writes().into_iter().flatten().filter(|word| word.starts_with(b"ff:")).collect();
    for key in touched {
        snapshot.put(&key, entry(host, &key));
    }
}

/// The clock of the host.
#[must_use]
pub fn now(host: &Host) -> ServerTime {
    ServerTime(i64::try_from(host.now_us() / 1000).unwrap_or(i64::MAX))
}

fn entry(host: &mut Host, key: &[u8]) -> Option<Entry> {
    let Value::Status(kind) = host.call(&[b"TYPE", key]) else { return None };
    let stored = match kind.as_str() {
        "string" => Stored::Text(bytes(host.call(&[b"GET", key]))),
        "hash" => Stored::Hash(
            pairs(host.call(&[b"HGETALL", key]))
                .map(|(field, value)| (lossy(field), value))
                .collect(),
        ),
        "set" => {
            Stored::Set(texts(host.call(&[b"SMEMBERS", key])).into_iter().map(lossy).collect())
        }
        "zset" => {
            let members = host.call(&[b"ZRANGE" as &[u8], key, b"0", b"-1", b"WITHSCORES"]);
            let score = |text: Vec<u8>| lossy(text).parse().unwrap_or(f64::NAN);
            let members: BTreeMap<_, _> =
                pairs(members).map(|(member, text)| (lossy(member), score(text))).collect();
            Stored::Zset(members)
        }
        "stream" => {
            let Value::Int(length) = host.call(&[b"XLEN", key]) else { return None };
            Stored::Stream(usize::try_from(length).unwrap_or_default())
        }
        _ => return None,
    };
    let expires_at = if let Value::Int(at) = host.call(&[b"PEXPIRETIME", key])
        && at >= 0
    {
        Some(ServerTime(at))
    } else {
        None
    };
    Some(Entry { stored, expires_at })
}

fn pairs(value: Value) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut texts = texts(value).into_iter();
    std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
}

fn texts(value: Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = value else { return Vec::new() };
    elements.into_iter().map(bytes).collect()
}

fn bytes(value: Value) -> Vec<u8> {
    if let Value::Bulk(bytes) = value { bytes } else { Vec::new() }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
