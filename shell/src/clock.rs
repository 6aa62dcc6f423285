//! The wall clock of the process. Only the in-process store uses it: servers have their own.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "the shell owns the clock")]
pub(crate) fn wall_clock_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
