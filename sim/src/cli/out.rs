//! What goes to the standard output and the standard error, which somebody may have stopped reading.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints a line.
macro_rules! out {
    ($($word:tt)*) => { $crate::cli::out::line(format_args!($($word)*)) };
}
pub(crate) use out;

/// Prints a line for people to the standard error. Nobody has to read it.
macro_rules! err {
    ($($word:tt)*) => { $crate::cli::out::aside(format_args!($($word)*)) };
}
pub(crate) use err;

/// Whether the command has a verdict to come to, whoever reads along.
static JUDGES: AtomicBool = AtomicBool::new(false);
/// Whether nobody reads any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// From now on the command goes on in silence where nobody reads any more: its exit code counts.
pub(crate) fn go_on_unread() {
    JUDGES.store(true, Ordering::Relaxed);
}

/// Prints a line. Where nobody reads any more and no verdict is awaited there is nothing left to do,
/// and that is no failure: `cargo sim show lease-lost | head -1` got what it wanted.
pub(crate) fn line(words: Arguments<'_>) {
    write(|out| writeln!(out, "{words}"));
}

/// Prints text as it is.
pub(crate) fn text(text: &str) {
    write(|out| out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints a line to the standard error.
pub(crate) fn aside(words: Arguments<'_>) {
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
            aside(format_args!("cargo sim: cannot write to the standard output: {error}"));
            process::exit(1)
        }
    }
}
