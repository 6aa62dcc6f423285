//! [`Keyspace`]: everything in a store, compared before and after a call.

use std::collections::BTreeMap;

use selvedge_core::value::Value;

use crate::spec::report::show;
use crate::spec::store::SpecStore;

/// All keys with their content and expiry, in one canonical form for all stores.
#[derive(Debug, PartialEq, Eq)]
pub struct Keyspace {
    keys: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    content: Value,
    expires_at_ms: Value,
}

impl Keyspace {
    /// Reads the whole of it.
    pub fn read(store: &mut dyn SpecStore) -> Result<Self, String> {
        let mut keys = BTreeMap::new();
        for key in texts(ask(store, &[b"KEYS", b"*"])?) {
            let Value::Status(kind) = ask(store, &[b"TYPE", &key])? else {
                return Err("TYPE answered no status".to_owned());
            };
            let content = content(store, &kind, &key)?;
            let expires_at_ms = ask(store, &[b"PEXPIRETIME", &key])?;
            keys.insert(key, Entry { kind, content, expires_at_ms });
        }
        Ok(Self { keys })
    }

    /// The keys, apart from the given ones, that another keyspace has differently: one line each.
    #[must_use]
    pub fn differences(&self, after: &Self, but: &[Vec<u8>]) -> Vec<String> {
        let added = after.keys.keys().filter(|key| !self.keys.contains_key(*key));
        self.keys
            .keys()
            .chain(added)
            .filter(|key| !but.contains(key) && self.keys.get(*key) != after.keys.get(*key))
            .map(|key| {
                let (old, new) = (self.shown(key), after.shown(key));
                format!("{}: {old} became {new}", show(&Value::Bulk(key.clone())))
            })
            .collect()
    }

    fn shown(&self, key: &[u8]) -> String {
        let Some(entry) = self.keys.get(key) else { return "nothing".to_owned() };
        let (kind, content) = (&entry.kind, show(&entry.content));
        if entry.expires_at_ms == Value::Int(-1) {
            return format!("{kind} {content}");
        }
        format!("{kind} {content} until {}", show(&entry.expires_at_ms))
    }
}

/// A hash and a set have no order of their own, so they get one.
fn content(store: &mut dyn SpecStore, kind: &str, key: &[u8]) -> Result<Value, String> {
    match kind {
        "string" => ask(store, &[b"GET", key]),
        "hash" => {
            let mut fields: Vec<_> =
                texts(ask(store, &[b"HGETALL", key])?).chunks(2).map(<[_]>::to_vec).collect();
            fields.sort();
            Ok(bulks(fields.concat()))
        }
        "set" => {
            let mut members = texts(ask(store, &[b"SMEMBERS", key])?);
            members.sort();
            Ok(bulks(members))
        }
        "zset" => ask(store, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
        "stream" => ask(store, &[b"XRANGE", key, b"-", b"+"]),
        "list" => ask(store, &[b"LRANGE", key, b"0", b"-1"]),
        _ => Err(format!("a key of type {kind}")),
    }
}

/// Carries out a command that has no reason to be refused.
pub(crate) fn ask(store: &mut dyn SpecStore, command: &[&[u8]]) -> Result<Value, String> {
    let command: Vec<_> = command.iter().map(|part| part.to_vec()).collect();
    match store.call(&command) {
        Ok(Value::Error(error)) => Err(error),
        Ok(value) => Ok(value),
        Err(error) => Err(format!("no reply: {error}")),
    }
}

/// The texts of an array reply; of anything else, none.
pub(crate) fn texts(value: Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = value else { return Vec::new() };
    elements
        .into_iter()
        .filter_map(|element| if let Value::Bulk(text) = element { Some(text) } else { None })
        .collect()
}

fn bulks(texts: Vec<Vec<u8>>) -> Value {
    Value::Array(texts.into_iter().map(Value::Bulk).collect())
}
