//! What goes to the standard output, which somebody may have stopped reading.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Prints a line.
macro_rules! out {
    ($($word:tt)*) => { $crate::cli::out::line(format_args!($($word)*)) };
}
pub(crate) use out;

/// Prints a line. Where nobody reads any more there is nothing left to do, and that is no failure:
/// `cargo sim show lease-lost | head -1` got what it wanted.
pub(crate) fn line(words: Arguments<'_>) {
    written(writeln!(io::stdout().lock(), "{words}"));
}

/// Prints text as it is.
pub(crate) fn text(text: &str) {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

fn written(done: io::Result<()>) {
    match done {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            eprintln!("cargo sim: cannot write to the standard output: {error}");
            process::exit(1)
        }
    }
}
