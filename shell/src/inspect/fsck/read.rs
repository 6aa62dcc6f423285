//! Reads keys into a snapshot, in bounded pipelines.

use std::collections::BTreeMap;

use selvedge_core::audit::{self, Entry, Snapshot, Stored};
use selvedge_core::client::ReadOnce;
use selvedge_core::command::Command;
use selvedge_core::key::{ExecutionPart, Key};
use selvedge_core::partition::slot;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use super::SCAN_COUNT;
use crate::client::{Client, ClientError, as_bytes, fields, text};

/// Reads these keys into the snapshot, in bounded pipelines.
pub(in crate::inspect) async fn read_keys(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    for some in keys.chunks(KEYS_PER_PIPELINE) {
        load(client, some, snapshot).await?;
    }
    Ok(())
}

/// Reads these keys: each by the type that its name says, and the others once more by their own.
async fn load(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    let mut others = Vec::new();
    let (mut named, mut reads) = (Vec::new(), Vec::new());
    for key in keys {
        let parsed = std::str::from_utf8(key).ok().and_then(|text| text.parse::<Key>().ok());
        let kind = parsed.as_ref().and_then(audit::expected_type);
        // The length of a stream is zero for a key that does not exist.
        match kind.filter(|kind| *kind != "stream").and_then(|kind| first_read(kind, key)) {
            Some(read) => {
                let expires = may_expire(parsed.as_ref());
                reads.push(read);
                reads.extend(expires.then(|| command("PTTL", key, &[])));
                named.push((*key, kind.unwrap_or_default(), expires));
            }
            None => others.push(*key),
        }
    }
    let mut answers = client.run(ReadOnce::new(reads)).await?.into_iter();
    for (key, kind, expires) in named {
        let value = answers.next();
        let ends = if expires { answers.next() } else { Some(Ok(Value::Nil)) };
        // Another type, or no answer: a read that is repeated tells.
        let (Some(Ok(value)), Some(Ok(ends))) = (value, ends) else {
            others.push(key);
            continue;
        };
        let stored = stored(client, key, kind, value).await?;
        let expires_at = expiry(snapshot, ends);
        snapshot.put(key, stored.map(|stored| Entry { stored, expires_at }));
    }
    load_by_type(client, &others, snapshot).await
}

/// When a key with this reply to `PTTL` expires.
fn expiry(snapshot: &Snapshot, left: Value) -> Option<ServerTime> {
    let left = if let Value::Int(ms) = left { Some(ms).filter(|ms| *ms >= 0) } else { None };
    left.map(|ms| ServerTime(snapshot.now().0.saturating_add(ms)))
}

/// Reads these keys: types and TTLs in one pipeline, values in another.
async fn load_by_type(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    let looks = keys.iter().flat_map(|key| [command("TYPE", key, &[]), command("PTTL", key, &[])]);
    let mut looks = client.read(looks.collect()).await?.into_iter();
    let mut known = Vec::new();
    let mut reads = Vec::new();
    for key in keys {
        let kind = looks.next().map(text).unwrap_or_default();
        let ends = looks.next().unwrap_or(Value::Nil);
        let Some(read) = first_read(&kind, key) else { continue };
        reads.push(read);
        known.push((*key, kind, expiry(snapshot, ends)));
    }
    let values = client.read(reads).await?;
    for ((key, kind, expires_at), value) in known.into_iter().zip(values) {
        let stored = stored(client, key, &kind, value).await?;
        snapshot.put(key, stored.map(|stored| Entry { stored, expires_at }));
    }
    Ok(())
}

