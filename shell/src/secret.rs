//! The secrets that sign waitpoint tokens: where they come from, and how they get to every partition.
//!
//! A server signs and verifies tokens itself; the secret only has to be there, on each flow
//! partition. It is never printed or logged, by nobody.

use std::time::Duration;

use selvedge_core::call::suspension::{
    ListWaitpointHmacKids, RotateWaitpointHmacSecret, SigningKids,
};
use selvedge_core::error::{CallError, Code, ServerError};
use selvedge_core::partition::{Partition, PartitionCounts};
use thiserror::Error;

use crate::secret_text::SecretText;
use crate::store::Store;

/// Where the first signing secret of a deployment comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// From the operator, as hex digits.
    Given(SecretText),
    /// Drawn at random, when there is none yet.
    Generate,
    /// It must be installed already.
    Stored,
}

/// Why a signing secret is not in place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The text cannot be a secret; it is not quoted.
    #[error("a waitpoint secret is an even number of hex digits, at least {SECRET_DIGITS_MIN}")]
    NotHex,
    /// A deployment without a secret, and none is given.
    #[error(
        "no waitpoint secret is installed on {partitions} partitions, and none is given: set \
         SELVEDGE_WAITPOINT_SECRET_FILE or SELVEDGE_WAITPOINT_SECRET (`openssl rand -hex 32` \
         makes one), or let `selvedge secret rotate` install one"
    )]
    Missing {
        /// How many partitions lack one.
        partitions: usize,
    },
    /// Some partitions could not be reached; the others are done. Doing it again does no harm.
    #[error("done on {done} of {of} partitions, then: {error}; run it again")]
    Partial {
        /// Partitions that are done.
        done: usize,
        /// All of them.
        of: usize,
        /// What the first of the others answered.
        error: Box<CallError>,
    },
    /// The store does not answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl SecretError {
    /// The server's part in it, if it has one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        let error = match self {
            Self::NotHex | Self::Missing { .. } => return None,
            Self::Partial { error, .. } => error,
            Self::Call(error) => error,
        };
        match error {
            CallError::Server(error) => Some(error),
            CallError::Refused(_) | CallError::Broken(_) => None,
        }
    }
}

/// What a rotation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The name of the key that signs from now on.
    pub kid: String,
    /// On how many partitions.
    pub partitions: usize,
    /// On how many of them another key signed before.
    pub replaced: usize,
    /// How long tokens of the former key still verify.
    pub grace: Duration,
}

/// Reads a secret that somebody wrote down.
///
/// # Errors
/// When it is not made of hex digits, or of too few.
pub fn read(text: &str) -> Result<SecretText, SecretError> {
    let text = text.trim();
    let usable = text.len() >= SECRET_DIGITS_MIN
        && text.len().is_multiple_of(2)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if usable { Ok(SecretText::new(text)) } else { Err(SecretError::NotHex) }
}

/// Draws a secret of 32 bytes from the operating system's randomness.
///
/// # Panics
/// When the operating system has none to give, which is no moment to go on.
#[must_use]
pub fn generate() -> SecretText {
    let mut bytes = [0; 32];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .expect("the operating system gives random bytes");
    SecretText::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Makes sure that every flow partition has a signing key; those that have one keep it.
///
/// # Errors
/// When there is none to install, or the store does not answer everywhere.
pub async fn install(
    store: &Store,
    counts: PartitionCounts,
    source: &SecretSource,
) -> Result<(), SecretError> {
    let mut bare = Vec::new();
    for (partition, kids) in list(store, counts).await? {
        if kids.current.is_none() {
            bare.push(partition);
        }
    }
    if bare.is_empty() {
        return Ok(());
    }
    let secret = match source {
        SecretSource::Given(secret) => secret.clone(),
        SecretSource::Generate => generate(),
        SecretSource::Stored => return Err(SecretError::Missing { partitions: bare.len() }),
    };
    tracing::info!(partitions = bare.len(), kid = FIRST_KID, "installing the waitpoint secret");
    let key = NewKey { kid: FIRST_KID, secret: &secret, grace: Duration::ZERO, yields: true };
    sign_with(store, &bare, &key).await
}

/// Lets a new key sign on every flow partition. Tokens of the former one verify for as long as the
/// grace lasts.
///
/// # Errors
/// When the store does not answer everywhere; rotating again then sets it right.
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
    let key = NewKey { kid: &kid, secret, grace, yields: false };
    sign_with(store, &partitions, &key).await?;
    tracing::info!(partitions = partitions.len(), kid, "the waitpoint secret was rotated");
    Ok(Rotated { kid, partitions: partitions.len(), replaced, grace })
}

