//! [`KeyspaceData`]: a keyspace as plain data, to be changed and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_core::value::Value;
use selvedge_lua::host::Host;

use crate::spec::keyspace::texts;
use crate::spec::report::show_text;

/// All keys at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceData {
    /// The clock, in microseconds since the epoch.
    pub now_us: u64,
    /// What each key holds.
    pub keys: BTreeMap<Vec<u8>, Entry>,
}

/// What a key holds, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its value.
    pub content: Content,
    /// When it ends, if it does, in milliseconds since the epoch.
    pub expires_at_ms: Option<i64>,
}

/// A value of one of the five types that the library uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A plain string.
    Text(Vec<u8>),
    /// Fields and their values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// Members and their scores, as the store spells them.
    Zset(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Entries: id, then fields and values in turn.
    Stream(Vec<(Vec<u8>, Vec<Vec<u8>>)>),
}

impl KeyspaceData {
    /// Reads everything a host holds.
    #[must_use]
    pub fn read(host: &mut Host) -> Self {
        let mut keys = BTreeMap::new();
        for key in texts(host.call(&["KEYS", "*"])) {
            let Value::Status(kind) = host.call(&[b"TYPE", key.as_slice()]) else { continue };
            let Some(content) = Content::read(host, &kind, &key) else { continue };
            let expiry = host.call(&[b"PEXPIRETIME", key.as_slice()]);
            let expires_at_ms = if let Value::Int(at @ 0..) = expiry { Some(at) } else { None };
            keys.insert(key, Entry { content, expires_at_ms });
        }
        Self { now_us: host.now_us(), keys }
    }

    /// Makes a host hold exactly this.
    pub fn put(&self, host: &mut Host) {
        host.set_now_us(self.now_us);
        host.call(&["FLUSHALL"]);
        for command in self.commands() {
            host.call(&command);
        }
        host.take_published();
    }

    /// The commands that make an empty store hold this.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        let mut commands = Vec::new();
        for (key, entry) in &self.keys {
            commands.extend(entry.content.commands(key));
            if let Some(at) = entry.expires_at_ms {
                let at = at.to_string().into_bytes();
                commands.push(vec![b"PEXPIREAT".to_vec(), key.clone(), at]);
            }
        }
        commands
    }

    /// The size of the largest collection.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.keys.values().map(|entry| entry.content.len()).max().unwrap_or(0)
    }

    /// The keys that another keyspace has differently.
    #[must_use]
    pub fn changed(&self, after: &Self) -> Vec<Vec<u8>> {
        let all: BTreeSet<_> = self.keys.keys().chain(after.keys.keys()).collect();
        let differs = |key: &&Vec<u8>| self.keys.get(*key) != after.keys.get(*key);
        all.into_iter().filter(differs).cloned().collect()
    }

    /// The fields of a hash; none when there is no such hash.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        match self.keys.get(key).map(|entry| &entry.content) {
            Some(Content::Hash(fields)) => fields.clone(),
            _ => BTreeMap::new(),
        }
    }
}

impl Content {
    fn read(host: &mut Host, kind: &str, key: &[u8]) -> Option<Self> {
        let pairs = |flat: Vec<Vec<u8>>| {
            flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        };
        Some(match kind {
            "string" => {
                let Value::Bulk(text) = host.call(&[b"GET", key]) else { return None };
                Self::Text(text)
            }
            "hash" => Self::Hash(pairs(texts(host.call(&[b"HGETALL", key])))),
            "set" => Self::Set(texts(host.call(&[b"SMEMBERS", key])).into_iter().collect()),
            "zset" => {
                let command: [&[u8]; 5] = [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"];
                Self::Zset(pairs(texts(host.call(&command))))
            }
            "stream" => {
                let Value::Array(entries) = host.call(&[b"XRANGE", key, b"-", b"+"]) else {
                    return None;
                };
                Self::Stream(entries.into_iter().filter_map(stream_entry).collect())
            }
            _ => return None,
        })
    }

    /// The commands that write this value under a fresh key.
    fn commands(&self, key: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let with = |name: &[u8], rest: Vec<Vec<u8>>| {
            let mut command = vec![name.to_vec(), key.to_vec()];
            command.extend(rest);
            command
        };
        match self {
            Self::Text(text) => vec![with(b"SET", vec![text.clone()])],
            Self::Hash(fields) if fields.is_empty() => Vec::new(),
            Self::Hash(fields) => vec![with(b"HSET", flat(fields, |f, v| [f, v]))],
            Self::Set(members) if members.is_empty() => Vec::new(),
            Self::Set(members) => vec![with(b"SADD", members.iter().cloned().collect())],
            Self::Zset(members) if members.is_empty() => Vec::new(),
            Self::Zset(members) => vec![with(b"ZADD", flat(members, |m, score| [score, m]))],
            Self::Stream(entries) => entries
                .iter()
                .map(|(id, fields)| with(b"XADD", [vec![id.clone()], fields.clone()].concat()))
                .collect(),
        }
    }

    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Text(_) => 1,
            Self::Hash(fields) | Self::Zset(fields) => fields.len(),
            Self::Set(members) => members.len(),
            Self::Stream(entries) => entries.len(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn flat<'a>(
    pairs: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    order: impl Fn(&'a Vec<u8>, &'a Vec<u8>) -> [&'a Vec<u8>; 2],
) -> Vec<Vec<u8>> {
    pairs.iter().flat_map(|(left, right)| order(left, right)).cloned().collect()
}

fn stream_entry(entry: Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Value::Array(parts) = entry else { return None };
    match <[Value; 2]>::try_from(parts) {
        Ok([Value::Bulk(id), fields]) => Some((id, texts(fields))),
        _ => None,
    }
}

impl fmt::Display for KeyspaceData {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  at {} us", self.now_us)?;
        for (key, entry) in &self.keys {
            for command in entry.content.commands(key) {
                let words: Vec<_> = command.iter().map(|word| shorten(word)).collect();
                writeln!(out, "  run {}", words.join(" "))?;
            }
            if let Some(at) = entry.expires_at_ms {
                writeln!(out, "  run PEXPIREAT {} {at}", shorten(key))?;
            }
        }
        Ok(())
    }
}

/// A value as spec files spell it, cut when it is long.
pub(crate) fn shorten(text: &[u8]) -> String {
    const SHOWN: usize = 300;
    if text.len() <= SHOWN {
        return show_text(text);
    }
    format!("{}… ({} bytes)", show_text(&text[..SHOWN]), text.len())
}
