//! Waitpoint secrets: generates, installs and rotates the keys that sign waitpoint tokens.
//!
//! The function library signs and verifies tokens; the key must be stored on every flow partition.
//! Secrets are never printed or logged.

use std::time::Duration;

use selvedge_core::call::suspension::{ListWaitpointHmacKids, SigningKids};
use selvedge_core::client::{InstallKey, Installation, SigningKey};
use selvedge_core::error::{CallError, ServerError};
use selvedge_core::partition::{Partition, PartitionCounts};
use thiserror::Error;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::secret_text::SecretText;
use crate::store::Store;

/// Where the first waitpoint secret of a deployment comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// Given by the operator, as hex digits; checked before anything is written, as by [`parse`].
    Given(SecretText),
    /// Generated, if none is installed yet.
    Generate,
    /// Installed already; otherwise starting fails.
    Stored,
}

/// Why a waitpoint secret could not be installed or rotated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The secret is not hex, or too short. The message does not quote it.
    #[error("a waitpoint secret is an even number of hex digits, at least {SECRET_DIGITS_MIN}")]
    NotHex,
    /// No secret is installed, and none is given.
    #[error(
        "no waitpoint secret is installed on {partitions} partitions, and generating one is not \
         allowed: run `selvedge secret rotate` to install one"
    )]
    Missing {
        /// How many partitions have none.
        partitions: usize,
    },
    /// Some partitions could not be written. Running it again is safe.
    #[error("done on {done} of {of} partitions, then failed: {error}; run it again")]
    Partial {
        /// How many partitions are done.
        done: usize,
        /// How many partitions there are.
        of: usize,
        /// The first error.
        error: Box<CallError>,
    },
    /// The store does not answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl SecretError {
    /// The server error behind it, if there is one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::NotHex | Self::Missing { .. } => None,
            Self::Partial { error, .. } => error.server(),
            Self::Call(error) => error.server(),
        }
    }
}

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rotated {
    /// The id of the new signing key.
    pub kid: String,
    /// How many partitions have it.
    pub partitions: usize,
    /// How many of them had another signing key before.
    pub replaced: usize,
    /// How long tokens of the former key remain valid.
    pub grace: Duration,
}

/// Parses a secret: an even number of hex digits, at least 32. Surrounding whitespace is ignored.
///
/// # Errors
/// [`SecretError::NotHex`] otherwise.
pub fn parse(text: &str) -> Result<SecretText, SecretError> {
    let text = text.trim();
    let usable = text.len() >= SECRET_DIGITS_MIN
        && text.len().is_multiple_of(2)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if usable { Ok(SecretText::new(text)) } else { Err(SecretError::NotHex) }
}

impl SecretSource {
    /// Checks a given secret.
    ///
    /// # Errors
    /// [`SecretError::NotHex`] when it cannot be used.
    pub fn check(&self) -> Result<(), SecretError> {
        match self {
            Self::Given(secret) => parse(secret.expose()).map(drop),
            Self::Generate | Self::Stored => Ok(()),
        }
    }
}

