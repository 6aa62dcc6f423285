//! The `selvedge` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    selvedge_cli::run()
}
