//! A line that says how far a long run is.

use std::io::{IsTerminal, Write};

use super::out::err;

/// Shows a line in place of the last one; nothing where nobody looks.
pub(crate) fn show(line: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[K{line}").and_then(|()| err.flush()));
    }
}

/// Shows how far a run of so many steps is: in place where somebody looks, else twenty times.
pub(crate) fn step(done: u64, of: u64, line: &str) {
    if std::io::stderr().is_terminal() {
        show(line);
    } else if done.is_multiple_of(of.div_ceil(20).max(1)) {
        err!("{line}");
    }
}

/// Ends the line.
pub(crate) fn done() {
    show("");
}
