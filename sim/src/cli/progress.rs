//! A line that says how far a long run is.

use std::io::{IsTerminal, Write};

/// Shows a line in place of the last one; nothing where nobody looks.
pub(crate) fn show(line: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[K{line}").and_then(|()| err.flush()));
    }
}

/// Ends the line.
pub(crate) fn done() {
    show("");
}