/// The signing keys of every flow partition, by name only.
///
/// # Errors
/// When the store does not answer everywhere.
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

/// A key on its way to the partitions.
struct NewKey<'a> {
    kid: &'a str,
    secret: &'a SecretText,
    grace: Duration,
    /// Whether another secret of the same name may stay, because somebody else was faster.
    yields: bool,
}

/// One pipelined pass; what fails is tried again, because the same key twice does no harm.
async fn sign_with(
    store: &Store,
    partitions: &[Partition],
    key: &NewKey<'_>,
) -> Result<(), SecretError> {
    let grace_ms = u64::try_from(key.grace.as_millis()).unwrap_or(u64::MAX);
    let mut left: Vec<RotateWaitpointHmacSecret> = partitions
        .iter()
        .map(|&partition| RotateWaitpointHmacSecret {
            partition,
            new_kid: key.kid.to_owned(),
            new_secret_hex: key.secret.expose().to_owned(),
            grace_ms,
        })
        .collect();
    let mut first_error = None;
    for _ in 0..PASSES_MAX {
        let replies = store.call_all(&left).await;
        let mut failed = Vec::new();
        first_error = None;
        for (call, reply) in left.into_iter().zip(replies) {
            match reply {
                Ok(_) => {}
                Err(CallError::Refused(refusal))
                    if key.yields && refusal.code == Code::RotationConflict => {}
                Err(error) => {
                    first_error.get_or_insert(error);
                    failed.push(call);
                }
            }
        }
        left = failed;
        if left.is_empty() {
            return Ok(());
        }
    }
    let (of, done) = (partitions.len(), partitions.len() - left.len());
    let error = first_error.unwrap_or_else(|| ServerError::silence("not answered").into());
    Err(SecretError::Partial { done, of, error: Box::new(error) })
}

/// `k1`, `k2`, …: one above the highest anywhere. Names of another kind are left behind.
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

/// The contract's name for the first key of a deployment.
const FIRST_KID: &str = "k1";

/// 16 bytes; shorter ones can be guessed.
const SECRET_DIGITS_MIN: usize = 32;

/// A server that is away for a moment costs a pass; one that stays away is told about.
const PASSES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hex_and_long_enough() {
        assert!(read(&"ab".repeat(32)).is_ok());
        assert!(read(&format!(" {}\n", "0F".repeat(16))).is_ok());
        for bad in ["", "ab", &"a".repeat(33), &"xy".repeat(16)] {
            let error = read(bad).unwrap_err();
            assert!(bad.is_empty() || !error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn drawn_secrets_can_be_read_and_differ() {
        let (one, other) = (generate(), generate());
        assert_ne!(one, other);
        assert_eq!(read(one.expose()).unwrap(), one);
        assert_eq!(format!("{one:?}"), "***");
    }

    #[test]
    fn names_of_keys_count_up() {
        let kids = |current: &str| SigningKids {
            current: Some(current.to_owned()),
            verifying: Vec::new(),
        };
        assert_eq!(next_kid([].into_iter()), "k1");
        assert_eq!(next_kid([&kids("k1"), &kids("k9"), &kids("theirs")].into_iter()), "k10");
    }
}