/// Whether a key may have a time to live; most never have one.
fn may_expire(key: Option<&Key>) -> bool {
    !matches!(
        key,
        Some(
            Key::Attempt(..)
                | Key::Stream(..)
                | Key::Flow(..)
                | Key::Index(..)
                | Key::Execution(
                    _,
                    ExecutionPart::Core
                        | ExecutionPart::Payload
                        | ExecutionPart::Result
                        | ExecutionPart::Policy
                        | ExecutionPart::Attempts
                        | ExecutionPart::DependencyMeta
                        | ExecutionPart::DependenciesUnresolved
                        | ExecutionPart::DependenciesAll
                        | ExecutionPart::Dependency(_)
                )
        )
    )
}

pub(super) fn command(name: &str, key: &[u8], rest: &[&[u8]]) -> Command {
    let mut argv = vec![name.as_bytes().to_vec(), key.to_vec()];
    argv.extend(rest.iter().map(|word| word.to_vec()));
    Command { slot: slot(key), argv, reads: true }
}

/// The first read of a key by its type; sets and sorted sets may need more pages.
fn first_read(kind: &str, key: &[u8]) -> Option<Command> {
    let count: &[u8] = SCAN_COUNT.as_bytes();
    match kind {
        "string" => Some(command("GET", key, &[])),
        "hash" => Some(command("HGETALL", key, &[])),
        "set" => Some(command("SSCAN", key, &[b"0", b"COUNT", count])),
        "zset" => Some(command("ZSCAN", key, &[b"0", b"COUNT", count])),
        "stream" => Some(command("XLEN", key, &[])),
        _ => None,
    }
}

/// The value of a key; `None` if it was deleted meanwhile.
async fn stored(
    client: &Client,
    key: &[u8],
    kind: &str,
    reply: Value,
) -> Result<Option<Stored>, ClientError> {
    Ok(match kind {
        "string" => as_bytes(reply).map(Stored::Text),
        "hash" => {
            let flat = if let Value::Array(flat) = reply { flat } else { Vec::new() };
            let pairs = flat
                .chunks_exact(2)
                .map(|pair| (text(pair[0].clone()), as_bytes(pair[1].clone()).unwrap_or_default()));
            Some(Stored::Hash(pairs.collect::<BTreeMap<_, _>>())).filter(|_| !flat.is_empty())
        }
        "set" => {
            let members = all_pages(client, key, "SSCAN", reply).await?;
            Some(Stored::Set(members.into_iter().collect())).filter(has_members)
        }
        "zset" => {
            let flat = all_pages(client, key, "ZSCAN", reply).await?;
            let scores = flat
                .chunks_exact(2)
                .filter_map(|pair| Some((pair[0].clone(), pair[1].parse::<f64>().ok()?)));
            Some(Stored::Zset(scores.collect())).filter(has_members)
        }
        "stream" => {
            let count = if let Value::Int(count) = reply { Some(count) } else { None };
            count.map(|count| Stored::Stream(usize::try_from(count).unwrap_or_default()))
        }
        _ => None,
    })
}

fn has_members(stored: &Stored) -> bool {
    match stored {
        Stored::Set(members) => !members.is_empty(),
        Stored::Zset(members) => !members.is_empty(),
        Stored::Text(_) | Stored::Hash(_) | Stored::Stream(_) => true,
    }
}

/// All members of a set or sorted set; `reply` is the first page.
async fn all_pages(
    client: &Client,
    key: &[u8],
    name: &str,
    mut reply: Value,
) -> Result<Vec<String>, ClientError> {
    let mut members = Vec::new();
    loop {
        let Value::Array(mut parts) = reply else { return Ok(members) };
        let (page, cursor) = (parts.pop(), parts.pop());
        members.extend(page.map(fields).unwrap_or_default());
        let cursor = cursor.map(text).unwrap_or_default();
        if cursor == "0" || cursor.is_empty() {
            return Ok(members);
        }
        let rest: [&[u8]; 3] = [cursor.as_bytes(), b"COUNT", SCAN_COUNT.as_bytes()];
        reply = client.read_one(command(name, key, &rest)).await?;
    }
}

/// Keys read in one pipeline.
const KEYS_PER_PIPELINE: usize = 500;
