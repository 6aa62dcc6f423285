//! What the programs of this package are told, and what they say.

use std::ops::RangeInclusive;

/// A number that was given to an option. A run that could show nothing is refused, and one that never
/// ends as well.
pub fn within(name: &str, number: u64, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let (least, most) = (bounds.start(), bounds.end());
    let refused = || format!("{name} must be {least} to {most}, not {number}");
    bounds.contains(&number).then_some(number).ok_or_else(refused)
}

/// Seeds from which one can count on.
pub const SEEDS: RangeInclusive<u64> = 0..=u64::MAX / 2;

/// As many as anybody waits for.
pub const COUNTS: RangeInclusive<u64> = 1..=1_000_000_000;

/// Steps of one history or sequence.
pub const STEPS: RangeInclusive<u64> = 1..=10_000;

/// Prints a line, unless nobody listens any more (`| head`): the work and its verdict are the same.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stdout(), $($words)*));
    }};
}

/// Prints a line to the standard error, unless nobody listens any more.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stderr(), $($words)*));
    }};
}
