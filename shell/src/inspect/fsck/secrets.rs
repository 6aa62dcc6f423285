//! The signing secret, of which every partition holds a copy.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use selvedge_core::audit::Violation;
use selvedge_core::command::Command;
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;

use super::AT_ONCE;
use crate::client::{Client, ClientError, text_hash};

/// Partitions without a usable secret although others have one: no signal can be verified there.
pub(super) async fn violations(client: &Client) -> Vec<Violation> {
    let missing = copies(client).await.missing;
    let violations = missing.into_iter().map(|partition| {
        let what = "holds no usable signing secret: no signal to this partition can be verified";
        Violation::new("SecretsInstalled", Key::WaitpointSecrets(partition), what)
    });
    violations.collect()
}

/// Copies the secret of another partition to those that have none. Answers how many.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn repair(client: &Client) -> Result<usize, ClientError> {
    let Copies { good, missing } = copies(client).await;
    let Some(good) = good else { return Ok(0) };
    let words: Vec<&[u8]> =
        good.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect();
    let mut repaired = 0;
    for partition in missing {
        let write = Command::write("HSET", &Key::WaitpointSecrets(partition), &words);
        match client.read_one(write).await {
            Ok(_) => repaired += 1,
            Err(error) if error.is_retryable() => return Err(error),
            // It holds another type, and is reported for that.
            Err(_) => {}
        }
    }
    Ok(repaired)
}

struct Copies {
    good: Option<BTreeMap<String, String>>,
    missing: Vec<Partition>,
}

async fn copies(client: &Client) -> Copies {
    let partitions = (0..client.partitions().flow.get()).map(Partition::flow);
    let reads = partitions.map(|partition| async move {
        let read = Command::read("HGETALL", &Key::WaitpointSecrets(partition), &[]);
        (partition, client.read_one(read).await.map(text_hash).unwrap_or_default())
    });
    let all: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
    let good = all.iter().map(|(_, fields)| fields).find(|fields| is_usable(fields)).cloned();
    let missing = all.iter().filter(|(_, fields)| good.is_some() && !is_usable(fields));
    let missing = missing.map(|(partition, _)| *partition).collect();
    Copies { good, missing }
}

/// Whether the current key is there and is one.
fn is_usable(fields: &BTreeMap<String, String>) -> bool {
    let current = fields.get("current_kid").map(String::as_str).unwrap_or_default();
    let secret = fields.get(&format!("secret:{current}"));
    secret.is_some_and(|secret| {
        secret.len() >= DIGITS_MIN && secret.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The shortest secret, in hex digits.
const DIGITS_MIN: usize = 32;
