//! The `cargo sim` command.

mod cli;

use std::process::ExitCode;

/// A run allocates many short strings. The system allocator takes a fifth of the run time, this one
/// half of that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
