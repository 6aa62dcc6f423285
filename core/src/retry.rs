//! Whether a call to the store that failed may be made again, and how long to wait before that.
//! Whether a *task* that failed is retried is decided by its policy, in `lua/lib/policy.lua`.
//!
//! This is the only place that decides either. Two causes never get here, because the store removes
//! them and repeats the command itself: a slot that moved is followed, and a missing library is
//! loaded. If such an error is returned all the same, it is repeated after a pause.

use core::time::Duration;

use crate::error::{Applied, CallError, Class, Refusal, RetryClass, ServerError};

/// Whether making a call twice has the same effect as making it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// It has: reads, and writes that recognise themselves.
    Idempotent,
    /// It has not: after *perhaps applied*, read and compare first.
    NotIdempotent,
}

/// What to do about a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Retry {
    /// Repeat it after a pause: the cause goes away without intervention.
    AfterPause,
    /// Somebody must first change rights, memory or configuration of the server. A service keeps
    /// trying and reports it; a call that a person waits for fails.
    AfterRepair,
    /// Do not repeat it.
    Never,
}

impl ServerError {
    /// What to do about a call that failed with this error.
    pub fn retry(&self, idempotency: Idempotency) -> Retry {
        if self.applied == Applied::Perhaps && idempotency == Idempotency::NotIdempotent {
            return Retry::Never;
        }
        match self.class {
            Class::Silence | Class::NotNow | Class::Redirect | Class::Library => Retry::AfterPause,
            // A server that lost the primary role is about to be replaced by another one.
            Class::Denied if self.text.starts_with("READONLY") => Retry::AfterPause,
            Class::Denied => Retry::AfterRepair,
            Class::Broken => Retry::Never,
        }
    }

    /// Whether an idempotent call that failed with this error may succeed later without anybody's
    /// intervention.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.retry(Idempotency::Idempotent) == Retry::AfterPause
    }
}

impl CallError {
    /// What to do about a call that failed with this error.
    pub fn retry(&self, idempotency: Idempotency) -> Retry {
        match self {
            Self::Server(error) => error.retry(idempotency),
            Self::Refused(refusal) => refusal.retry(),
            Self::Broken(_) => Retry::Never,
        }
    }
}

impl Refusal {
    /// What to do about a call that was refused: it was not applied.
    pub const fn retry(&self) -> Retry {
        match self.code.retry_class() {
            RetryClass::Retryable => Retry::AfterPause,
            RetryClass::Terminal | RetryClass::Informational | RetryClass::Bug => Retry::Never,
        }
    }
}

/// The delays between tries: exponential backoff with jitter.
///
/// The length doubles from the first to the longest. Each delay is drawn from the upper half of its
/// length, so that clients that failed together do not come back together. The random number is the
/// caller's, so a simulation can repeat it.
#[derive(Clone, Copy, Debug)]
pub struct RetryDelays {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl RetryDelays {
    /// Delays from `first` to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// The delay after one more failure. `random` is any number, each as likely as the other.
    pub fn next(&mut self, random: u64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        jittered(backoff(self.first, self.longest, self.failures), random)
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The length of the delay after `failures` in a row, without jitter: nothing after none, `first`
/// after one, then twice as long each time, up to `longest`.
#[must_use]
pub fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// A delay from the upper half of `length`.
fn jittered(length: Duration, random: u64) -> Duration {
    let half = length / 2;
    // At most 2^94 nanoseconds times 2^32: this fits.
    let drawn = (half.as_nanos() * u128::from(random >> 32)) >> 32;
    let seconds = u64::try_from(drawn / NANOS_PER_SECOND).unwrap_or(u64::MAX);
    let nanos = u32::try_from(drawn % NANOS_PER_SECOND).unwrap_or(0);
    half.saturating_add(Duration::new(seconds, nanos))
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Broken, Code, Refusal};
    use crate::value::Value;
    use Idempotency::{Idempotent, NotIdempotent};
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn each_class_is_repeated_as_the_table_of_errors_says() {
        for (text, expected) in [
            ("LOADING the dataset", Retry::AfterPause),
            ("MOVED 3999 127.0.0.1:6381", Retry::AfterPause),
            ("ERR Function not found", Retry::AfterPause),
            ("READONLY You can't write against a read only replica.", Retry::AfterPause),
            ("OOM command not allowed", Retry::AfterRepair),
            ("NOAUTH Authentication required.", Retry::AfterRepair),
            ("WRONGTYPE Operation against a key", Retry::Never),
            ("ERR user_function:12: attempt to index nil", Retry::Never),
        ] {
            assert_eq!(ServerError::from_reply(text).retry(Idempotent), expected, "{text}");
        }
    }

    #[test]
    fn what_was_perhaps_applied_is_repeated_only_if_it_is_idempotent() {
        let silence = ServerError::silence("timed out");
        assert_eq!(silence.retry(Idempotent), Retry::AfterPause);
        assert_eq!(silence.retry(NotIdempotent), Retry::Never);
        let never_sent = ServerError::never_sent("not connected");
        assert_eq!(never_sent.retry(NotIdempotent), Retry::AfterPause);
    }

    #[test]
    fn a_refusal_is_repeated_if_the_contract_calls_it_retryable() {
        let refused = |code| CallError::from(Refusal { code, details: alloc::vec![] });
        let retryable = refused(Code::CapabilityMismatch);
        assert_eq!(retryable.retry(Idempotent), Retry::AfterPause);
        assert_eq!(refused(Code::FlowNotFound).retry(Idempotent), Retry::Never);
        let broken = CallError::from(Broken { expected: "a count", got: Value::Nil });
        assert_eq!(broken.retry(Idempotent), Retry::Never);
    }

    #[test]
    fn delays_double_up_to_the_longest_and_start_again_after_a_reset() {
        let mut delays = RetryDelays::new(MS(100), MS(350));
        for (least, most) in [(50, 100), (100, 200), (175, 350), (175, 350)] {
            let mut other = delays;
            assert_eq!(delays.next(0), MS(least));
            let latest = other.next(u64::MAX);
            assert!(latest <= MS(most) && latest + MS(1) > MS(most), "{latest:?}");
        }
        delays.reset();
        assert_eq!(delays.next(0), MS(50));
    }

    #[test]
    fn there_is_no_delay_before_the_first_failure() {
        assert_eq!(backoff(MS(100), MS(350), 0), Duration::ZERO);
        assert_eq!(backoff(MS(100), MS(350), 1), MS(100));
    }

    proptest! {
        #[test]
        fn no_delay_is_longer_than_the_longest(
            first: Duration,
            longest: Duration,
            failures: u32,
            random: u64,
        ) {
            let length = backoff(first, longest, failures);
            let delay = jittered(length, random);
            prop_assert!(length <= longest);
            prop_assert!(delay >= length / 2 && delay <= length);
        }
    }
}