/// Generates a random secret of 32 bytes.
///
/// # Panics
/// When the operating system provides no random bytes.
#[must_use]
pub fn generate() -> SecretText {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    SecretText::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Installs a signing key on every flow partition that has none.
///
/// # Errors
/// [`SecretError::NotHex`] when a given secret cannot be used; [`SecretError::Missing`] when a
/// partition has none and `source` is [`SecretSource::Stored`]; otherwise when a server does not
/// answer.
pub async fn install(
    store: &Store,
    counts: PartitionCounts,
    source: &SecretSource,
) -> Result<(), SecretError> {
    source.check()?;
    let mut without_key = Vec::new();
    for (partition, kids) in list(store, counts).await? {
        if kids.current.is_none() {
            without_key.push(partition);
        }
    }
    if without_key.is_empty() {
        return Ok(());
    }
    let secret = match source {
        SecretSource::Given(secret) => parse(secret.expose())?,
        SecretSource::Generate => {
            tracing::info!("no waitpoint secret is installed: generating one");
            generate()
        }
        SecretSource::Stored => return Err(SecretError::Missing { partitions: without_key.len() }),
    };
    tracing::info!(
        partitions = without_key.len(),
        kid = FIRST_KID,
        "installing the waitpoint secret"
    );
    let key = SigningKey {
        kid: FIRST_KID.to_owned(),
        secret_hex: secret.expose().to_owned(),
        grace_ms: 0,
        keep_existing: true,
    };
    install_key(store, &without_key, key).await
}

/// Installs a new signing key on every flow partition. Tokens of the former key remain valid for
/// the grace period.
///
/// # Errors
/// When a server does not answer. Running it again is safe.
pub async fn rotate(
    store: &Store,
    counts: PartitionCounts,
    secret: &SecretText,
    grace: Duration,
) -> Result<Rotated, SecretError> {
    let signing = list(store, counts).await?;
    let kid = next_kid(signing.iter().map(|(_, kids)| kids));
    let replaced = signing.iter().filter(|(_, kids)| kids.current.is_some()).count();
    let partitions: Vec<Partition> = signing.into_iter().map(|(partition, _)| partition).collect();
    let key = SigningKey {
        kid: kid.clone(),
        secret_hex: secret.expose().to_owned(),
        grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
        keep_existing: false,
    };
    install_key(store, &partitions, key).await?;
    tracing::info!(partitions = partitions.len(), kid, "waitpoint secret rotated");
    Ok(Rotated { kid, partitions: partitions.len(), replaced, grace })
}

/// The ids of the signing keys of every flow partition.
///
/// # Errors
/// When a server does not answer.
pub async fn list(
    store: &Store,
    counts: PartitionCounts,
) -> Result<Vec<(Partition, SigningKids)>, CallError> {
    let partitions = (0..counts.flow.get()).map(Partition::flow);
    let calls: Vec<ListWaitpointHmacKids> =
        partitions.map(|partition| ListWaitpointHmacKids { partition }).collect();
    let replies = store.call_all(&calls).await;
    calls.iter().zip(replies).map(|(call, kids)| Ok((call.partition, kids?))).collect()
}

/// Installs a key on these partitions.
async fn install_key(
    store: &Store,
    partitions: &[Partition],
    key: SigningKey,
) -> Result<(), SecretError> {
    let began = Instant::now();
    let mut install = InstallKey::new(key, partitions);
    loop {
        let replies = store.call_all(install.calls()).await;
        let random = Uuid::new_v4().as_u64_pair().0;
        match install.replied(replies, began.elapsed(), random) {
            Installation::Done => return Ok(()),
            Installation::After(pause) => sleep(pause).await,
            Installation::Failed { done, error } => {
                let of = partitions.len();
                return Err(SecretError::Partial { done, of, error: Box::new(error) });
            }
        }
    }
}

/// The next key id: `k1`, `k2`, …, one above the highest on any partition. Other ids are ignored.
fn next_kid<'a>(signing: impl Iterator<Item = &'a SigningKids>) -> String {
    let number = |kid: &str| kid.strip_prefix('k')?.parse::<u64>().ok();
    let highest = signing
        .flat_map(|kids| {
            let former = kids.verifying.iter().map(|(kid, _)| kid);
            kids.current.iter().chain(former).filter_map(|kid| number(kid)).max()
        })
        .max();
    format!("k{}", highest.unwrap_or(0).saturating_add(1))
}

/// The contract's id of the first key.
const FIRST_KID: &str = "k1";

/// Shortest secret, in hex digits: 16 bytes.
const SECRET_DIGITS_MIN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hex_and_long_enough() {
        assert!(parse(&"ab".repeat(32)).is_ok());
        assert!(parse(&format!(" {}\n", "0F".repeat(16))).is_ok());
        for bad in ["", "ab", &"a".repeat(33), &"xy".repeat(16)] {
            let error = parse(bad).unwrap_err();
            assert!(bad.is_empty() || !error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn a_given_secret_is_checked() {
        let given = |text: &str| SecretSource::Given(SecretText::new(text)).check();
        assert_eq!(given("not hex"), Err(SecretError::NotHex));
        assert_eq!(given(&"ab".repeat(15)), Err(SecretError::NotHex));
        assert_eq!(given(&"ab".repeat(16)), Ok(()));
    }

    #[test]
    fn generated_secrets_parse_and_differ() {
        let (one, other) = (generate(), generate());
        assert_ne!(one, other);
        assert_eq!(parse(one.expose()).unwrap(), one);
        assert_eq!(format!("{one:?}"), "***");
    }

    #[test]
    fn key_ids_count_up() {
        let kids = |current: &str| SigningKids {
            current: Some(current.to_owned()),
            verifying: Vec::new(),
        };
        assert_eq!(next_kid([].into_iter()), "k1");
        assert_eq!(next_kid([&kids("k1"), &kids("k9"), &kids("theirs")].into_iter()), "k10");
    }
}
