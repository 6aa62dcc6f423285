//! A progress line for long runs.

use std::io::{IsTerminal, Write};

use super::out::err;

/// Replaces the progress line, on a terminal only.
pub(crate) fn show(line: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[K{line}").and_then(|()| err.flush()));
    }
}

/// Shows progress: in place on a terminal, otherwise as twenty lines in all.
pub(crate) fn step(done: u64, of: u64, line: &str) {
    if std::io::stderr().is_terminal() {
        show(line);
    } else if done.is_multiple_of(of.div_ceil(20).max(1)) {
        err!("{line}");
    }
}

/// Clears the progress line.
pub(crate) fn done() {
    show("");
}
