//! Checks the data of a store with the oracles of [`selvedge_core::audit`], which also check every
//! simulation.
//!
//! Keys are found with `SCAN` and read partition by partition in bounded pages. The store may be in
//! use: violations are checked once more, and only those found twice are reported. [`repair`] makes
//! records agree with those that are left, and [`accept`] gives up what cannot be derived.

mod read;
mod repair;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
pub use repair::{Accepted, Loss, Repaired, accept, repair};
pub use selvedge_core::audit::Violation;
use selvedge_core::audit::{self, Snapshot};
use selvedge_core::command::Command;
use selvedge_core::id::LaneId;
use selvedge_core::key::Key;
use selvedge_core::partition::slot;
use selvedge_core::value::Value;

use tokio_util::task::AbortOnDropHandle;

use crate::client::{Client, ClientError, as_bytes, text};
use read::command;
pub(super) use read::read_keys;

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
        stream::iter(by_slot.into_values().map(|keys| checked(client, keys))).buffered(AT_ONCE);
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

/// [`check_slot`] as a task of its own: a runtime with several threads checks several at once.
async fn checked(client: &Client, keys: BTreeSet<Vec<u8>>) -> Result<Checked, ClientError> {
    let client = client.clone();
    let task = tokio::spawn(async move { check_slot(&client, keys).await });
    match AbortOnDropHandle::new(task).await {
        Ok(checked) => checked,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
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
    let argv = ["SCAN", cursor, "MATCH", pattern, "COUNT", KEYS_COUNT];
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

/// `COUNT` of the scan commands.
const SCAN_COUNT: &str = "1000";
/// `COUNT` of the scan of all keys: a few milliseconds of the server.
const KEYS_COUNT: &str = "5000";
/// Slots checked at once.
const AT_ONCE: usize = 16;
/// The name of the check of the lane registry.
const LANES_LISTED: &str = "LanesListed";
