//! The writes that the contract allows together with an error code.

use std::collections::BTreeSet;

use crate::hostile::corpus::Call;
use crate::hostile::keyspace_data::{Content, KeyspaceData, shorten};

/// What changed beyond that which the contract ties to this code, if anything did.
pub fn beyond_allowed_writes(
    call: &Call,
    code: &str,
    before: &KeyspaceData,
    after: &KeyspaceData,
) -> Option<String> {
    let mut changed = before.changed(after);
    match code {
        "lease_expired" => {
            let kept = history_asked_for(call);
            changed.retain(|key| !marks_expiry(before, after, key, kept));
        }
        "max_retries_exhausted" => {
            if let Some(complaint) = not_ended(before, after) {
                return Some(complaint);
            }
            changed.retain(|key| !belongs_to_execution(call, key));
        }
        "capability_mismatch" => changed
            .retain(|key| fields(before, after, key) != Some(one("last_capability_mismatch_at"))),
        "missing_token"
        | "invalid_token"
        | "token_expired"
        | "invalid_secret"
        | "hmac_secret_not_initialized"
        | "invalid_keys_missing_hmac" => changed.retain(|key| {
            fields(before, after, key) != Some(one("last_hmac_validation_failed_at"))
        }),
        _ => {}
    }
    let beyond: Vec<_> = changed.iter().map(|key| shorten(key)).collect();
    (!beyond.is_empty()).then(|| beyond.join(", "))
}

/// The state vector and two times, one history entry, and the closing of a stream's record.
fn marks_expiry(
    before: &KeyspaceData,
    after: &KeyspaceData,
    key: &[u8],
    kept: Option<f64>,
) -> bool {
    let is = |name: &str| key.ends_with(name.as_bytes());
    if let Some(changed) = fields(before, after, key) {
        let closes_stream: BTreeSet<_> = ["closed_at", "closed_reason"].map(str::to_owned).into();
        let marks: BTreeSet<_> = MARKED.map(str::to_owned).into();
        // The time is the same if the record already said that the lease expires now.
        let marked = ["lease_expired_at", "ownership_state"].map(|name| changed.contains(name));
        return changed.is_subset(&marks) && marked.contains(&true)
            || is(":meta") && changed.is_subset(&closes_stream);
    }
    let entries = |keyspace: &KeyspaceData| match keyspace.keys.get(key).map(|entry| &entry.content)
    {
        Some(Content::Stream(entries)) => Some(entries.clone()),
        Some(_) => None,
        None => Some(Vec::new()),
    };
    match (entries(before), entries(after)) {
        (Some(_), Some(new)) if new.is_empty() => {
            is(":lease:history") && kept.is_some_and(|kept| kept < 1.0)
        }
        (Some(old), Some(new)) => new.split_last().is_some_and(|((_, event), rest)| {
            // What is beyond the length that was asked for goes with the new entry.
            let trimmed = || kept.is_some() && old.ends_with(rest);
            (rest == old || trimmed()) && event.get(1).is_some_and(|word| word == b"expired")
        }),
        _ => false,
    }
}

/// How long a lease history the call asks for: only a suspend does.
fn history_asked_for(call: &Call) -> Option<f64> {
    const LEASE_HISTORY_MAXLEN: usize = 16;
    let asked = call.args.get(LEASE_HISTORY_MAXLEN).map(|word| String::from_utf8_lossy(word));
    asked.filter(|_| call.function == "ff_suspend_execution")?.parse().ok()
}

/// The cap of reclaims ends the execution: some record must say so.
fn not_ended(before: &KeyspaceData, after: &KeyspaceData) -> Option<String> {
    let ended = before.changed(after).iter().any(|key| {
        let core = after.hash(key);
        let is = |field: &str, value: &[u8]| {
            core.get(field.as_bytes()).is_some_and(|found| found == value)
        };
        is("lifecycle_phase", b"terminal") && is("terminal_outcome", b"failed")
    });
    (!ended).then(|| "no execution has ended".to_owned())
}

fn belongs_to_execution(call: &Call, key: &[u8]) -> bool {
    call.keys.iter().any(|given| given == key)
        || [&b"ff:idx:"[..], b"ff:attempt:", b"ff:stream:"]
            .iter()
            .any(|family| key.starts_with(family))
}

/// The fields of a hash that changed; nothing when the key is not a hash in both keyspaces.
fn fields(before: &KeyspaceData, after: &KeyspaceData, key: &[u8]) -> Option<BTreeSet<String>> {
    let hash = |keyspace: &KeyspaceData| match keyspace.keys.get(key) {
        Some(entry) if matches!(entry.content, Content::Hash(_)) => Some(keyspace.hash(key)),
        _ => None,
    };
    let (old, new) = (hash(before)?, hash(after)?);
    if before.keys.get(key)?.expires_at_ms != after.keys.get(key)?.expires_at_ms {
        return None;
    }
    let all: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    Some(
        all.into_iter()
            .filter(|field| old.get(*field) != new.get(*field))
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect(),
    )
}

fn one(field: &str) -> BTreeSet<String> {
    BTreeSet::from([field.to_owned()])
}

const MARKED: [&str; 10] = [
    "lifecycle_phase",
    "ownership_state",
    "eligibility_state",
    "blocking_reason",
    "blocking_detail",
    "terminal_outcome",
    "attempt_state",
    "public_state",
    "lease_expired_at",
    "last_mutation_at",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::keyspace_data::Entry;

    /// A lease history with these events, oldest first.
    fn history(events: &[&str]) -> KeyspaceData {
        let entries = events
            .iter()
            .zip(b'1'..)
            .map(|(event, id)| (vec![id], vec![b"event".to_vec(), event.as_bytes().to_vec()]));
        let content = Content::Stream(entries.collect());
        let keys = [(b"x:lease:history".to_vec(), Entry { content, expires_at_ms: None })];
        KeyspaceData { now_us: 0, keys: keys.into() }
    }

    #[test]
    fn a_history_is_trimmed_as_the_call_asks_and_not_otherwise() {
        let call = |function: &str, kept: &str| {
            let mut args = vec![b"some".to_vec(); 16];
            args.push(kept.as_bytes().to_vec());
            Call {
                keyspace: KeyspaceData::default(),
                function: function.to_owned(),
                keys: Vec::new(),
                args,
            }
        };
        let suspend = |kept: &str| call("ff_suspend_execution", kept);
        let complete = || call("ff_complete_execution", "0");
        let old = ["acquired", "renewed"];
        for (call, new, beyond) in [
            (complete(), &["acquired", "renewed", "expired"][..], false),
            (complete(), &["acquired", "renewed", "released"], true),
            (complete(), &[], true),
            (suspend("0"), &[], false),
            (suspend("5"), &[], true),
            (suspend("some"), &[], true),
            (suspend("5"), &["acquired", "renewed", "expired"], false),
        ] {
            let told = beyond_allowed_writes(&call, "lease_expired", &history(&old), &history(new));
            assert_eq!(told.is_some(), beyond, "{call}: {new:?}: {told:?}");
        }
        // Of a trimmed history the newest entries are left, under their own ids.
        let mut trimmed = history(&["acquired", "renewed", "expired"]);
        if let Some(Entry { content: Content::Stream(entries), .. }) =
            trimmed.keys.get_mut(&b"x:lease:history"[..])
        {
            entries.remove(0);
        }
        for (call, beyond) in [(suspend("2"), false), (complete(), true)] {
            let told = beyond_allowed_writes(&call, "lease_expired", &history(&old), &trimmed);
            assert_eq!(told.is_some(), beyond, "{call}: {told:?}");
        }
    }
}
