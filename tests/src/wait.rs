//! [`Wait`]: a bounded wait for another process, and the only clock of the kit.

use std::thread;
use std::time::{Duration, Instant};

/// A bounded wait for something that another process does in its own time.
///
/// Everything else in the repository takes time as an argument. A real server does not, so the kit
/// polls it here, and nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    until: Instant,
}

impl Wait {
    /// A wait of at most this long from now on.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the kit owns the clock of its waits")]
    pub fn at_most(duration: Duration) -> Self {
        Self { until: Instant::now() + duration }
    }

    /// Asks every few milliseconds until there is an answer; `None` when the time ran out first.
    #[expect(clippy::disallowed_methods, reason = "another process gives no event to wait for")]
    pub fn until<T>(self, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(answer) = ask() {
                return Some(answer);
            }
            if Instant::now() >= self.until {
                return None;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Short against a server's start of some 50 ms, long against the cost of asking.
const PAUSE: Duration = Duration::from_millis(5);
