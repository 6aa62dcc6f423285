//! [`Pause`]: growing, jittered waits between tries, so that nobody retries hot or in step.

use std::time::Duration;

/// Doubles from its first length to its longest; each wait is drawn from its upper half.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pause {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next wait, longer than the one before.
    pub(crate) fn grow(&mut self) -> Duration {
        let length = self.next;
        self.next = (length * 2).min(self.longest);
        let half = length / 2;
        half + half.mul_f64(dice())
    }

    /// Begins again with the first length.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A number from 0 to 1.
fn dice() -> f64 {
    let bytes = uuid::Uuid::new_v4().into_bytes();
    f64::from(u16::from_le_bytes([bytes[0], bytes[1]])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_begin_again() {
        let ms = Duration::from_millis;
        let mut pause = Pause::new(ms(100), ms(350));
        for (least, most) in [(50, 100), (100, 200), (175, 350), (175, 350)] {
            let wait = pause.grow();
            assert!(wait >= ms(least) && wait <= ms(most), "{wait:?}");
        }
        pause.reset();
        assert!(pause.grow() <= ms(100));
    }
}
