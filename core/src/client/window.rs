//! How long a call is repeated, and with which pauses.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::error::ServerError;
use crate::retry::{Idempotency, Retry, RetryDelays};
use crate::time::LocalTime;

/// Repeats a call until a time is over.
#[derive(Debug)]
pub(super) struct RetryWindow {
    until: LocalTime,
    delays: RetryDelays,
}

impl RetryWindow {
    pub(super) fn new(now: LocalTime, retry_for: Duration) -> Self {
        let delays = RetryDelays::new(DELAY_FIRST, DELAY_LONGEST);
        Self { until: now.after(retry_for), delays }
    }

    /// When to repeat the call that failed with this error; none when that is of no use, or the
    /// time is over.
    pub(super) fn retry_at(
        &mut self,
        now: LocalTime,
        error: &ServerError,
        jitter: &mut Jitter,
    ) -> Option<LocalTime> {
        match error.retry(Idempotency::Idempotent) {
            Retry::AfterPause => {}
            // Somebody waits for the result: it cannot wait for an operator.
            Retry::AfterRepair | Retry::Never => return None,
        }
        let at = now.after(self.delays.next(jitter.next()));
        (at <= self.until).then_some(at)
    }
}

/// Random numbers for pauses, from a seed. Most procedures never need one.
#[derive(Debug)]
pub(super) struct Jitter {
    seed: u64,
    random: Option<ChaCha8Rng>,
}

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, random: None }
    }

    fn next(&mut self) -> u64 {
        let seed = self.seed;
        self.random.get_or_insert_with(|| ChaCha8Rng::seed_from_u64(seed)).next_u64()
    }
}

/// Short after a restart, long while the server stays away.
const DELAY_FIRST: Duration = Duration::from_millis(20);
const DELAY_LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_with_its_time_and_with_errors_that_do_not_pass() {
        let (now, silence) = (LocalTime(5), ServerError::silence("gone"));
        let mut jitter = Jitter::new(1);
        let mut closed = RetryWindow::new(now, Duration::ZERO);
        assert_eq!(closed.retry_at(now, &silence, &mut jitter), None);
        let mut window = RetryWindow::new(now, Duration::MAX);
        let at = window.retry_at(now, &silence, &mut jitter).unwrap();
        assert!((LocalTime(15)..=LocalTime(25)).contains(&at), "{at:?}");
        for lasting in ["NOAUTH no", "WRONGTYPE no"] {
            let error = ServerError::from_reply(lasting);
            assert_eq!(window.retry_at(now, &error, &mut jitter), None, "{lasting}");
        }
    }
}
