//! Checks the data of a store with the oracles of [`selvedge_core::audit`], which also check every
//! simulation.
//!
//! Keys are found with `SCAN` and read partition by partition in bounded pages. The store may be in
//! use: violations are checked once more, and only those found twice are reported. [`repair`] makes
//! records agree with those that are left, and [`accept`] gives up what cannot be derived.

mod repair;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
pub use repair::{Accepted, Loss, Repaired, accept, repair};
pub use selvedge_core::audit::Violation;
use selvedge_core::audit::{self, Entry, Snapshot, Stored};
use selvedge_core::command::Command;
use selvedge_core::id::LaneId;
use selvedge_core::key::{ExecutionPart, Key};
use selvedge_core::partition::slot;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, as_bytes, fields, text};

/// The result of a check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The violations, sorted by oracle and subject.
    pub violations: Vec<Violation>,
    /// How many keys were read.
    pub keys: usize,
    /// How many keys begin with `ff:` but are not of a known form.
    pub foreign_keys: usize,
    /// How many partitions were checked.
    pub partitions: usize,
    /// Unreadable index entries that engines set aside.
    pub set_aside: Vec<SetAsideEntry>,
}

/// An unreadable index entry that an engine set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAsideEntry {
    /// The key where it is kept for the operator.
    pub key: String,
    /// The index and the entry.
    pub entry: String,
    /// Why it is unreadable.
    pub reason: String,
}

impl Report {
    /// Whether there are no violations.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Checks the whole store. `progress` is called with the number of partitions done and their total.
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
    let mut lanes = BTreeSet::new();
    let mut checks =
        stream::iter(by_slot.into_values().map(|keys| check_slot(client, keys))).buffered(AT_ONCE);
    while let Some(checked) = checks.next().await {
        progress(report.partitions, of);
        let Checked { snapshot, violations, .. } = checked?;
        report.keys += snapshot.iter().count();
        report.foreign_keys += snapshot.foreign_keys().count();
        report.partitions += 1;
        report.set_aside.extend(set_aside(&snapshot));
        report.violations.extend(violations);
        lanes.extend(selvedge_core::repair::lanes_in_use(&snapshot));
    }
    progress(of, of);
    report.violations.extend(unlisted_lanes(client, lanes).await?);
    report.violations.extend(secrets::violations(client).await);
    report.violations.sort();
    Ok(report)
}

/// A slot that was checked.
struct Checked {
    snapshot: Snapshot,
    violations: Vec<Violation>,
}

/// The violations in these keys, which are all of one slot.
async fn check_slot(client: &Client, keys: BTreeSet<Vec<u8>>) -> Result<Checked, ClientError> {
    let (snapshot, violations) = check_keys(client, &keys).await?;
    if violations.is_empty() {
        return Ok(Checked { snapshot, violations });
    }
    // It may be a concurrent change: check again.
    let (snapshot, again) = check_keys(client, &rescan_keys(client, keys).await?).await?;
    let violations = violations.into_iter().filter(|found| again.contains(found)).collect();
    Ok(Checked { snapshot, violations })
}

/// Lanes that the registry lacks: engines serve none that neither it nor their settings name.
async fn unlisted_lanes(
    client: &Client,
    in_use: BTreeSet<LaneId>,
) -> Result<Vec<Violation>, ClientError> {
    if in_use.is_empty() {
        return Ok(Vec::new());
    }
    // A registry of another kind was found by the oracles.
    let Ok(listed) = client.lanes().await else { return Ok(Vec::new()) };
    let missing = in_use.into_iter().filter(|lane| !listed.contains(lane));
    let violations = missing.map(|lane| {
        let what = format!("does not list lane `{lane}`, in which executions wait");
        Violation::new(LANES_LISTED, Key::Lanes, what)
    });
    Ok(violations.collect())
}

fn set_aside(snapshot: &Snapshot) -> Vec<SetAsideEntry> {
    let kept = snapshot.iter().filter(|(key, _)| matches!(key, Key::Aside(_)));
    let fields = kept.filter_map(|(key, entry)| Some((key, entry.fields()?)));
    fields
        .flat_map(|(key, fields)| {
            fields.iter().map(move |(entry, reason)| SetAsideEntry {
                key: key.to_string(),
                entry: entry.to_owned(),
                reason: String::from_utf8_lossy(reason).into_owned(),
            })
        })
        .collect()
}

/// Every key that begins with `ff:`, by slot.
async fn keys_by_slot(client: &Client) -> Result<BTreeMap<u16, BTreeSet<Vec<u8>>>, ClientError> {
    let mut by_slot: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for server in client.store().slot_per_server() {
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

/// The keys of a slot, with those added since they were first scanned.
async fn rescan_keys(
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
        // With a hash tag in the pattern, a cluster scans only that slot.
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

async fn check_keys(
    client: &Client,
    keys: &BTreeSet<Vec<u8>>,
) -> Result<(Snapshot, Vec<Violation>), ClientError> {
    let mut snapshot = Snapshot::new(client.store().server_time().await?);
    let keys: Vec<&Vec<u8>> = keys.iter().collect();
    read_keys(client, &keys, &mut snapshot).await?;
    Ok(audit::judge_unattended(snapshot))
}

/// Reads these keys into the snapshot, in bounded pipelines.
pub(super) async fn read_keys(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    for some in keys.chunks(KEYS_PER_PIPELINE) {
        load(client, some, snapshot).await?;
    }
    Ok(())
}

/// Reads these keys: types and TTLs in one pipeline, values in another.
async fn load(
    client: &Client,
    keys: &[&Vec<u8>],
    snapshot: &mut Snapshot,
) -> Result<(), ClientError> {
    let expires: Vec<bool> = keys.iter().map(|key| may_expire(key)).collect();
    let looks = keys.iter().zip(&expires).flat_map(|(key, expires)| {
        let ttl = expires.then(|| command("PTTL", key, &[]));
        [command("TYPE", key, &[])].into_iter().chain(ttl)
    });
    let mut looks = client.read(looks.collect()).await?.into_iter();
    let mut known = Vec::new();
    let mut reads = Vec::new();
    for (key, expires) in keys.iter().zip(expires) {
        let kind = looks.next().map(text).unwrap_or_default();
        let ends = if expires { looks.next() } else { None };
        let Some(read) = first_read(&kind, key) else { continue };
        reads.push(read);
        let left =
            if let Some(Value::Int(ms)) = ends { Some(ms).filter(|ms| *ms >= 0) } else { None };
        known.push((*key, kind, left.map(|ms| ServerTime(snapshot.now().0.saturating_add(ms)))));
    }
    let values = client.read(reads).await?;
    for ((key, kind, expires_at), value) in known.into_iter().zip(values) {
        let stored = stored(client, key, &kind, value).await?;
        snapshot.put(key, stored.map(|stored| Entry { stored, expires_at }));
    }
    Ok(())
}

/// Whether a key may have a time to live; most never have one.
fn may_expire(key: &[u8]) -> bool {
    let key = std::str::from_utf8(key).ok().and_then(|text| text.parse().ok());
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

fn command(name: &str, key: &[u8], rest: &[&[u8]]) -> Command {
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

/// `COUNT` of the scan commands.
const SCAN_COUNT: &str = "1000";
/// Keys read in one pipeline.
const KEYS_PER_PIPELINE: usize = 500;
/// Slots checked at once.
const AT_ONCE: usize = 16;
/// The name of the check of the lane registry.
const LANES_LISTED: &str = "LanesListed";
