//! The command line: what operators and newcomers type.

mod demo;
mod library;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Durable execution on Valkey.
#[derive(Parser)]
#[command(name = "selvedge", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run sample work on the embedded store, with no server, and tell how it ended.
    Demo,
    /// Print the function library as `FUNCTION LOAD` takes it.
    Library(library::Options),
}

/// Runs the command line of this process. Exit codes: 0 done, 1 failed or not as expected, 2 wrong usage.
pub(crate) fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo => return demo::run(),
        Command::Library(options) => library::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output may stop reading: `selvedge library | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("selvedge: {error}");
            ExitCode::FAILURE
        }
    }
}
