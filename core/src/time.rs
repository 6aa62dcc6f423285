//! Two clocks, two types.
//!
//! [`LocalTime`] is the monotonic time of the process that runs a machine. [`ServerTime`] is what a
//! server's clock said; it arrives inside replies only. There is no conversion, so nothing can be
//! judged due by the wrong clock.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::error::InvalidNumber;

/// Longest delay, pause, timeout or deadline: a thousand years. Added to the current time, it is
/// still exact in a Lua number.
pub const DURATION_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);

/// Milliseconds of a process's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalTime(pub u64);

impl LocalTime {
    /// This time plus `duration`, never past the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms))
    }
}

/// Unix milliseconds by a server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTime(pub i64);

impl fmt::Display for ServerTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ServerTime {
    type Err = InvalidNumber;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| InvalidNumber::new("timestamp", text))
    }
}
