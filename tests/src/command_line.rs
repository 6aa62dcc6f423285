//! The command lines of the test programs: options, paths and output.

use std::env;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::print_error;

/// The clone in which a program is run, or the one in which it was built.
#[must_use]
pub fn clone_root() -> PathBuf {
    let here = env::current_dir().ok().filter(|here| here.join("tests/spec").is_dir());
    here.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(""))
}

/// The value of an option, if it is within its bounds. A run that checks nothing is refused, and so
/// is one that never ends.
pub fn within(name: &str, number: u64, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let (least, most) = (bounds.start(), bounds.end());
    let refused = || format!("{name} must be {least} to {most}, not {number}");
    bounds.contains(&number).then_some(number).ok_or_else(refused)
}

/// The exit code of a program: whether its checks passed, or the error that it prints.
#[must_use]
pub fn exit_code(passed: Result<bool, String>) -> ExitCode {
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// As many threads as the machine has cores.
#[must_use]
pub fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Seeds that leave room to count up from.
pub const SEEDS: RangeInclusive<u64> = 0..=u64::MAX / 2;

/// Counts of runs, calls or operations.
pub const COUNTS: RangeInclusive<u64> = 1..=1_000_000_000;

/// Steps of one history or sequence.
pub const STEPS: RangeInclusive<u64> = 1..=10_000;

/// Prints a line; ignores a closed pipe (`| head`), so that the result of the run stays the same.
#[macro_export]
macro_rules! print_line {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stdout(), $($words)*));
    }};
}

/// Prints a line to standard error; ignores a closed pipe.
#[macro_export]
macro_rules! print_error {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stderr(), $($words)*));
    }};
}
