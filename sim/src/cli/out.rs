//! Writes to standard output and standard error, also when the reader has closed them.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints a line.
macro_rules! out {
    ($($word:tt)*) => { $crate::cli::out::line(format_args!($($word)*)) };
}
pub(crate) use out;

/// Prints a line to standard error. Failures are ignored.
macro_rules! err {
    ($($word:tt)*) => { $crate::cli::out::err_line(format_args!($($word)*)) };
}
pub(crate) use err;

/// Whether to go on when standard output is closed, since the exit code matters.
static JUDGES: AtomicBool = AtomicBool::new(false);
/// Whether standard output is closed.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// From now on, go on silently when standard output is closed: the exit code is the result.
pub(crate) fn ignore_closed_output() {
    JUDGES.store(true, Ordering::Relaxed);
}

/// Prints a line. If standard output is closed and the exit code is not a result, the process ends
/// with code 0, as in `cargo sim show lease-lost | head -1`.
pub(crate) fn line(words: Arguments<'_>) {
    write(|out| writeln!(out, "{words}"));
}

/// Prints text without a newline.
pub(crate) fn text(text: &str) {
    write(|out| out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints a line to standard error.
pub(crate) fn err_line(words: Arguments<'_>) {
    drop(writeln!(io::stderr().lock(), "{words}"));
}

fn write(words: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) {
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    match words(&mut io::stdout().lock()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            if !JUDGES.load(Ordering::Relaxed) {
                process::exit(0);
            }
            CLOSED.store(true, Ordering::Relaxed);
        }
        Err(error) => {
            err_line(format_args!("cargo sim: cannot write to standard output: {error}"));
            process::exit(1)
        }
    }
}
