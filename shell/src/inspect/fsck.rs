//! Is the data sound? The oracles of [`selvedge_core::audit`], the very same ones that judge
//! simulations, on a live store.
//!
//! Keys are found with `SCAN` and read partition by partition in bounded pages. Work goes on in
//! the meantime: what looks wrong is read once more, and only what is still wrong then is told.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{self, Entry, Snapshot, Stored, Violation};
use selvedge_core::engine::Command;
use selvedge_core::key::Key;
use selvedge_core::partition::slot;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, as_bytes, fields, text};

/// What a check found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong, in order of oracle and subject.
    pub violations: Vec<Violation>,
    /// Keys of ours that were read.
    pub keys: usize,
    /// Keys under our prefix that are none of ours.
    pub strangers: usize,
    /// Groups of keys that were judged, each as a whole.
    pub partitions: usize,
    /// Index entries that engines set aside because nobody can read them.
    pub aside: Vec<Aside>,
}

/// An index entry that an engine set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aside {
    /// Where it is kept until a person has looked.
    pub key: String,
    /// The index and the entry.
    pub entry: String,
    /// Why it could not be read.
    pub reason: String,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Reads and judges the whole store. `progress` is told how many partitions of how many are done.
///
/// # Errors
/// When the store does not answer.
pub async fn check(
    client: &Client,
    mut progress: impl FnMut(usize, usize),
) -> Result<Report, ClientError> {
    let by_slot = keys_by_slot(client).await?;
    let mut report = Report::default();
    let of = by_slot.len();
    for (done, keys) in by_slot.into_values().enumerate() {
        progress(done, of);
        let (snapshot, mut found) = judge(client, &keys).await?;
        if !found.is_empty() {
            // A moment in the middle of somebody's work is no verdict: look again.
            let (_, again) = judge(client, &keys_again(client, keys).await?).await?;
            found.retain(|violation| again.contains(violation));
        }
        report.keys += snapshot.iter().count();
        report.strangers += snapshot.strangers().count();
        report.partitions += 1;
        report.aside.extend(aside(&snapshot));
        report.violations.extend(found);
    }
    progress(of, of);
    report.violations.sort();
    Ok(report)
}

fn aside(snapshot: &Snapshot) -> Vec<Aside> {
    let kept = snapshot.iter().filter(|(key, _)| matches!(key, Key::Aside(_)));
    let fields = kept.filter_map(|(key, entry)| Some((key, entry.fields()?)));
    fields
        .flat_map(|(key, fields)| {
            fields.iter().map(move |(entry, reason)| Aside {
                key: key.to_string(),
                entry: entry.to_owned(),
                reason: String::from_utf8_lossy(reason).into_owned(),
            })
        })
        .collect()
}

/// Every key under our prefix, by the slot it lives in.
async fn keys_by_slot(client: &Client) -> Result<BTreeMap<u16, BTreeSet<Vec<u8>>>, ClientError> {
    let mut by_slot: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for server in client.store().a_slot_per_server() {
        let mut cursor = "0".to_owned();
        loop {
            let reply = client.read_one(scan(server, &cursor, "ff:*")).await?;
            let (next, page) = read_page(reply);
            for key in page {
                by_slot.entry(slot(&key)).or_default().insert(key);
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(by_slot)
}

/// The keys of a slot now: those that were there and those that records have gained since.
async fn keys_again(
    client: &Client,
    mut keys: BTreeSet<Vec<u8>>,
) -> Result<BTreeSet<Vec<u8>>, ClientError> {
    let Some(first) = keys.first() else { return Ok(keys) };
    let at = slot(first);
    let tag = String::from_utf8_lossy(first)
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag.to_owned());
    let Some(tag) = tag else { return Ok(keys) };
    let mut cursor = "0".to_owned();
    loop {
        // A pattern with a hash tag lets a cluster look into one slot alone.
        let reply = client.read_one(scan(at, &cursor, &format!("ff:*{{{tag}}}*"))).await?;
        let (next, page) = read_page(reply);
        keys.extend(page.into_iter().filter(|key| slot(key) == at));
        if next == "0" {
            return Ok(keys);
        }
        cursor = next;
    }
}

fn scan(slot: u16, cursor: &str, pattern: &str) -> Command {
    let argv = ["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT];
    let argv = argv.into_iter().map(|word| word.as_bytes().to_vec()).collect();
    Command { slot, argv, reads: true }
}

fn read_page(reply: Value) -> (String, Vec<Vec<u8>>) {
    let Value::Array(mut parts) = reply else { return ("0".to_owned(), Vec::new()) };
    let (page, cursor) = (parts.pop(), parts.pop());
    let page = match page {
        Some(Value::Array(members)) => members.into_iter().filter_map(as_bytes).collect(),
        _ => Vec::new(),
    };
    (cursor.map(text).unwrap_or_default(), page)
}

async fn judge(
    client: &Client,
    keys: &BTreeSet<Vec<u8>>,
) -> Result<(Snapshot, Vec<Violation>), ClientError> {
    let mut snapshot = Snapshot::new(client.store().server_time().await?);
    let keys: Vec<&Vec<u8>> = keys.iter().collect();
    read_keys(client, &keys, &mut snapshot).await?;
    Ok(audit::judge_unattended(snapshot))
}

/// Reads what stands under some keys.
pub(super) async fn read_keys(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    for some in keys.chunks(KEYS_AT_ONCE) {
        load(client, some, snapshot).await?;
    }
    Ok(())
}

/// Reads some keys: their types and times to live in one pipeline, their values in another.
async fn load(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    let looks = keys
        .iter()
        .flat_map(|key| [command("TYPE", key, &[]), command("PTTL", key, &[])])
        .collect();
    let looks = client.read(looks).await?;
    let mut known = Vec::new();
    let mut reads = Vec::new();
    for (key, look) in keys.iter().zip(looks.chunks_exact(2)) {
        let (kind, ends) = (text(look[0].clone()), &look[1]);
        let Some(read) = first_read(&kind, key) else { continue };
        reads.push(read);
        let left = if let Value::Int(ms) = ends { Some(*ms).filter(|ms| *ms >= 0) } else { None };
        known.push((*key, kind, left.map(|ms| ServerTime(snapshot.now().0.saturating_add(ms)))));
    }
    let values = client.read(reads).await?;
    for ((key, kind, expires_at), value) in known.into_iter().zip(values) {
        let stored = stored(client, key, &kind, value).await?;
        snapshot.put(key, stored.map(|stored| Entry { stored, expires_at }));
    }
    Ok(())
}

fn command(name: &str, key: &[u8], rest: &[&[u8]]) -> Command {
    let mut argv = vec![name.as_bytes().to_vec(), key.to_vec()];
    argv.extend(rest.iter().map(|word| word.to_vec()));
    Command { slot: slot(key), argv, reads: true }
}

/// What to read of a key first; sets and sorted sets may need more pages.
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

/// The value of a key; nothing when it is gone.
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

/// The members that a scan answers with, page by page from the first one on.
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

/// Members or keys that a server looks at in one step of a scan.
const SCAN_COUNT: &str = "1000";
/// Keys that are read in one pipeline.
const KEYS_AT_ONCE: usize = 500;
