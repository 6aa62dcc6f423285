//! `Backoff` and `RetryWindow`: waiting between tries. The delays and the decision whether to try
//! again are [`selvedge_core::retry`]'s; the clock and the random numbers are here.

use std::time::Duration;

use selvedge_core::error::ServerError;
use selvedge_core::retry::{Idempotency, Retry, RetryDelays};
use tokio::time::{Instant, sleep};

/// Growing, jittered delays between tries.
#[derive(Clone, Debug)]
pub struct Backoff(RetryDelays);

impl Backoff {
    /// Delays from `first` to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self(RetryDelays::new(first, longest))
    }

    /// The delay after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        self.0.next(random())
    }

    /// Waits for the delay after one more failure.
    pub async fn wait(&mut self) {
        sleep(self.next_delay()).await;
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// Repeats an idempotent call until it succeeds, cannot succeed, or a time is over.
pub(crate) struct RetryWindow {
    until: Instant,
    backoff: Backoff,
}

impl RetryWindow {
    pub(crate) fn new(retry_for: Duration) -> Self {
        let until = Instant::now() + retry_for.min(FOREVER);
        Self { until, backoff: Backoff::new(DELAY_FIRST, DELAY_LONGEST) }
    }

    /// Waits and answers true when the call that failed with `error` is worth another try.
    pub(crate) async fn allows_retry(&mut self, error: &ServerError) -> bool {
        if error.retry(Idempotency::Idempotent) != Retry::AfterPause {
            return false;
        }
        let delay = self.backoff.next_delay();
        if Instant::now() + delay > self.until {
            return false;
        }
        sleep(delay).await;
        true
    }
}

fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

/// Short after a restart, long while the server stays away.
const DELAY_FIRST: Duration = Duration::from_millis(20);
const DELAY_LONGEST: Duration = Duration::from_secs(1);

/// Stands for "without limit": the clock cannot add the longest [`Duration`].
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_window_ends_with_its_time_and_with_errors_that_do_not_pass() {
        let silence = ServerError::silence("gone");
        assert!(!RetryWindow::new(Duration::ZERO).allows_retry(&silence).await);
        let mut window = RetryWindow::new(Duration::MAX);
        assert!(window.allows_retry(&silence).await);
        assert!(!window.allows_retry(&ServerError::from_reply("NOAUTH no")).await);
        assert!(!window.allows_retry(&ServerError::from_reply("WRONGTYPE no")).await);
    }
}
