//! `Backoff`: waiting between tries. The delays are [`selvedge_core::retry`]'s; the clock and the
//! random numbers are here.

use std::time::Duration;

use selvedge_core::retry::RetryDelays;
use tokio::time::sleep;

/// Growing, jittered delays between tries.
#[derive(Clone, Debug)]
pub(crate) struct Backoff(RetryDelays);

impl Backoff {
    /// Delays from `first` to `longest`.
    #[must_use]
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self(RetryDelays::new(first, longest))
    }

    /// The delay after one more failure.
    pub(crate) fn next_delay(&mut self) -> Duration {
        self.0.next(random())
    }

    /// Waits for the delay after one more failure.
    pub(crate) async fn wait(&mut self) {
        sleep(self.next_delay()).await;
    }

    /// Starts again with the first delay.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
