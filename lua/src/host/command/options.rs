//! Reading the words behind a command's fixed arguments.

use super::{Env, Failure};
use crate::host::number::parse_int;

/// Whether an argument is this option word, in any case.
pub(super) fn is_word(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

pub(super) fn integer(argument: &[u8]) -> Result<i64, Failure> {
    parse_int(argument).ok_or(Failure::NOT_AN_INTEGER)
}

/// A count that must not be negative.
pub(super) fn positive(argument: &[u8]) -> Result<u64, Failure> {
    parse_int(argument).and_then(|number| u64::try_from(number).ok()).ok_or(Failure::NOT_POSITIVE)
}

/// How an expiry was written: in seconds or milliseconds, from now or from the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpiryUnit {
    pub(super) seconds: bool,
    pub(super) from_now: bool,
}

impl ExpiryUnit {
    pub(super) const EX: Self = Self { seconds: true, from_now: true };
    pub(super) const PX: Self = Self { seconds: false, from_now: true };
    pub(super) const EXAT: Self = Self { seconds: true, from_now: false };
    pub(super) const PXAT: Self = Self { seconds: false, from_now: false };

    /// The instant in milliseconds since the epoch, unless it cannot be told.
    pub(super) fn instant_ms(self, amount: i64, env: &Env<'_>) -> Option<i64> {
        let amount_ms = if self.seconds { amount.checked_mul(1000)? } else { amount };
        if self.from_now { amount_ms.checked_add(env.now_ms()) } else { Some(amount_ms) }
    }
}
