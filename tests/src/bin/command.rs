//! The `selvedge` command as a program of this package, whose tests run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    selvedge_cli::run()
}
