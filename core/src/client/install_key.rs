//! Installs a waitpoint signing key on many partitions: which calls are made, and made again.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::call::suspension::{RotateWaitpointHmacSecret, Rotation};
use crate::error::{CallError, Code};
use crate::partition::Partition;
use crate::retry::{Idempotency, Retry, RetryDelays};

/// A key to install.
#[derive(Clone)]
pub struct SigningKey {
    /// Its id.
    pub kid: String,
    /// The key as hex digits. A credential.
    pub secret_hex: String,
    /// How long tokens of the former key still verify.
    pub grace_ms: u64,
    /// Whether to keep another secret with the same key id, installed concurrently.
    pub keep_existing: bool,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Installation {
    /// All partitions have the key.
    Done,
    /// Make [`InstallKey::calls`] after this pause.
    After(Duration),
    /// Some partitions do not have it.
    Failed {
        /// How many have it.
        done: usize,
        /// Why the first of the others has not.
        error: CallError,
    },
}

/// Installs a key. Each call is idempotent: those that may pass are repeated after a pause, for
/// [`REPEAT_FOR`](Self::REPEAT_FOR); a refusal is not.
pub struct InstallKey {
    keep_existing: bool,
    calls: Vec<RotateWaitpointHmacSecret>,
    of: usize,
    delays: RetryDelays,
}

impl InstallKey {
    /// How long calls without an answer are repeated.
    pub const REPEAT_FOR: Duration = Duration::from_secs(10);

    /// Installs this key on these partitions.
    #[must_use]
    pub fn new(key: SigningKey, partitions: &[Partition]) -> Self {
        let call = |partition: &Partition| RotateWaitpointHmacSecret {
            partition: *partition,
            new_kid: key.kid.clone(),
            new_secret_hex: key.secret_hex.clone(),
            grace_ms: key.grace_ms,
        };
        Self {
            keep_existing: key.keep_existing,
            calls: partitions.iter().map(call).collect(),
            of: partitions.len(),
            delays: RetryDelays::new(DELAY_FIRST, DELAY_LONGEST),
        }
    }

    /// The calls to make: one for each partition that is not known to have the key.
    #[must_use]
    pub fn calls(&self) -> &[RotateWaitpointHmacSecret] {
        &self.calls
    }

    /// Judges the replies to these calls. `elapsed` is the time since the first try, `random` any
    /// number, each as likely as the other.
    pub fn replied(
        &mut self,
        replies: Vec<Result<Rotation, CallError>>,
        elapsed: Duration,
        random: u64,
    ) -> Installation {
        let mut failed = Vec::new();
        let mut first_error = None;
        let mut may_pass = true;
        for (call, reply) in core::mem::take(&mut self.calls).into_iter().zip(replies) {
            let error = match reply {
                Ok(_) => continue,
                Err(CallError::Refused(refusal))
                    if self.keep_existing && refusal.code == Code::RotationConflict =>
                {
                    continue;
                }
                Err(error) => error,
            };
            may_pass &= error.retry(Idempotency::Idempotent) == Retry::AfterPause;
            first_error.get_or_insert(error);
            failed.push(call);
        }
        let Some(error) = first_error else { return Installation::Done };
        self.calls = failed;
        if may_pass && elapsed < Self::REPEAT_FOR {
            return Installation::After(self.delays.next(random));
        }
        Installation::Failed { done: self.of - self.calls.len(), error }
    }
}

const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_LONGEST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Refusal, ServerError};

    fn install(keep_existing: bool) -> InstallKey {
        let key =
            SigningKey { kid: "k1".into(), secret_hex: "ab".into(), grace_ms: 0, keep_existing };
        InstallKey::new(key, &[Partition::flow(0), Partition::flow(1), Partition::flow(2)])
    }

    fn rotated() -> Result<Rotation, CallError> {
        Ok(Rotation::Unchanged { kid: "k1".into() })
    }

    fn refused(code: Code) -> Result<Rotation, CallError> {
        Err(Refusal { code, details: Vec::new() }.into())
    }

    fn silent() -> Result<Rotation, CallError> {
        Err(ServerError::silence("cut").into())
    }

    #[test]
    fn what_may_pass_is_repeated_after_a_pause_for_the_partitions_that_failed() {
        let mut run = install(false);
        let next = run.replied([rotated(), silent(), rotated()].into(), Duration::ZERO, 0);
        assert_eq!(next, Installation::After(DELAY_FIRST / 2));
        assert_eq!(run.calls().len(), 1);
        assert_eq!(run.calls()[0].partition, Partition::flow(1));
        assert_eq!(run.replied([rotated()].into(), DELAY_FIRST, 0), Installation::Done);
        let mut run = install(false);
        let late = run.replied([silent(), silent(), rotated()].into(), InstallKey::REPEAT_FOR, 0);
        assert!(matches!(late, Installation::Failed { done: 1, error: CallError::Server(_) }));
    }

    #[test]
    fn a_refusal_is_not_repeated() {
        let replies = || [rotated(), silent(), refused(Code::RotationConflict)].into();
        let next = install(false).replied(replies(), Duration::ZERO, 0);
        assert!(matches!(next, Installation::Failed { done: 1, .. }), "{next:?}");
        let next = install(true).replied(replies(), Duration::ZERO, 0);
        assert!(matches!(next, Installation::After(_)), "another program was faster: {next:?}");
        let replies = [rotated(), refused(Code::RotationConflict), rotated()].into();
        assert_eq!(install(true).replied(replies, Duration::ZERO, 0), Installation::Done);
    }
}
